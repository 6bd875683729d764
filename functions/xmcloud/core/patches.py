"""Git patches as the files that they change."""

import re

CARRIED = ".xmcloud-local/"
"""Where a recorded run has the code that came from outside of its repository."""

_START = re.compile(rb"^diff --git (.*)$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}


def files_of(patch: bytes) -> dict[str, bytes]:
    """The part of each file by the path that the file has afterwards, in order."""
    starts = [*_START.finditer(patch)]
    ends = [*(start.start() for start in starts[1:]), len(patch)]
    return {
        _path(start[1]): patch[start.start() : end]
        for start, end in zip(starts, ends, strict=False)
    }


def carried(patch: bytes, script: str = "") -> bytes:
    """What of it is no change of the repository: code from outside, and `script` if it is there."""
    files = files_of(patch)
    return b"".join(files[path] for path in files if path.startswith(CARRIED) or path == script)


def _path(names: bytes) -> str:
    """Of `a/x b/x`; both are the same but for a renamed file."""
    before, after = names[: len(names) // 2], names[len(names) // 2 + 1 :]
    if _plain(before)[2:] != _plain(after)[2:]:
        after = names[names.rfind(b' "b/' if names.endswith(b'"') else b" b/") + 1 :]
    return _plain(after)[2:].decode(errors="replace")


def _plain(name: bytes) -> bytes:
    """Without the quotes and escapes of a name that has unusual characters."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(_unescaped, name[1:-1])


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 255]) if len(code) == 3 else _LETTERS.get(code, code)
