"""Which submodules a checkout has, and where they come from."""

from dataclasses import dataclass
from pathlib import Path

from xmcloud.worker.git.commands import Git


@dataclass(frozen=True, slots=True)
class Submodule:
    """One that the index names. `path` is relative, `url` as .gitmodules has it."""

    path: str
    url: str
    commit: str


async def submodules(git: Git, work: Path) -> list[Submodule]:
    """Those that .gitmodules gives an address; git leaves the folders of others empty, too."""
    listed = work / ".gitmodules"
    if listed.is_symlink() or not listed.is_file():
        return []
    addresses = await _addresses(git, work)
    found = []
    for line in await git.answer("list the files", work, "ls-files", "--stage", "-z"):
        facts, path = line.split("\t", 1)
        mode, commit, _ = facts.split(" ")
        if mode == "160000" and path in addresses:
            found.append(Submodule(path, addresses[path], commit))
    return found


async def _addresses(git: Git, work: Path) -> dict[str, str]:
    query = ("config", "--file", ".gitmodules", "--null", "--list")
    values: dict[str, dict[str, str]] = {}
    for entry in await git.answer("read .gitmodules", work, *query):
        key, _, value = entry.partition("\n")
        section, _, field = key.rpartition(".")
        values.setdefault(section, {})[field] = value
    return {
        module["path"]: module["url"]
        for module in values.values()
        if "path" in module and "url" in module and module.get("update") != "none"
    }
