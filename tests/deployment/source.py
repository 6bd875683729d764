"""What Cloud Functions makes of a function's archive: its files, and an environment for them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import uv

from tests.support.pip_settings import pip_settings


def archive(described: Mapping[str, Any], folder: Path, path: Path) -> Path:
    """The zip that an `archive_file` of Terraform makes when it runs in that folder."""
    source, mode = folder / described["source_dir"], int(described["output_file_mode"], 8)
    excluded = [_glob(pattern) for pattern in described["excludes"]]
    with ZipFile(path, "w") as made:
        for file in sorted(each for each in source.rglob("*") if each.is_file()):
            name = file.relative_to(source).as_posix()
            if not any(pattern.fullmatch(name) for pattern in excluded):
                entry = ZipInfo(name)
                entry.external_attr = mode << 16
                made.writestr(entry, file.read_bytes())
    return path


def _glob(pattern: str) -> re.Pattern[str]:
    """A double star stands for any folders, none included; one star ends at a slash."""
    parts = re.split(r"(\*\*/|\*\*|\*)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(meaning.get(part) or re.escape(part) for part in parts))


def environment(folder: Path, requirements: Path) -> Path:
    """A new virtual environment with nothing but the locked requirements; its programs."""
    environ = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    index = pip_settings().get("index-url", "")
    if index and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & environ.keys():
        environ["UV_DEFAULT_INDEX"] = index
    environ.setdefault("UV_SYSTEM_CERTS", "1")
    programs = folder / "bin"
    install = ["pip", "install", "--require-hashes", f"--python={programs / 'python'}"]
    for words in (
        ["venv", "--no-config", f"--python={sys.executable}", str(folder)],
        [*install, "--no-config", "--requirement", str(requirements)],
    ):
        argv = [uv.find_uv_bin(), "--quiet", *words]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return programs
