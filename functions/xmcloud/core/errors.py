"""What can go wrong, as types: each says what happened and what to do next."""

from collections.abc import Sequence
from typing import ClassVar


class XmcloudError(Exception):
    """A refusal that a person can act on.

    `slug` names the kind for machines, `status` is its HTTP status (RFC 9457 problem details),
    `detail` says what happened and `remedy` what to do next.
    """

    slug: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500

    def __init__(self, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}".strip()


class InvalidInput(XmcloudError):
    """A field of a request holds a value that is not allowed."""

    slug, title, status = "invalid-input", "Invalid input", 422

    def __init__(self, field: str, value: object, expected: str) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = f"{shown[:77]}..."
        super().__init__(f"{field} is {shown}.", f"It must be {expected}.")
        self.field = field


class NotFound(XmcloudError):
    """Nothing has that id."""

    slug, title, status = "not-found", "Not found", 404

    def __init__(self, kind: str, id: str, remedy: str = "") -> None:
        super().__init__(f"There is no {kind} {id!r}.", remedy)


class AlreadyExists(XmcloudError):
    """Something else has that name."""

    slug, title, status = "already-exists", "Already exists", 409

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"There is already a {kind} {id!r}.", "Choose another name.")


class NotEmpty(XmcloudError):
    """An import goes only into a control plane that has no experiments yet."""

    slug, title, status = "not-empty", "Not empty", 409


class IllegalTransition(XmcloudError):
    """The state of the job does not allow the action."""

    slug, title, status = "illegal-transition", "Not possible in this state", 409

    def __init__(self, action: str, job: str, state: str, legal_from: Sequence[str]) -> None:
        super().__init__(
            f"Cannot {action} job {job}: it is {state}.",
            f"That is possible from: {', '.join(legal_from)}.",
        )


class StaleFence(XmcloudError):
    """A write named a fence that is not the one of the attempt under way."""

    slug, title, status = "stale-fence", "Another attempt holds this job", 409

    def __init__(self, job: str, fence: int, current: str) -> None:
        super().__init__(
            f"Attempt {fence} of job {job} is over: {current}.",
            "Abort its process and discard its results.",
        )


class LeaseLost(XmcloudError):
    """The session of the worker is over: it expired, was closed, or a newer one replaced it."""

    slug, title, status = "lease-lost", "The worker's lease is over", 409

    def __init__(self, session: str) -> None:
        super().__init__(
            f"The lease of worker session {session} is over.",
            "Abort its processes and open a new session.",
        )


class KeyReused(XmcloudError):
    """An idempotency key came a second time with another request."""

    slug, title, status = "idempotency-key-reused", "Idempotency key reused", 422

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency key {key!r} was already used for a different request.",
            "Use a new key for a new request.",
        )


class Contended(XmcloudError):
    """Too many others changed the same documents meanwhile."""

    slug, title, status = "contended", "Busy", 503

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is being changed by too many others.", "Try again in a moment.")


class Unauthorized(XmcloudError):
    """The request carries no valid token."""

    slug, title, status = "unauthorized", "Not signed in", 401


class Forbidden(XmcloudError):
    """Whoever asks is known, but may not do that."""

    slug, title, status = "forbidden", "Not allowed", 403

    def __init__(self, who: str, permission: str, project: str) -> None:
        scopes = {"*": "everywhere", "": "anywhere"}
        where = scopes.get(project, f"in project {project}")
        super().__init__(
            f"{who} may not {permission} {where}.",
            "Ask an admin for the role: xmcloud member set; yours: xmcloud whoami.",
        )


class RateLimited(XmcloudError):
    """Too many requests came from one caller."""

    slug, title, status = "rate-limited", "Too many requests", 429

    def __init__(self, who: str, seconds: float) -> None:
        super().__init__(f"Too many requests of {who}.", f"Go on in {seconds:.0f} s.")
        self.seconds = seconds


class OverQuota(XmcloudError):
    """The quota of a project or a person does not allow it."""

    slug, title, status = "over-quota", "Over quota", 409


class TooLarge(XmcloudError):
    """A body, an archive or a definition exceeds its limit."""

    slug, title, status = "too-large", "Too large", 413

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} has {size:,} bytes; the limit is {limit:,}.",
            "Move large data to files or a bucket and pass its name.",
        )


class Unavailable(XmcloudError):
    """A service behind the control plane does not answer."""

    slug, title, status = "unavailable", "Unavailable", 503


class StorageFull(XmcloudError):
    """The disk behind the store or the blobs has no room."""

    slug, title, status = "storage-full", "No space left", 507

    def __init__(self, path: str) -> None:
        super().__init__(
            f"No space is left on the disk that holds {path}.",
            "Free some space; what was refused will be sent again.",
        )


class CorruptStore(XmcloudError):
    """The database file is damaged."""

    slug, title, status = "corrupt-store", "The database is damaged", 500

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"The database {path} cannot be read: {why}.",
            "Restore it from a backup, or move it away to start with an empty one.",
        )
