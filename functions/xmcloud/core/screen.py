"""What text leaves on a screen, safe to be shown on a terminal."""

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


def clean_line(line: str, colour: bool) -> str:
    """What a line leaves on the screen: the last state of a progress bar, no control sequence.

    With `colour` the sequences that set colours stay, and are reset at the end of the line.
    """
    for state in reversed(line.split("\r")):
        if shows(state):
            return cleaned(state, colour)
    return ""


def shows(text: str) -> bool:
    """Whether anything of it was seen, be it taken back by a backspace: what was never is."""
    return bool(_CONTROL.sub("", _SEQUENCE.sub("", text)))


def cleaned(text: str, colour: bool) -> str:
    """Without control characters and sequences; backspaces take what was before them."""
    if text.isprintable():
        return text
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
