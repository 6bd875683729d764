"""What the documents say: links lead somewhere, commands parse, Python compiles and imports."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from xmcloud.cli.main import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)


def blocks(kind: str) -> Iterator[tuple[Path, str]]:
    for path in DOCUMENTS:
        for text in re.findall(
            rf"^```{kind}\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            yield path, text


def commands() -> Iterator[str]:
    for _, text in blocks("console"):
        for line in text.splitlines():
            if line.startswith("$ xmcloud "):
                yield re.split(r" +[#|>] ", line.removeprefix("$ "))[0].rstrip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_commands_parse(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("launch.py", "script.py"):
        Path(name).touch()
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context(command.name, words, context)


@pytest.mark.parametrize("text", [text for _, text in blocks("python")])
def test_python_compiles_and_its_imports_are_there(text: str) -> None:
    compile(text, "document", "exec")
    for line in text.splitlines():
        if line.startswith(("import ", "from ")):
            exec(line, {})
