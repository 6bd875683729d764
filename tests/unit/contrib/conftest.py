"""A dry run of a launch script in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from xmcloud import xm
from xmcloud.xm_cloud.planning.recorder import Recorder
from xmcloud.xm_cloud.shared import standing_in


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """That of the launch script."""
    script = tmp_path / "train"
    script.mkdir()
    (script / "requirements.txt").write_text("numpy\n")
    with xm.launch_script_folder(script):
        yield script


@pytest.fixture
def recorder(folder: Path) -> Iterator[Recorder]:
    recorder = Recorder({})
    with standing_in(recorder):
        yield recorder
