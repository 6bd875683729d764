"""Changes of files as text."""

import difflib
import io
import tarfile
from collections.abc import Iterator, Mapping

from xmcloud.core.patches import files_of

Files = Mapping[str, bytes]


def of_patch(patch: bytes | None) -> Files:
    """What each file's part of a git patch says; nothing for none."""
    return files_of(patch or b"")


def of_archive(data: bytes) -> Files:
    """The files of a tar, by path."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {
            member.name: file.read()
            for member in tar
            if (file := tar.extractfile(member)) is not None
        }


def changed(a: Files, b: Files) -> list[str]:
    """The paths whose content differs, or is in one of the two alone."""
    return sorted(path for path in {*a, *b} if a.get(path) != b.get(path))


def unified(a: Files, b: Files, names: tuple[str, str]) -> Iterator[str]:
    """Lines of a unified diff for each such path; `names` stand before the paths."""
    for path in changed(a, b):
        before, after = (side.get(path, b"") for side in (a, b))
        if b"\0" in before + after:
            yield f"Binary files {names[0]}/{path} and {names[1]}/{path} differ"
            continue
        yield from difflib.unified_diff(
            before.decode(errors="replace").splitlines(),
            after.decode(errors="replace").splitlines(),
            f"{names[0]}/{path}",
            f"{names[1]}/{path}",
            lineterm="",
        )
