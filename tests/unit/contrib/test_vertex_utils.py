"""What a job on Vertex AI reads of its machines."""

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from xmcloud.cloud import utils
from xmcloud.vizier import vizier_cloud
from xmcloud.xm_cloud import vertex_utils, vizier

SPEC = {
    "cluster": {"workerpool0": ["a:2222"], "workerpool1": ["b:1", "c:2"], "workerpool2": ["d:3"]},
    "task": {"type": "workerpool1", "index": 1},
}


@pytest.fixture
def on_vertex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_SPEC", json.dumps(SPEC))


@pytest.fixture(params=["", None])
def elsewhere(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.delenv("CLUSTER_SPEC", raising=False)
    if request.param is not None:
        monkeypatch.setenv("CLUSTER_SPEC", request.param)


@pytest.mark.usefixtures("on_vertex")
def test_where_the_first_machine_is_and_which_one_this_is() -> None:
    assert utils.get_master_address_port() == ("a", "2222")
    assert utils.get_world_size_rank() == (4, 2)


@pytest.mark.usefixtures("elsewhere")
def test_a_process_alone_is_its_own_master() -> None:
    assert utils.get_master_address_port() == ("127.0.0.1", "29500")
    assert utils.get_world_size_rank() == (1, 0)


@pytest.mark.usefixtures("on_vertex")
def test_addresses_in_arguments() -> None:
    first, second = map(utils.get_workerpool_address, ("workerpool0", "workerpool1"))
    args = [f"--all={first},{second}", "--plain"]
    assert utils.map_workerpool_address_args(args) == ["--all=a:2222,b:1", "--plain"]


@pytest.mark.usefixtures("elsewhere")
def test_elsewhere_arguments_stay_as_they_are() -> None:
    args = [utils.get_workerpool_address("workerpool0")]
    assert utils.map_workerpool_address_args(args) == args


@pytest.mark.usefixtures("on_vertex")
def test_a_script_sets_variables_to_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER", utils.get_workerpool_address("workerpool2"))
    script = tmp_path / "env.sh"
    utils.create_workerpool_address_env_vars_script(str(script))
    assert script.read_text() == "#!/bin/bash\n\nexport PEER=d:3"
    said = subprocess.run(
        ["bash", "-c", f". {script} && printf $PEER"], check=True, capture_output=True, text=True
    )
    assert said.stdout == "d:3"


def test_the_file_runs_alone_under_an_old_python() -> None:
    source = Path(vertex_utils.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in imported} == {"typing", "collections.abc"}
    assert "XMCLOUD" not in source
    assert os.path.basename(vertex_utils.__file__) == "vertex_utils.py"


def test_searches_have_the_name_that_scripts_import() -> None:
    for name in ("NewStudy", "VizierExploration", "ExistingStudy", "StudySpec"):
        assert getattr(vizier_cloud, name) is getattr(vizier, name)
