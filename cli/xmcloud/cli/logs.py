"""The log of a job as text that is safe to show on a terminal."""

import codecs
import re

# CSI (kept apart: SGR, the colours), strings (OSC, DCS, SOS, PM, APC) up to their end, the rest.
_SEQUENCE = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_RESET = "\x1b[0m"


class LogText:
    """Turns the bytes of a log, as they come, into whole lines."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._open: list[str] = []

    def feed(self, data: bytes, final: bool = False) -> list[str]:
        """The lines that are complete now; with `final`, also the one without a newline."""
        text = self._decoder.decode(data, final)
        *whole, rest = text.split("\n")
        lines = []
        for part in whole:
            lines.append(clean_line("".join([*self._open, part]), self._colour))
            self._open = []
        self._open.append(rest)
        if final and any(self._open):
            lines.append(self.unfinished)
            self._open = []
        return lines

    @property
    def unfinished(self) -> str:
        """The line that has no newline yet, as it looks now."""
        return clean_line("".join(self._open), self._colour)


def clean_line(line: str, colour: bool) -> str:
    """What a line leaves on the screen: the last state of a progress bar, no control sequence.

    With `colour` the sequences that set colours stay, and are reset at the end of the line.
    """
    states = [state for state in line.split("\r") if _shown(state, colour=False)]
    return _shown(states[-1], colour) if states else ""


def _shown(text: str, colour: bool) -> str:
    pieces: list[str] = []
    start = 0
    coloured = False
    for match in _SEQUENCE.finditer(text):
        pieces.append(_plain(text[start : match.start()]))
        if colour and match["sgr"] is not None:
            pieces.append(match.group())
            coloured = True
        start = match.end()
    pieces.append(_plain(text[start:]))
    return "".join([*pieces, _RESET if coloured else ""])


def _plain(text: str) -> str:
    if "\b" in text:
        text = _without_backspaces(text)
    return _CONTROL.sub("", text)


def _without_backspaces(text: str) -> str:
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
