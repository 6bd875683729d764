"""Values of environment variables that are not shown."""

import re

MASKED = "***"
_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSWORD", re.IGNORECASE)


def masked(name: str, value: str) -> str:
    """The value, unless the name of its variable says that it is secret."""
    return MASKED if _SECRET.search(name) else value
