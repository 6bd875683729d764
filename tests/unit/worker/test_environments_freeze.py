"""What is told of an environment's packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from xmcloud.worker.environments.freeze import freeze

GIT = {"vcs": "git", "commit_id": "1" * 40}


def install(site: Path, name: str, version: str, direct_url: dict[str, Any] | None = None) -> None:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if direct_url:
        (info / "direct_url.json").write_text(json.dumps(direct_url))


def test_it_is_sorted_by_normalised_names(tmp_path: Path) -> None:
    for name in ("Zope.Interface", "numpy", "Py_YAML"):
        install(tmp_path, name, "1.0+cpu")
    assert freeze(tmp_path) == b"numpy==1.0+cpu\npy-yaml==1.0+cpu\nzope-interface==1.0+cpu\n"


@pytest.mark.parametrize(
    ("direct_url", "line"),
    [
        ({"url": "https://a:s3cret@host:8/x.whl", "archive_info": {}}, "x @ https://host:8/x.whl"),
        ({"url": "https://s3cret@host/r", "vcs_info": GIT}, f"x @ git+https://host/r@{'1' * 40}"),
        ({"url": "ssh://git@host/r", "vcs_info": GIT}, f"x @ git+ssh://git@host/r@{'1' * 40}"),
        ({"url": "ssh://a:s3cret@host/r", "vcs_info": GIT}, f"x @ git+ssh://host/r@{'1' * 40}"),
        (
            {"url": "https://host/r", "vcs_info": GIT, "subdirectory": "a"},
            f"x @ git+https://host/r@{'1' * 40}#subdirectory=a",
        ),
        ({"url": "file:///home/me/x.whl", "archive_info": {}}, "x==1.0"),
    ],
)
def test_what_came_from_a_url_has_it_without_credentials(
    tmp_path: Path, direct_url: dict[str, Any], line: str
) -> None:
    install(tmp_path, "x", "1.0", direct_url)
    assert freeze(tmp_path).decode() == f"{line}\n"
