"""Files that their owner alone can read."""

import os
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

from xmcloud.core.errors import Unauthorized


def read_private(path: Path) -> str | None:
    """Its text, None if it is not there.

    Raises `Unauthorized` for one that others can read or own, or that cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Unauthorized(f"{path} cannot be read: {why}.", f"Look at it: ls -l {path}") from None
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
        raise Unauthorized(
            f"{path} is readable or owned by somebody else.",
            f"Make it yours alone: chown $USER {path}; chmod 600 {path}.",
        )
    return text


def write_private(path: Path, text: str) -> None:
    """Replaces the file as a whole. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
    ) as file:
        try:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
