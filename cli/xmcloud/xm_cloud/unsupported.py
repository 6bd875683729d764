"""What a launch script may say but this executor or version cannot do."""

import warnings

from xmcloud.core.errors import XmcloudError


class Unsupported(XmcloudError):
    """The detail names what was asked for, the remedy what works instead."""

    slug, title, status = "unsupported", "Not supported", 422


def warn_of_unused(field: str, value: object, default: object, where: str) -> None:
    """Tells that a wish changes nothing about the result there."""
    if value != default:
        warnings.warn(f"{field} is {value!r}; it has no effect {where}", UserWarning, stacklevel=4)
