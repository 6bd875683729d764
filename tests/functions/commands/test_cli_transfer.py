"""`xmcloud export` and `import` where there are experiments already."""

from pathlib import Path

from tests.functions.commands.running import answer, xmcloud
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.core.protocol import NewExperiment
from xmcloud.xm_cloud.client import Client


def test_export_tells_what_it_wrote_and_import_what_is_there(client: Client) -> None:
    client.create_experiment(NewExperiment(title="sweep"))
    told = xmcloud("export", "all.tar").stdout
    assert told == "Exported 1 experiment with 0 jobs and 0 files (0 B) to all.tar\n"
    refused = xmcloud("export", "all.tar", status=ExitCode.REFUSED)
    assert refused.stderr.startswith("Error: all.tar is there already.")
    assert answer("export", "all.tar", "--force")["size"] == Path("all.tar").stat().st_size
    refused = xmcloud("import", "all.tar", status=ExitCode.REFUSED)
    assert "This control plane has experiments" in refused.stderr
    assert answer("import", "all.tar", status=ExitCode.REFUSED)["type"].endswith(":not-empty")


def test_what_is_no_export(client: Client) -> None:
    Path("text.tar").write_text("text")
    for name, why in [("none.tar", "cannot be read: No such file"), ("text.tar", "no export")]:
        assert why in xmcloud("import", name, status=ExitCode.USAGE).stderr
