"""Command-line arguments: how a mapping or a list becomes an exact argv, and how layers merge."""

import shlex
import warnings
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, Union

UserArgs: TypeAlias = Union[Mapping[Any, Any], Sequence[Any], "SequentialArgs", None]


@dataclass(frozen=True)
class ShellSafeArg:
    """Text that a shell is meant to read as it stands; everything else is quoted for a shell."""

    arg: str

    def __str__(self) -> str:
        raise RuntimeError(
            f"{self!r} was turned into a string, which would lose that it must not be quoted; "
            "pass it as a whole argument, or read .arg"
        )


def exact_text(value: object) -> str:
    """The text one argument carries when no shell reads it."""
    if isinstance(value, ShellSafeArg):
        return value.arg
    return value.name if isinstance(value, Enum) else str(value)


def shell_word(value: object) -> str:
    """The text a shell reads back as exactly one argument; a `ShellSafeArg` stays unquoted."""
    return value.arg if isinstance(value, ShellSafeArg) else shlex.quote(exact_text(value))


def _joined_by_equals(flag: str, value: str) -> str:
    return f"{flag}={value}"


def _is_flat(value: object) -> bool:
    return isinstance(value, list | tuple) and not any(
        isinstance(item, list | tuple) for item in value
    )


class SequentialArgs:
    """Positional and keyword arguments in order; immutable.

    A keyword keeps the position it first had and the value it got last; `None` leaves it out.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        # A keyword's key is its name, a positional argument's is its number: a dict keeps the
        # first position of a key whose value is replaced.
        self._entries: dict[str | int, Any] = {}

    def items(self) -> ItemsView[str | int, Any]:
        """Keywords by name and positional arguments by number, in order."""
        return self._entries.items()

    @classmethod
    def from_collection(cls, collection: UserArgs) -> "SequentialArgs":
        """Parse what a script wrote; raises ValueError for a string, TypeError for a scalar."""
        return merge_args(collection)

    def to_list(
        self,
        escaper: Callable[[Any], str] = shell_word,
        kwargs_joiner: Callable[[str, str], str] = _joined_by_equals,
    ) -> list[str]:
        """One text an argument; by default each is quoted so that a shell reads it back whole."""
        return list(self._render(escaper, kwargs_joiner))

    def to_argv(self) -> list[str]:
        """The exact argv, for a process started without a shell.

        Raises ValueError for a NUL character, which no process can receive.
        """
        argv = self.to_list(exact_text)
        for argument in argv:
            if "\0" in argument:
                raise ValueError(f"argument {argument!r} holds a NUL character; remove it")
        return argv

    def rewrite_args(self, rewrite: Callable[[str], str]) -> "SequentialArgs":
        """A copy with every value that is a string rewritten; names of keywords stay."""
        return _sequential(
            (key, rewrite(value) if isinstance(value, str) else value)
            for key, value in self._entries.items()
        )

    def remove_args(self, removed_args: str) -> "SequentialArgs":
        """A copy without the keyword of that name and without that text as a positional."""
        return _sequential(
            (key, value)
            for key, value in self._entries.items()
            if removed_args != (key if isinstance(key, str) else value)
        )

    def to_dict(self, kwargs_only: bool = False) -> dict[str, Any]:
        """Keywords with their values and, unless `kwargs_only`, positional texts with `True`."""
        return {
            key if isinstance(key, str) else exact_text(value): (
                value if isinstance(key, str) else True
            )
            for key, value in self._entries.items()
            if isinstance(key, str) or not kwargs_only
        }

    @property
    def needs_shell(self) -> bool:
        """Whether any argument is a `ShellSafeArg`, which means nothing without a shell."""
        return any(
            isinstance(item, ShellSafeArg)
            for value in self._entries.values()
            for item in (value if _is_flat(value) else (value,))
        )

    def _render(
        self, escape: Callable[[Any], str], join: Callable[[str, str], str]
    ) -> Iterator[str]:
        for key, value in self._entries.items():
            if isinstance(key, int):
                yield escape(value)
            elif value is None:
                continue
            elif isinstance(value, bool):
                yield escape(f"--{key}" if value else f"--no{key}")
            elif _is_flat(value):
                yield from (join(escape(f"--{key}"), escape(item)) for item in value)
            else:
                yield join(escape(f"--{key}"), escape(value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequentialArgs):
            return NotImplemented
        return list(self._entries.items()) == list(other._entries.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (
            f"{key}={value!r}" if isinstance(key, str) else repr(value)
            for key, value in self._entries.items()
        )
        return f"SequentialArgs({', '.join(shown)})"


def _sequential(entries: Iterable[tuple[str | int, Any]]) -> SequentialArgs:
    """Numbers positional arguments anew; of a keyword given twice, the last value counts."""
    args = SequentialArgs()
    for key, value in entries:
        args._entries[key if isinstance(key, str) else len(args._entries)] = value
    return args


def merge_args(*operands: UserArgs) -> SequentialArgs:
    """Later operands override earlier ones' keywords; positional arguments append."""
    merged = SequentialArgs()
    for operand in operands:
        for key, value in _entries_of(operand):
            if isinstance(key, int):
                merged._entries[len(merged._entries)] = value
                continue
            if value is None and isinstance(operand, Mapping) and merged._entries.get(key) is None:
                _warn_of_none(key)
            merged._entries[key] = value
    return merged


def _entries_of(operand: UserArgs) -> Iterator[tuple[str | int, Any]]:
    if operand is None:
        return
    if isinstance(operand, SequentialArgs):
        yield from operand._entries.items()
    elif isinstance(operand, Mapping):
        yield from ((str(key), value) for key, value in operand.items())
    elif isinstance(operand, str | bytes):
        raise ValueError(f"arguments are the bare string {operand!r}; write [{operand!r}]")
    elif isinstance(operand, Sequence):
        yield from enumerate(operand)
    else:
        raise TypeError(f"arguments are {operand!r}; give a mapping, a list or None")


def _warn_of_none(name: str) -> None:
    warnings.warn(
        f"argument {name}=None leaves the flag out; to send the text, write {name}='None'",
        stacklevel=4,
    )
