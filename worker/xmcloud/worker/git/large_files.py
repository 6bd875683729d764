"""Files that the repository only points to: Git LFS."""

from collections.abc import Callable
from pathlib import Path

from xmcloud.worker.git.commands import Git
from xmcloud.worker.setup import Access, SetupFailed, StepFailed

_POINTER = b"version https://git-lfs.github.com/spec/"


async def fetch_large_files(git: Git, work: Path, access: Callable[[], Access]) -> None:
    """Raises `SetupFailed` when one of them stays a pointer."""
    pointers = await _pointers(git, work)
    if not pointers:
        return
    if not git.large_files:
        raise SetupFailed(
            f"Cannot fetch the large file {pointers[0]!r}: git-lfs is missing on the worker's"
            " machine. Install it there."
        )
    try:
        await git.run("fetch the large files", work, "lfs", "pull", "origin", access=access())
    except StepFailed as error:
        raise _cannot_fetch(pointers[0], f"\n{error.output}") from error
    if pointers := await _pointers(git, work):
        raise _cannot_fetch(pointers[0])


def _cannot_fetch(name: str, output: str = "") -> SetupFailed:
    return SetupFailed(
        f"Cannot fetch the large file {name!r}. Push it (`git lfs push`), see that the worker's"
        f" credentials are good for the server's large files, and launch the job again.{output}"
    )


async def _pointers(git: Git, work: Path) -> list[str]:
    query = ("ls-files", "-z", "--", ":(top,attr:filter=lfs)")
    names = await git.answer("list the large files", work, *query)
    return [name for name in names if _is_pointer(work / name)]


def _is_pointer(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER
