"""Environment variables as a script wrote them, checked and turned into text."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

UserEnv: TypeAlias = Mapping[Any, Any]

_NAME = re.compile(r"[a-zA-Z_]\w*", re.ASCII)


def parse_env_vars(env_vars: UserEnv | None) -> dict[str, str]:
    """Check every name and turn every value into a string; raises ValueError."""
    parsed: dict[str, str] = {}
    for name, value in (env_vars or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"environment variable {name!r} is no valid name; "
                "use letters, digits and underscores, with no digit in front"
            )
        parsed[name] = str(value)
        if "\0" in parsed[name]:
            raise ValueError(f"environment variable {name} holds a NUL character; remove it")
    return parsed
