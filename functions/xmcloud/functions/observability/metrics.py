"""The metrics of a deployment and of this process."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

from xmcloud.core.control.census import Census, Pool, take_census
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.version import VERSION
from xmcloud.functions.observability.exposition import Kind, Metric, Sample, exposed
from xmcloud.functions.observability.requests import RequestCounts


async def metrics(plane: ControlPlane, counts: RequestCounts) -> str:
    """All of them, as Prometheus reads them. What it costs: see `take_census`."""
    census = await take_census(plane)
    found = chain(
        [_of("xmcloud_info", "gauge", "The version that runs.", [(1, {"version": VERSION})])],
        _of_queues(census, plane.clock.now()),
        _of_jobs(census),
        _of_pools(census.pools),
        _of_targets(census),
        _of_requests(counts),
    )
    return exposed(list(found))


Values = list[tuple[float, Mapping[str, str]]]


def _of(name: str, kind: Kind, about: str, values: Values) -> Metric:
    return Metric(name, kind, about, [Sample(value, labels) for value, labels in values])


def _of_queues(census: Census, now: datetime) -> Iterator[Metric]:
    waiting: Values = []
    ages: Values = []
    paused: Values = []
    for status in census.queues:
        labels = {"queue": status.queue.name}
        age = (now - status.oldest).total_seconds() if status.oldest else 0
        waiting.append((status.waiting, labels))
        ages.append((max(0, age), labels))
        paused.append((status.queue.paused, labels))
    yield _of("xmcloud_queue_jobs", "gauge", "Jobs that wait in the queue.", waiting)
    yield _of(
        "xmcloud_queue_oldest_seconds",
        "gauge",
        "How long the first in the queue has waited; 0 for an empty one.",
        ages,
    )
    yield _of("xmcloud_queue_paused", "gauge", "1 while nothing starts from it.", paused)


def _of_jobs(census: Census) -> Iterator[Metric]:
    counts: Values = [(count, {"state": state.value}) for state, count in census.states.items()]
    queued = sum(status.waiting for status in census.queues)
    counts.append((queued, {"state": "queued"}))
    yield _of("xmcloud_jobs", "gauge", "Jobs that are neither drafts nor over.", counts)


def _of_pools(pools: Mapping[str, Pool]) -> Iterator[Metric]:
    labels = {name: {"pool": name} for name in pools}
    for field, about in {
        "workers": "Sessions of workers that are open.",
        "silent": "Those of them whose lease is over: their jobs run again elsewhere.",
        "slots": "Jobs that they can run at once.",
        "busy": "Jobs that they run.",
    }.items():
        values: Values = [(getattr(pool, field), labels[name]) for name, pool in pools.items()]
        name = "workers" if field == "workers" else f"workers_{field}"
        yield _of(f"xmcloud_{name}", "gauge", about, values)


def _of_targets(census: Census) -> Iterator[Metric]:
    running: Values = [(target.running, {"target": target.name}) for target in census.targets]
    limits: Values = [(target.limit, {"target": target.name}) for target in census.targets]
    yield _of("xmcloud_target_jobs", "gauge", "Jobs that the platform runs.", running)
    yield _of("xmcloud_target_limit", "gauge", "Jobs that it may run at once.", limits)


def _of_requests(counts: RequestCounts) -> Iterator[Metric]:
    samples: list[Sample] = []
    for (method, route, status), count in sorted(counts.requests.items()):
        labels = {"method": method, "route": route, "status": str(status)}
        seconds = counts.seconds[method, route, status]
        samples += [Sample(seconds, labels, "_sum"), Sample(count, labels, "_count")]
    yield Metric(
        "xmcloud_http_request_seconds", "summary", "Requests that this process answered.", samples
    )
