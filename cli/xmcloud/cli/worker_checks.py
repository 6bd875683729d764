"""What a worker needs of its control plane and its machine, and whether it is there."""

from collections.abc import Collection, Iterator, Sequence

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.engine import check_engine
from xmcloud.cli.checks.machine import unwritable
from xmcloud.cli.checks.programs import check_git, check_uv
from xmcloud.core.errors import Forbidden, XmcloudError
from xmcloud.worker.settings import WorkerSettings
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.credentials.credentials import Credentials


def check_plane(url: str, token: str | Credentials) -> str:
    """The version of the control plane there. Raises what the client does, Unauthorized too."""
    with Client(url, token) as client:
        told = client.health().version
        client.workers()
    return told


def names_in(client: Client) -> tuple[set[str] | None, set[str]]:
    """Of its queues, which a mere worker may not see, and of the workers that are connected."""
    connected = {each.worker for each in client.workers().sessions}
    try:
        return {each.queue.name for each in client.queues()}, connected
    except Forbidden:
        return None, connected


def checks(settings: WorkerSettings) -> Iterator[Check]:
    """All that a worker with these settings needs, or some jobs do."""
    try:
        credentials, proof = settings.identity()
        version = check_plane(settings.url, credentials)
        yield Check.ok("Control plane", f"{settings.url} answers, version {version}")
        yield Check.ok("Token", f"accepted, of {proof}" if settings.token is None else "accepted")
        with Client(settings.url, credentials) as client:
            queues, names = names_in(client)
        listed = ", ".join(settings.queues)
        yield _check("Queues", listed, queue_problem(settings.queues, queues))
        yield _check("Name", settings.name, name_problem(settings.name, names))
    except XmcloudError as error:
        yield Check.refused("Control plane", error)
    for name, folder in (
        ("Folder", settings.home),
        ("Cache", settings.cache),
        ("Checkpoints", settings.checkpoints_folder),
    ):
        yield _check(name, str(folder), unwritable(folder))
    yield from check_git()
    yield from check_uv()
    yield from check_engine(settings.container_host)


def _check(name: str, detail: str, problem: str) -> Check:
    return Check.failed(name, problem, "") if problem else Check.ok(name, detail)


def queue_problem(wanted: Sequence[str], there: Collection[str] | None) -> str:
    """Why these queues cannot be served; '' if they can, or it is not known which there are."""
    if there is None:
        return ""
    absent = next((name for name in wanted if name not in there), None)
    if absent is None:
        return ""
    known = ", ".join(sorted(there))
    return f"There is no queue {absent!r} beside {known}. Make it: xmcloud queue create {absent}"


def name_problem(name: str, connected: Collection[str]) -> str:
    """Why a worker cannot have that name; '' if it can."""
    return f"A worker named {name!r} is connected already." if name in connected else ""
