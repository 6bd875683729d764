"""The process of the control plane on this machine: the API and the sweeper in one event loop."""

import argparse
import asyncio
import gc
import os
import socket
import sys
from pathlib import Path

import uvicorn
import uvloop
from functions_framework.aio import create_asgi_app_from_module
from starlette.applications import Starlette

from xmcloud.core.control.migrating import require_known_schema
from xmcloud.core.errors import XmcloudError
from xmcloud.core.logs import set_up
from xmcloud.functions import entrypoints
from xmcloud.functions.dispatcher import run_dispatcher
from xmcloud.functions.sweeper import run_sweeper
from xmcloud.functions.wiring import SERVICE
from xmcloud.local.home import Control, Home, Profile
from xmcloud.local.processes import LOOPBACK, PortTaken

_SWITCH_SECONDS = 0.0001
"""A thread that synced a commit waits that long, not 5 ms, for the interpreter."""

_LONG_POLLS_SECONDS = 1
"""How long requests that wait for news may keep the process from ending."""


class _Server(uvicorn.Server):
    """Tells where it listens once it does, and no longer when it ends."""

    def __init__(self, config: uvicorn.Config, home: Home, control: Control) -> None:
        super().__init__(config)
        self._home, self._control = home, control

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is there now stays: the collector need not look at it again and again.
        gc.freeze()
        self._home.announce(self._control)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._home.withdraw()
        await super().shutdown(sockets)


async def serve(home: Home, port: int) -> None:
    """Serve until a signal asks to end.

    Raises PortTaken, NewerSchema and what opening the store raises.
    """
    listener = _bound(port)
    service = entrypoints.service()
    await require_known_schema(service.plane)
    config = uvicorn.Config(
        _application(),
        access_log=False,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=_LONG_POLLS_SECONDS,
    )
    emulated = os.environ.get("XMCLOUD_PROFILE") == "gcp"
    profile: Profile = "emulators" if emulated else "embedded"
    rehearsed = bool(os.environ.get("XMCLOUD_VERTEX_ENDPOINT"))
    server = _Server(config, home, Control(f"http://{LOOPBACK}:{port}", profile, rehearsed))
    async with asyncio.TaskGroup() as tasks:
        granted = asyncio.Event()
        sweeper = tasks.create_task(run_sweeper(service.plane, service.alarms, granted))
        dispatcher = tasks.create_task(run_dispatcher(service.plane))
        await granted.wait()
        await server.serve([listener])
        sweeper.cancel()
        dispatcher.cancel()


def _application() -> Starlette:
    """What the functions framework serves in the cloud, of the module that is imported already."""
    application: Starlette = create_asgi_app_from_module(  # type: ignore[no-untyped-call]
        "api", entrypoints.__file__, "http", entrypoints, entrypoints.__spec__
    )
    return application


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
    except OSError as error:
        bound.close()
        raise PortTaken(port) from error
    return bound


def main() -> None:
    """`python -m xmcloud.local.serve --home FOLDER --port PORT`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    home = Home(options.home)
    os.environ["XMCLOUD_HOME"] = str(home.path)
    os.chdir(home.path)
    os.umask(0o077)
    try:
        set_up(os.environ, SERVICE)
        sys.setswitchinterval(_SWITCH_SECONDS)
        uvloop.run(serve(home, options.port))
    except XmcloudError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
