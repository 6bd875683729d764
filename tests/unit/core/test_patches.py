import subprocess
from pathlib import Path

from xmcloud.core.patches import CARRIED, carried, files_of
from xmcloud.runs.capture import local_code

FILES = {
    "plain.txt": b"one\ndiff --git a/x b/x\n",
    "a b/of b/c d.txt": b"two\n",
    "größe\t\"'.txt": b"three\n",
    "data.bin": bytes(range(256)),
    f"{CARRIED}own/__init__.py": b"four\n",
    f"{CARRIED}own/größe.py": b"five\n",
    "notebook.ipynb.py": b"six\n",
}


def patch_of(folder: Path, files: dict[str, bytes]) -> bytes:
    """Adds them to an empty repository."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    words = ["git", "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "--full-index"]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True).stdout


def test_a_patch_is_told_apart_by_file(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, FILES)
    files = files_of(patch)
    assert set(files) == set(FILES)
    assert b"".join(files.values()) == patch
    assert b"+three" in files["größe\t\"'.txt"]
    assert files_of(b"") == {}


def test_a_renamed_file_has_its_new_path() -> None:
    assert [*files_of(b"diff --git a/x b/other\nrename from x\n")] == ["other"]
    assert [*files_of(b'diff --git a/x "b/\\303\\266"\nrename from x\n')] == ["ö"]


def test_what_is_carried_is_kept(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, FILES)
    own = {name for name in FILES if name.startswith(CARRIED)}
    assert set(files_of(carried(patch))) == own
    assert set(files_of(carried(patch, "notebook.ipynb.py"))) == {*own, "notebook.ipynb.py"}
    assert carried(patch_of(tmp_path / "other", {"a": b"b\n"})) == b""
    assert f"{local_code.CARRIED}/" == CARRIED
