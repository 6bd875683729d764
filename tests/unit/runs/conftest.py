"""People with git settings of their own."""

from pathlib import Path

import pytest

from tests.unit.runs.gits import Person


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Her settings, and what a hook would set, are those of this process too."""
    person = Person(tmp_path)
    for name, value in person.environment.items():
        if name.startswith("GIT_"):
            monkeypatch.setenv(name, value)
    for name, value in (
        ("GIT_EXTERNAL_DIFF", "false"),
        ("GIT_DIFF_OPTS", "--unified=0"),
        ("GIT_INDEX_FILE", "/nowhere/index"),
        ("GIT_DIR", "/nowhere"),
        ("GIT_PAGER", "false"),
    ):
        monkeypatch.setenv(name, value)
    return person
