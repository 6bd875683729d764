"""Who works on this machine."""

import getpass


def user() -> str:
    """The login name; a container may know none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
