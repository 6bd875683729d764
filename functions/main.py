"""What Cloud Functions serves; each name is an entry point."""

from xmcloud.functions.deployed import api, sweep

__all__ = ["api", "sweep"]
