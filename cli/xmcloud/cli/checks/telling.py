"""How checks are told: sections of lines as they come, or one document."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

import click

from xmcloud.cli.checks.check import Check, Verdict
from xmcloud.core.base import Model

MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.FAILED: "✗"}
PLAIN = {Verdict.OK: "ok", Verdict.WARNING: "! ", Verdict.FAILED: "X "}
_COLOURS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}
_WIDTH = 18
_ERASE = "\r\x1b[K"


class Section(Model):
    name: str
    checks: list[Check]


class Checkup(Model):
    """All that was looked at; `verdict` is the worst."""

    verdict: Verdict
    sections: list[Section]


def marks_for(encoding: str | None) -> dict[Verdict, str]:
    """Those that a terminal of this encoding can show."""
    try:
        "".join(MARKS.values()).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return MARKS


def lines_of(check: Check, marks: dict[Verdict, str]) -> list[str]:
    """With what to do on a second line, unless it is well."""
    mark = marks[check.verdict]
    indent = " " * (len(mark) + 3)
    first = f"  {click.style(mark, fg=_COLOURS[check.verdict])} {check.name:{_WIDTH}}"
    detail = f"\n{indent}{'':{_WIDTH}} ".join(check.detail.splitlines())
    lines = [f"{first} {detail}"]
    if check.remedy:
        lines.append(f"{indent}{'':{_WIDTH}} {click.style(check.remedy, bold=True)}")
    return lines


def summary(checks: Sequence[Check]) -> str:
    failed = sum(check.verdict is Verdict.FAILED for check in checks)
    warned = sum(check.verdict is Verdict.WARNING for check in checks)
    if not failed and not warned:
        return "All is well."
    counts = [f"{failed} failed"] if failed else []
    counts += [f"{warned} warning{'s' * (warned != 1)}"] if warned else []
    needs = "needs" if failed + warned == 1 else "need"
    return f"{failed + warned} of {len(checks)} {needs} attention: {', '.join(counts)}."


class Telling:
    """Tells each check as it comes; `quiet` keeps them for the document alone."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._sections: dict[str, list[Check]] = {}
        self._hints = sys.stderr.isatty()

    @property
    def checks(self) -> list[Check]:
        return [check for checks in self._sections.values() for check in checks]

    @property
    def verdict(self) -> Verdict:
        found = {check.verdict for check in self.checks}
        worst = (each for each in (Verdict.FAILED, Verdict.WARNING) if each in found)
        return next(worst, Verdict.OK)

    def waits(self, names: Sequence[str]) -> None:
        """Shows on a terminal for what, until the next check is told."""
        self._hint(f"{_ERASE}Looking at: {', '.join(names)}"[: get_terminal_size().columns])

    def tell(self, section: str, check: Check) -> None:
        self._hint(_ERASE)
        if not self._quiet:
            if section not in self._sections:
                click.echo(("\n" if self._sections else "") + click.style(section, bold=True))
            for line in lines_of(check, marks_for(sys.stdout.encoding)):
                click.echo(line)
        self._sections.setdefault(section, []).append(check)

    def end(self) -> None:
        """Tells all together."""
        self._hint(_ERASE)
        if not self._quiet:
            click.echo(f"\n{summary(self.checks)}")
            return
        sections = [Section(name=name, checks=each) for name, each in self._sections.items()]
        click.echo(Checkup(verdict=self.verdict, sections=sections).model_dump_json(indent=2))

    def _hint(self, text: str) -> None:
        if self._hints:
            click.echo(text, nl=False, err=True)
