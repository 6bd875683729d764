"""`xmcloud usage`, over a real control plane."""

import pytest
from click.testing import CliRunner

from tests.functions.commands.running import xmcloud
from tests.functions.xm_cloud.server import TOKEN
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.cli.usage import blocks_for, usage_rows
from xmcloud.core.identity import Quota
from xmcloud.core.member_protocol import EditProject
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec
from xmcloud.core.usage import PersonUsage, ProjectUsage
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.identity_client import IdentityClient


def test_who_runs_what_beside_the_quotas(client: Client, url: str) -> None:
    made = client.create_experiment(NewExperiment(title="e", creator="ann"))
    job = NewJob(name="a", queue="default", spec=JobSpec(executable=Command(command=("true",))))
    client.add_units(made.id, NewUnits(units=(NewUnit(jobs=(job,)),) * 3))
    with IdentityClient(url, TOKEN) as admin:
        admin.edit_project("default", EditProject(quota=Quota(queued=4, gpu_hours=10)))
    lines = xmcloud("usage").output.splitlines()
    assert lines[0].startswith("Project default, 2")
    assert lines[1].split() == ["PERSON", "RUNNING", "QUEUED", "GPU-HOURS"]
    assert lines[2].split() == ["ann", "0", "3", "0.0"]
    assert lines[3].split()[:5] == ["all", "0", "3", "of", "4"]
    assert " 75%" in lines[3]
    assert " 0.0 of 10 " in lines[3]
    document = xmcloud("usage", "--json", "--month", "2025-01").output
    found = ProjectUsage.model_validate_json(document)
    assert (found.month, found.queued, found.people[0].person) == ("2025-01", 3, "ann")


def test_a_launch_over_the_quota_is_one_line_and_a_status(url: str) -> None:
    with IdentityClient(url, TOKEN) as admin:
        admin.edit_project("default", EditProject(quota=Quota(queued=0)))
    result = CliRunner().invoke(cli, ["run", "--pool", "local", "--", "true"])
    assert result.exit_code == ExitCode.REFUSED
    assert "of 0 jobs queued; this asks for 1 job more" in result.stderr
    assert "xmcloud project quota default --queued N" in result.stderr
    with IdentityClient(url, TOKEN) as admin:
        admin.edit_project("default", EditProject(quota=Quota()))


@pytest.mark.parametrize(("arguments", "status"), [(["--project", "nowhere"], ExitCode.REFUSED)])
def test_what_is_not_there(arguments: list[str], status: ExitCode) -> None:
    result = CliRunner().invoke(cli, ["usage", *arguments])
    assert result.exit_code == status
    assert "There is no project 'nowhere'" in result.stderr


def test_bars_fit_the_terminal_and_a_quota_of_nothing_is_used_up() -> None:
    people = [PersonUsage(person="ann", running=1, queued=0, gpu_hours=2.5)]
    found = ProjectUsage(
        project="vision",
        month="2026-11",
        quota=Quota(running=0, gpu_hours=2),
        person_quota=Quota(running=3),
        running=1,
        queued=0,
        gpu_hours=2.5,
        people=people,
    )
    ann, everybody = usage_rows(found, blocks_for("ascii"))
    assert [piece[0] for piece in ann[1]] == ["1 of 3  ", "###.......", " 33%"]
    assert ann[2:] == ("0", "2.5")
    assert [piece[0] for piece in everybody[1]] == ["1 of 0  ", "##########", " 100%"]
    assert [piece[0] for piece in everybody[3]] == ["2.5 of 2  ", "##########", " 125%"]
    assert blocks_for("utf-8") == "█░"
