"""Two containers on this machine: a web server that counts its visitors in a store.

The server finds the store by its full name, and is seen on a port of this machine; the store keeps
what it knows in a folder of this machine. After the given number of visits both end.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the images build on.")
_PORT = flags.DEFINE_integer("port", 8080, "Where the server is seen.")
_DATA = flags.DEFINE_string("data", "data", "A folder for the store.")
_VISITS = flags.DEFINE_integer("visits", 10, "How many visits to wait for.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="container links") as experiment:
        store, server = experiment.package(
            [
                xm.python_container(
                    xm_local.Local.Spec(),
                    path=name,
                    base_image=_BASE_IMAGE.value,
                    entrypoint=xm.ModuleName(name),
                )
                for name in ("store", "server")
            ]
        )
        folder = os.path.abspath(_DATA.value)
        os.makedirs(folder, exist_ok=True)
        port = _PORT.value
        seen = xm_local.Local(docker_options=xm_local.DockerOptions(ports={port: port}))
        keeps = xm_local.Local(docker_options=xm_local.DockerOptions(volumes={folder: "/data"}))

        async def linked(work_unit: xm.WorkUnit) -> None:
            store_host = work_unit.get_full_job_name("store")
            work_unit.add(
                xm.JobGroup(
                    server=xm.Job(
                        server,
                        seen,
                        args={"port": port, "store_host": store_host, "visits": _VISITS.value},
                    ),
                    store=xm.Job(store, keeps, name="store"),
                )
            )

        experiment.add(linked)


if __name__ == "__main__":
    app.run(main)
