"""An example of every query that the control plane asks, by name."""

import inspect
from datetime import datetime

from tests.support.clock import START
from xmcloud.core import queries
from xmcloud.core.models import JobState
from xmcloud.core.ports import Query

GIVEN: dict[type, object] = {str: "x", int: 1, datetime: START, JobState: JobState.QUEUED}

QUERIES: dict[str, Query] = {
    name: ask(*(GIVEN[each.annotation] for each in inspect.signature(ask).parameters.values()))
    for name, ask in inspect.getmembers(queries, inspect.isfunction)
    if ask.__module__ == queries.__name__ and not name.startswith("_")
}
