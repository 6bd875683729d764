"""The log of a job as text that is safe to show on a terminal."""

import codecs
import re

from xmcloud.core.screen import clean_line, cleaned

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONGEST_STATE = 1024 * 1024
_CUT_SEQUENCE = 4096


class LogText:
    """Turns the bytes of a log, as they come, into whole lines with their newlines.

    Of the line that has no newline yet the last state is kept. One that is too long to be kept
    comes in parts, and what overwrites it on a line of its own.
    """

    def __init__(self, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._returned = ""
        self._shown = ""
        self._state: list[str] = []
        self.parted = False

    def feed(self, data: bytes, final: bool = False) -> list[str]:
        """What is complete now; with `final`, also the line without a newline."""
        text = self._returned + self._decoder.decode(data, final)
        self._returned = "\r" if text.endswith("\r") else ""  # what follows tells what it is
        *whole, rest = text.removesuffix("\r").split("\n")
        found: list[str] = []
        plain = _CONTROL.search(text) is None  # as nearly all logs are
        for part in whole[:1] if plain else whole:
            self._add(part.removesuffix("\r"), found)
            self._end_line(found)
        if plain and len(whole) > 1:
            found.append("\n".join([*whole[1:], ""]))
        self._add(rest, found)
        if final and (self._state or self._shown or self.parted):
            self._end_line(found)
        return found

    @property
    def unfinished(self) -> str:
        """The line that has no newline yet, as it looks now."""
        return clean_line("".join(self._state), self._colour) or self._shown

    def _add(self, text: str, found: list[str]) -> None:
        """Goes on with the line; states before its last ones are forgotten."""
        if self.parted and "\r" in text:
            first, _, text = text.partition("\r")
            self._state.append(first)
            self._end_line(found)
        before, returned, text = text.rpartition("\r")
        if returned:
            self._state.append(before)
            self._shown, self._state = self.unfinished, []
        if text:
            self._state.append(text)
        if sum(map(len, self._state)) > _LONGEST_STATE:
            self._part(found)

    def _part(self, found: list[str]) -> None:
        """Gives out what is there, but for a sequence that is perhaps cut."""
        text = "".join(self._state)
        cut = text.rfind("\x1b", -_CUT_SEQUENCE)
        text, self._state = (text, []) if cut < 0 else (text[:cut], [text[cut:]])
        found.append(cleaned(text, self._colour))
        self._shown, self.parted = "", True

    def _end_line(self, found: list[str]) -> None:
        found.append(f"{self.unfinished}\n")
        self._shown, self._state, self.parted = "", [], False
