"""What a person can do when a repository cannot be fetched."""

import re

from xmcloud.core.repositories import Repository
from xmcloud.worker.setup import SetupFailed, StepFailed

_CREDENTIALS = (
    "Log in with git on the worker's machine (a credential helper, or an ssh key without"
    " passphrase or in an agent), or name a token under `git` in the worker's worker.json."
)
_REFUSED = (
    "Authentication failed|could not read (Username|Password)|Permission denied[ ,]+[(p]"
    "|Access denied|requested URL returned error: 40[13]|Too many authentication failures"
)
_UNREACHABLE = (
    "[Cc]ould not resolve host|Failed to connect|Couldn't connect|Connection (refused|reset"
    "|timed out|closed)|Operation (timed out|too slow)|No route to host|is unreachable"
    "|certificate|SSL"
)
_CAUSES = [
    (
        "Host key verification failed",
        "its host key is not known",
        "Connect with ssh once on the worker's machine, or add the key to ~/.ssh/known_hosts.",
    ),
    (
        _REFUSED,
        "it did not accept the credentials, or there are none",
        _CREDENTIALS,
    ),
    (
        _UNREACHABLE,
        "it cannot be reached",
        "Check its address and the network of the worker's machine, then launch the job again.",
    ),
    (
        "not found|does not exist|does not appear to be a git repository|not a git repository",
        "it has no such repository, or hides it from these credentials",
        f"Check the address. {_CREDENTIALS}",
    ),
]


def cannot_fetch(repository: Repository, error: StepFailed) -> SetupFailed | None:
    """What went wrong with the host or the repository; None when it is something else."""
    for pattern, what, remedy in _CAUSES:
        if re.search(pattern, error.output):
            where = repository.host or "this machine"
            return SetupFailed(
                f"Cannot fetch {repository.url} from {where}: {what}. {remedy}\n{error.output}"
            )
    return None


def unknown_commit(repository: Repository, commit: str) -> SetupFailed:
    return SetupFailed(
        f"Cannot fetch commit {commit}: {repository.url} has no such commit."
        " Push it, or capture the experiment again."
    )


def does_not_apply(commit: str, error: StepFailed) -> SetupFailed:
    """Names the first file that the patch does not fit."""
    found = re.search(r"^error: (?:patch failed: (.+):\d+|(.+): \w.*)$", error.output, re.MULTILINE)
    what = f"{found[1] or found[2]} is different there" if found else "they are no patch for it"
    return SetupFailed(
        f"Cannot apply the uncommitted changes to commit {commit}: {what}."
        f" Capture the experiment again.\n{error.output}"
    )
