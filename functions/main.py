"""What Cloud Functions serves; each name is an entry point."""

from xmcloud.functions.deployed import api, build_event, dispatch, platform_event, sweep

__all__ = ["api", "build_event", "dispatch", "platform_event", "sweep"]
