"""The entry points of a deployment.

Importing this builds the service: a wrong configuration then ends the process with one line,
before any traffic comes, rather than fail each request.
"""

import os
import sys

from xmcloud.core.errors import XmcloudError
from xmcloud.core.logs import set_up
from xmcloud.functions.entrypoints import api, build_event, dispatch, platform_event, service, sweep
from xmcloud.functions.wiring import SERVICE

__all__ = ["api", "build_event", "dispatch", "platform_event", "sweep"]

try:
    set_up(os.environ, SERVICE)
    service()
except XmcloudError as error:
    sys.exit(f"Error: {error}")
