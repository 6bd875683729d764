"""Names of the frameworks that launch on a person's behalf."""

import inspect
import re
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LABEL = re.compile(r"[a-zA-Z0-9_-]+")
_active: ContextVar[tuple[str, ...]] = ContextVar("framework_labels", default=())


def active_framework_labels() -> tuple[str, ...]:
    """The labels in force here, outermost first."""
    return _active.get()


class framework_label:  # noqa: N801 - used like a function
    """Declares which framework adds the units within a `with` block or a decorated function.

    A label that is in force already is not repeated. Raises ValueError for anything but letters,
    digits, underscores and hyphens, TypeError when it decorates a generator function.
    """

    def __init__(self, label: str) -> None:
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"framework label {label!r} is not made of letters, digits, underscores and hyphens"
            )
        self._label = label
        self._tokens: list[Token[tuple[str, ...]]] = []

    def __enter__(self) -> None:
        outer = _active.get()
        self._tokens.append(_active.set(outer if self._label in outer else (*outer, self._label)))

    def __exit__(self, *_: object) -> None:
        _active.reset(self._tokens.pop())

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator function, whose body runs after the call; "
                "use the label in a `with` block inside it"
            )
        if inspect.iscoroutinefunction(function):
            return cast("Callable[_P, _T]", self._around_coroutine(function))

        @wraps(function)
        def labelled(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with framework_label(self._label):
                return function(*args, **kwargs)

        return labelled

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def labelled(*args: Any, **kwargs: Any) -> Any:
            with framework_label(self._label):
                return await function(*args, **kwargs)

        return labelled
