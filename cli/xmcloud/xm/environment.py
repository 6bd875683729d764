"""Environment variables as a script wrote them, checked and turned into text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

UserEnv: TypeAlias = Mapping[Any, Any]


@dataclass(frozen=True)
class Secret:
    """As the value of an environment variable: what the project's secret of that name holds.

    The job alone is given it, by the worker that starts it; nobody sees it before.
    """

    name: str

    def __str__(self) -> str:
        raise RuntimeError(
            f"{self!r} was turned into a string, but its value is known to the job alone; "
            "give it as the value of a variable in env_vars"
        )


EnvVars: TypeAlias = dict[str, str | Secret]

_NAME = re.compile(r"[a-zA-Z_]\w*", re.ASCII)


def parse_env_vars(env_vars: UserEnv | None) -> EnvVars:
    """Check every name and turn every value but secrets into a string; raises ValueError."""
    parsed: EnvVars = {}
    for name, value in (env_vars or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"environment variable {name!r} is no valid name; "
                "use letters, digits and underscores, with no digit in front"
            )
        parsed[name] = text = value if isinstance(value, Secret) else str(value)
        if isinstance(text, str) and "\0" in text:
            raise ValueError(f"environment variable {name} holds a NUL character; remove it")
    return parsed
