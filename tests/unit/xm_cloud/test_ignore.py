"""What is left out, and that git would leave out the same."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from xmcloud.xm_cloud.archives.ignore import files_below


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in files_below(folder)]


def test_ignored_files_stay_out(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*.ckpt\n/data/\n!keep.ckpt\n")
    put(tmp_path / "pkg" / ".gitignore", "secret\n!b.ckpt\n")
    for name in (
        "a.ckpt", "keep.ckpt", "data/big", "pkg/data/small", "pkg/secret", "secret",
        "pkg/a.ckpt", "pkg/b.ckpt",
    ):  # fmt: skip
        put(tmp_path / name)
    assert names(tmp_path) == [
        ".gitignore", "keep.ckpt", "pkg/.gitignore", "pkg/b.ckpt", "pkg/data/small", "secret",
    ]  # fmt: skip


def test_what_tools_keep_for_themselves_stays_out(tmp_path: Path) -> None:
    put(tmp_path / ".xmcloudignore", "!.git\n!__pycache__\n")
    for name in (
        ".git/config", "__pycache__/a.pyc", "pkg/__pycache__/a.pyc", ".mypy_cache/x",
        ".pytest_cache/x", ".ruff_cache/x", "env/pyvenv.cfg", "env/bin/python", "a.py",
    ):  # fmt: skip
        put(tmp_path / name)
    assert names(tmp_path) == [".xmcloudignore", "a.py"]


def test_xmcloudignore_decides_over_gitignore(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*.csv\n")
    put(tmp_path / ".xmcloudignore", "!needed.csv\nnotes/\n*.log\n")
    put(tmp_path / "deep" / ".gitignore", "needed.csv\n!a.log\n")
    for name in ("needed.csv", "other.csv", "notes/a", "main.py", "deep/needed.csv", "deep/a.log"):
        put(tmp_path / name)
    assert names(tmp_path) == [
        ".gitignore", ".xmcloudignore", "deep/.gitignore", "deep/needed.csv", "main.py",
        "needed.csv",
    ]  # fmt: skip


def test_the_rules_of_the_repository_count_in_a_folder_of_it(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "outside\n")
    put(tmp_path / "repo" / ".git" / "HEAD")
    put(tmp_path / "repo" / ".git" / "info" / "exclude", "excluded\n")
    put(tmp_path / "repo" / ".gitignore", "/jobs/train/local.py\nsecret\n")
    put(tmp_path / "repo" / "jobs" / ".xmcloudignore", "notes\n")
    for name in ("local.py", "secret", "outside", "train.py", "excluded", "notes"):
        put(tmp_path / "repo" / "jobs" / "train" / name)
    assert names(tmp_path / "repo" / "jobs" / "train") == ["outside", "train.py"]


def test_without_a_repository_no_folder_above_counts(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*\n")
    put(tmp_path / "code" / "a.py")
    assert names(tmp_path / "code") == ["a.py"]


def test_a_folder_that_is_ignored_can_be_named(tmp_path: Path) -> None:
    put(tmp_path / ".git" / "HEAD")
    put(tmp_path / ".gitignore", "/build/\n*.log\n")
    put(tmp_path / "build" / "code" / "a.py")
    put(tmp_path / "build" / "code" / ".gitignore", "*.tmp\n")
    put(tmp_path / "build" / "code" / "b.tmp")
    assert names(tmp_path / "build" / "code") == [".gitignore", "a.py"]


def test_a_repository_inside_has_rules_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / ".git" / "HEAD")
    put(tmp_path / ".gitignore", "*.csv\n")
    put(tmp_path / ".xmcloudignore", "*.log\n")
    put(tmp_path / "inner" / ".git", "gitdir: ../.git/modules/inner\n")
    put(tmp_path / ".git" / "modules" / "inner" / "info" / "exclude", "mine\n")
    for name in ("a.csv", "inner/a.csv", "inner/a.log", "inner/mine"):
        put(tmp_path / name)
    assert names(tmp_path) == [".gitignore", ".xmcloudignore", "inner/a.csv"]


def test_a_work_tree_shares_the_list_of_its_repository(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *name, *arguments], cwd=tmp_path / "main", check=True)

    (tmp_path / "main").mkdir()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "../tree")
    put(tmp_path / "main" / ".git" / "info" / "exclude", "secret\n")
    put(tmp_path / "tree" / "secret")
    put(tmp_path / "tree" / "a.py")
    assert names(tmp_path / "tree") == ["a.py"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "code" / "a.py")
    (tmp_path / "code" / "up").symlink_to("..")
    (tmp_path / "code" / "nowhere").symlink_to("nowhere")
    assert names(tmp_path / "code") == ["a.py", "nowhere", "up"]


def test_what_is_no_file_stays_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path / "a.py")
    assert names(tmp_path) == ["a.py"]


PIECES = ["a", "b", "foo", "*", "*.py", "*.log", "**", "f*", "?", "[ab]", "fo?", "\\a", "[!a]*"]


def pattern(choices: random.Random) -> str:
    text = "/".join(choices.choice(PIECES) for _ in range(choices.choice([1, 1, 2, 3])))
    text = f"/{text}" if choices.random() < 0.3 else text
    text = f"{text}/" if choices.random() < 0.3 else text
    return f"!{text}" if choices.random() < 0.35 else text


@pytest.mark.parametrize("seed", range(25))
def test_git_ignores_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    choices = random.Random(seed)
    folders = [tmp_path]
    for _ in range(6):
        folders.append(choices.choice(folders) / choices.choice(["a", "b", "foo", "c.py"]))
    for folder in folders:
        for name in choices.sample(["x", "x.py", "y.log", "fox", "a.log"], 3):
            put(folder / name)
    for folder in {tmp_path, *choices.sample(folders, 2)}:
        lines = [pattern(choices) for _ in range(choices.randint(1, 4))]
        put(folder / ".gitignore", "\n".join(lines))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    put(tmp_path / ".git" / "info" / "exclude", pattern(choices))
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert sorted(names(tmp_path)) == sorted(filter(None, listed.split("\0")))
