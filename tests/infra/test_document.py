"""docs/terraform.md: variables, outputs, and figures that follow from the code."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infra.conftest import TERRAFORM, Applied
from tests.infra.rights import DOCUMENT, rows
from tests.support.builder import MemoryBuilder
from tests.support.clock import ManualClock
from tests.support.planes import sqlite_rig
from tests.support.platform import MemoryPlatform
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep

MINUTES_A_DAY = 24 * 60
FREE_READS_A_DAY = 50_000


def test_every_variable_is_in_the_document_as_it_is_declared() -> None:
    text = (TERRAFORM / "variables.tf").read_text("utf-8")
    declared = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', text, re.DOTALL | re.MULTILINE)
    assert list(rows("Variables")) == [
        [f"`{name}`", _default(body), _description(body)] for name, body in declared
    ]


def _default(body: str) -> str:
    found = re.search(r"^  default += (.*)$", body, re.MULTILINE)
    return f"`{found[1]}`" if found else "required"


def _description(body: str) -> str:
    found = re.search(r'^  description = "((?:[^"\\]|\\.)*)"$', body, re.MULTILINE)
    assert found is not None, body
    return found[1].replace('\\"', '"')


def test_outputs_that_the_document_uses_are_there(applied: Applied) -> None:
    text = DOCUMENT.read_text("utf-8")
    assert set(re.findall(r"terraform output -raw (\w+)", text)) <= applied.outputs.keys()


def test_modules_that_are_described_are_those_that_are_there() -> None:
    named = {name.strip("` ") for row in rows("What it makes") for name in row[0].split(",")}
    assert named == {path.name for path in (TERRAFORM / "modules").iterdir()}


@pytest.mark.anyio
async def test_the_reads_of_an_idle_sweep(tmp_path: Path) -> None:
    text = DOCUMENT.read_text("utf-8")
    told = re.search(r"an idle sweep reads (\d+) documents, (\d+) with", text)
    assert told is not None
    folders = [tmp_path / name for name in ("bare", "most")]
    for folder in folders:
        folder.mkdir()
    bare, most = [await _reads(f, everything=f is folders[1]) for f in folders]
    assert (int(told[1]), int(told[2])) == (bare, most)
    a_day = most * MINUTES_A_DAY
    assert f"{a_day:,} reads a day" in text
    assert a_day < FREE_READS_A_DAY


async def _reads(folder: Path, *, everything: bool) -> int:
    rig = sqlite_rig(folder, ManualClock())
    plane = rig.plane
    if everything:
        plane = replace(
            plane, builder=MemoryBuilder(), targets={"vertex": Target(MemoryPlatform())}
        )
    await sweep(plane)
    await rig.close()
    return rig.costs["read"]
