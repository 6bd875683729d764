"""Whether the upgrade of the control plane's documents is over."""

from collections.abc import Iterator

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.line import Line
from xmcloud.core.errors import NotFound
from xmcloud.core.migrations import SchemaStatus


def schema_checks(line: Line) -> Iterator[Check]:
    """None for a control plane of before there were schemas."""
    try:
        status = line.get(SchemaStatus, "/v1/schema")
    except NotFound:
        return
    yield schema_check(status)


def schema_check(status: SchemaStatus) -> Check:
    """An upgrade that is not over is nothing to worry about."""
    if status.version >= status.latest:
        return Check.ok("Schema", f"{status.version}: documents have the form of this version")
    told = f"{status.version}, and documents are brought to {status.latest}"
    if status.next_look is not None:
        told += f"; they are looked through again at {status.next_look:%H:%M} UTC"
    return Check.ok("Schema", told)
