"""How documents that an earlier version wrote get the form in which this one queries them.

A migration never changes once a version was released with it: it knows documents as JSON, and
not today's models. Every version one before reads what it makes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Self

from pydantic import Field

from xmcloud.core.base import Model, Time
from xmcloud.core.documents import Collection
from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import JsonObject
from xmcloud.core.resources import is_gpu
from xmcloud.core.version import VERSION

GRACE = timedelta(minutes=10)
"""No instance of the version before answers a request so long after the upgrade began."""

Address = tuple[str, str]
"""A document's collection and id."""


@dataclass(frozen=True, slots=True)
class Migration:
    """`change` makes the newer form of a document's data, None if it has it already.

    It gets the data of the document that `needs` names, if there is one.
    """

    name: str
    collection: str
    change: Callable[[JsonObject, JsonObject | None], JsonObject | None]
    needs: Callable[[JsonObject], Address | None] = lambda data: None


def _body(data: JsonObject) -> JsonObject:
    found = json.loads(str(data["body"]))
    if not isinstance(found, dict):
        raise ValueError("its body is no object")
    return found


def _text(body: JsonObject) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _project_of_experiment(data: JsonObject, _: JsonObject | None) -> JsonObject | None:
    if "project" in data:
        return None
    return {**data, "project": _body(data).get("project", "default")}


_UNKNOWN = "unknown"
"""What stands in a job of before that a request wrote in today's form ahead of the migration."""


def _experiment_of_job(data: JsonObject) -> Address | None:
    if "project" in data and data.get("creator") != _UNKNOWN:
        return None
    return ("experiments", str(data["experiment_id"])) if "experiment_id" in data else None


def _owner_of_job(data: JsonObject, experiment: JsonObject | None) -> JsonObject | None:
    about = _body(experiment) if experiment else {}
    owner: JsonObject = {
        "project": about.get("project", "default"),
        "creator": about.get("creator", _UNKNOWN),
    }
    if "project" in data and (data["creator"] != _UNKNOWN or owner.items() <= data.items()):
        return None
    body = _body(data)
    holds = data["session"] != "" and _wants_gpus(body)
    return {**data, **owner, "holds_gpus": holds, "body": _text({**body, **owner})}


def _wants_gpus(body: JsonObject) -> bool:
    spec = body["spec"]
    resources = spec.get("resources") if isinstance(spec, dict) else None
    return isinstance(resources, dict) and any(
        is_gpu(name) for name, amount in resources.items() if amount
    )


MIGRATIONS = (
    Migration("experiments are of a project", "experiments", _project_of_experiment),
    Migration("jobs name their owner and hold GPUs", "jobs", _owner_of_job, _experiment_of_job),
)
"""In order: the schema's version is how many of them were made."""

LATEST = len(MIGRATIONS)


class NewerSchema(XmcloudError):
    """A later version has brought the store to a form that this one does not know."""

    slug, title, status = "newer-schema", "The store is of a newer version", 503

    def __init__(self, schema: int, by: str) -> None:
        super().__init__(
            f"xmcloud {by} has brought this store to schema {schema}; "
            f"this is xmcloud {VERSION}, which knows schemas up to {LATEST}.",
            f"Install xmcloud {by} or newer for the control plane, or bring back a backup of "
            "the store from before that upgrade.",
        )


class Schema(Model):
    """How far the documents of a store are; one a store.

    `version` holds for every document. The passes that lead to `goal` look through the
    collection of each migration in turn: now, from `cursor`, through that of `step`, 0 between
    passes. A pass that `changed` something, and the first, are followed by another at `next_at`.
    """

    version: Annotated[int, Field(ge=0)] = 0
    by: str = "0.1.0"
    goal: int = 0
    step: int = 0
    cursor: str | None = None
    changed: bool = False
    next_at: Time | None = None

    def require_known(self) -> None:
        """Raises `NewerSchema`."""
        if self.version > LATEST:
            raise NewerSchema(self.version, self.by)

    def looking(self, now: datetime) -> Self | None:
        """With a pass under way; None while there is none to make."""
        if self.version >= LATEST:
            return None
        if self.goal != LATEST:
            begun = {"goal": LATEST, "step": self.version + 1, "changed": False}
            return self.evolve(**begun, cursor=None, next_at=None)
        if self.step:
            return self
        if self.next_at is not None and now < self.next_at:
            return None
        return self.evolve(step=self.version + 1, cursor=None, changed=False)

    def looked(self, cursor: str | None, now: datetime) -> Self:
        """After a page of the step's collection, which goes on at the cursor."""
        if cursor is not None:
            return self.evolve(cursor=cursor)
        if self.step < self.goal:
            return self.evolve(step=self.step + 1, cursor=None)
        if self.changed or self.next_at is None:
            return self.evolve(step=0, cursor=None, next_at=now + GRACE)
        return self.evolve(version=self.goal, by=VERSION, step=0, cursor=None, next_at=None)


class SchemaStatus(Model):
    """What is told of a store's schema."""

    version: int = Field(description="That every document has.")
    latest: int = Field(description="That this version of the control plane brings them to.")
    next_look: Time | None = Field(None, description="When all are looked through once more.")


SCHEMA = Collection("schema", Schema, lambda schema: "schema", lambda schema: {})


@dataclass(slots=True)
class SchemaSeen:
    """What a process knows of its store: that it is not newer, that it is done, or when not."""

    known: bool = False
    done: bool = False
    next_at: datetime | None = None

    def rests(self, now: datetime) -> bool:
        return self.done or (self.next_at is not None and now < self.next_at)
