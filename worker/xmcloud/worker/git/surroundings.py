"""What git commands find around them: no prompts, no hooks, nobody's preferences."""

from collections.abc import Mapping

from xmcloud.worker.git.hosts import Credentials
from xmcloud.worker.setup import Access

_GUARDS = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("safe.bareRepository", "all"),
    ("advice.detachedHead", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.prune", "false"),
    # A pack is there as a whole or not at all; objects on their own may lack others.
    ("fetch.unpackLimit", "1"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "120"),
]
_SILENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
_OF_THE_MACHINE = ("GIT_SSH", "GIT_SSL_", "GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_PROXY_")


def local(base: Mapping[str, str]) -> Access:
    """For what needs no network: with no settings but the repository's own."""
    kept = {name: value for name, value in base.items() if not name.startswith("GIT_")}
    own = {
        **kept,
        **_SILENT,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file",
    }
    return Access(_configured(own, _GUARDS))


def network(base: Mapping[str, str], lent: Credentials, protocols: str) -> Access:
    """For fetching: with the machine's own credentials, and over these the lent ones."""
    own = {**_of_the_machine(base), **_SILENT, "LC_ALL": "C", "GIT_ALLOW_PROTOCOL": protocols}
    return Access(_configured({**own, **lent.variables}, [*_GUARDS, *lent.settings]), lent.secrets)


def installer(base: Mapping[str, str], lent: Credentials) -> Access:
    """For a program that runs git itself."""
    own = {**_of_the_machine(base), **_SILENT, **lent.variables}
    return Access(_configured(own, lent.settings), lent.secrets)


def _of_the_machine(base: Mapping[str, str]) -> dict[str, str]:
    """Without variables that name a repository, or have git tell more than is good."""
    return {
        name: value
        for name, value in base.items()
        if not name.startswith("GIT_") or name.startswith(_OF_THE_MACHINE)
    }


def _configured(environment: Mapping[str, str], settings: list[tuple[str, str]]) -> dict[str, str]:
    present = int(environment.get("GIT_CONFIG_COUNT") or 0)
    added = {"GIT_CONFIG_COUNT": str(present + len(settings))}
    for number, (key, value) in enumerate(settings, present):
        added |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**environment, **added}
