"""What a launch script may say but this executor or version cannot do."""

from xmcloud.core.errors import XmcloudError


class Unsupported(XmcloudError):
    """The detail names what was asked for, the remedy what works instead."""

    slug, title, status = "unsupported", "Not supported", 422
