"""The code of two runs, fetched to tell which files differ."""

import tarfile
from pathlib import Path

from xmcloud.cli.revisions import CannotAskRemote, distance
from xmcloud.core.errors import NotFound
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.comparing.differences import Change, Difference, Pair, Section
from xmcloud.xm_cloud.comparing.facts import DIFF
from xmcloud.xm_cloud.comparing.texts import Files, changed, of_archive, of_patch, unified

_ARCHIVE, _COMMIT = "archive", "commit"
_NAMES = 5


class CodeOf:
    """Adds to differences in code what they are; collects them line by line in `patches`."""

    def __init__(self, client: Client, folder: Path, *, archives: bool) -> None:
        self._client, self._folder, self._archives = client, folder, archives
        self._seen: set[tuple[str, str]] = set()
        self.patches: list[str] = []

    def explained(self, pair: Pair) -> Pair:
        return pair.evolve(differences=[self._explained(pair, d) for d in pair.differences])

    def _explained(self, pair: Pair, each: Difference) -> Difference:
        if each.section is not Section.CODE or each.change is Change.EQUAL:
            return each
        a, b = str(each.a or ""), str(each.b or "")
        if each.name == _COMMIT and a and b:
            return each.evolve(note=self._distance(a, b))
        if each.name == DIFF or (each.name == _ARCHIVE and self._archives and a and b):
            return each.evolve(note=self._files(pair, each.name, a, b))
        return each

    def _distance(self, a: str, b: str) -> str:
        try:
            return distance(a, b, self._folder)
        except CannotAskRemote:
            return ""

    def _files(self, pair: Pair, kind: str, a: str, b: str) -> str:
        """Which differ, in a few words."""
        try:
            before, after = self._fetched(kind, a), self._fetched(kind, b)
        except NotFound:
            return "not stored any more"
        except tarfile.TarError:
            return "not readable"
        if (a, b) not in self._seen:
            self._seen.add((a, b))
            self.patches += unified(before, after, (pair.a, pair.b))
        paths = changed(before, after)
        more = f" and {len(paths) - _NAMES} more" if len(paths) > _NAMES else ""
        return f"{', '.join(paths[:_NAMES])}{more}"

    def _fetched(self, kind: str, digest: str) -> Files:
        if not digest:
            return {}
        data = self._client.get_blob(digest)
        return of_archive(data) if kind == _ARCHIVE else of_patch(data)
