"""docs/cost.md, from counts and prices."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.cost.bill import HOUR, MONTH_HOURS, SWEEPS, Bill
from tests.cost.pricing import Price, Usage, times, together
from tests.cost.scenarios import ARCHIVE_BYTES

TEMPLATE = Path(__file__).with_name("page.md")
GIB = 2**30
LINES_AN_HOUR = 3600

COLUMNS = {
    "request": "requests",
    "read": "read",
    "write": "written",
    "class-a": "class A",
    "class-b": "class B",
    "pubsub-bytes": "Pub/Sub kB",
    "answer-bytes": "answers kB",
}


def page(bill: Bill) -> str:
    told = bill.prices.assumptions
    month = MONTH_HOURS * HOUR
    told_an_hour = bill.job_hour()["class-a"]
    sweep, most = (bill.counts[name]["read"] for name in SWEEPS_OF)
    fields = {
        "date": bill.prices.date,
        "region": bill.prices.region,
        "totals": _totals(bill),
        "counted": _counted(bill),
        "prices": _prices(bill.prices.prices),
        "stored": _usd(bill.prices.list_price(_stored(bill.jobs(1_000_000)))),
        "idle_reads": f"{sweep * 1440:,.0f}",
        "idle_reads_most": f"{most * 1440:,.0f}",
        "instance_hour": _usd(bill.prices.list_price(bill.instance_hour())),
        "instance_month": _usd(bill.prices.list_price(times(bill.instance_hour(), MONTH_HOURS))),
        "kept_month": _usd(bill.prices.list_price({"idle-second": month})),
        "talkative": _usd(
            bill.prices.list_price(times(bill.usage("piece of output"), LINES_AN_HOUR))
        ),
        "statistics": _usd(bill.prices.list_price({"class-a": 1000 * told_an_hour})),
        "hours": _usd(bill.prices.list_price(times(bill.job_hour(), 1000))),
        "hundreds": _usd(bill.prices.list_price(times(bill.usage("launch of 100 jobs"), 10))),
        "idle_seconds": f"{bill.idle_month()['cpu-second']:,.0f}",
        "start_seconds": f"{told.start_seconds:g}",
        "single": _usd(bill.prices.list_price(times(bill.usage("launch of one job"), 1000))),
        "sweep_reads": f"{99 * SWEEPS * bill.counts['sweep, for each worker more']['read']:,.0f}",
        "heartbeats": _usd(bill.prices.list_price(times(_heard(bill), MONTH_HOURS))),
        "job_logs": f"{bill.jobs(1_000_000)['log-bytes'] / GIB:.0f}",
        "log_kb": f"{told.log_bytes_a_request / 1000:g}",
        "sweep_log_kb": f"{told.log_bytes_a_sweep / 1000:g}",
        "archive_kb": f"{ARCHIVE_BYTES / 1000:g}",
        "request_seconds": told.request_seconds,
        "sweep_seconds": told.sweep_seconds,
        "instance_requests": told.instance_requests,
        "empty_pull": f"{told.empty_pull_seconds:g}",
        "starts": f"{told.starts_a_month:,}",
        "build_minutes": f"{told.build_minutes:g}",
    }
    return TEMPLATE.read_text("utf-8").format(**fields)


SWEEPS_OF = ("sweep", "sweep, with builds and Vertex AI")


def _totals(bill: Bill) -> str:
    idle = bill.idle_month()
    rows: list[tuple[str, Usage]] = [
        ("nothing connected", {}),
        ("1,000 jobs that end at once", bill.jobs(1000)),
        ("1,000,000 jobs that end at once", bill.jobs(1_000_000)),
        ("1,000 jobs of an hour", bill.jobs(1000, hours=1)),
        ("1,000,000 jobs of an hour", bill.jobs(1_000_000, hours=1)),
        ("a worker connected, through the API", bill.workers(1, directly=False)),
        ("a worker connected, directly", bill.workers(1, directly=True)),
        ("100 workers connected, through the API", bill.workers(100, directly=False)),
        ("100 workers connected, directly", bill.workers(100, directly=True)),
        ("100 builds", bill.builds(100)),
    ]
    prices = bill.prices
    return _table(
        ("", "a month", "nothing free"),
        (
            (
                what,
                f"**{_usd(prices.of_month(together(idle, usage)))}**",
                _usd(prices.list_price(usage or idle)),
            )
            for what, usage in rows
        ),
    )


def _counted(bill: Bill) -> str:
    rows = []
    for scenario, counts in bill.counts.items():
        numbers = [
            _number(counts.get(kind, 0) / (1000 if kind.endswith("-bytes") else 1))
            for kind in COLUMNS
        ]
        price = bill.prices.list_price(times(bill.usage(scenario), 1000))
        rows.append((scenario, *numbers, _usd(price)))
    return _table(("", *COLUMNS.values(), "of 1,000"), rows)


def _prices(prices: Iterable[Price]) -> str:
    return _table(
        ("", "US dollars", "for", "free a month", "Google's page"),
        (
            (
                price.what,
                f"{price.usd:.7f}".rstrip("0").rstrip("."),
                _size(price.per, price),
                _size(price.free, price) if price.free else "",
                f"<https://{price.page}>",
            )
            for price in prices
        ),
    )


def _size(quantity: float, price: Price) -> str:
    if not price.kind.endswith("-bytes"):
        return f"{quantity:,.0f}"
    return f"{quantity / GIB:,.0f} GiB"


def _heard(bill: Bill) -> Usage:
    """The heartbeats of a worker in an hour: what it asks for beside them is seldom."""
    return {k: n for k, n in bill.usage("worker, an hour").items() if k != "class-a"}


def _stored(usage: Usage) -> Usage:
    return {kind: usage.get(kind, 0) for kind in ("document-bytes", "blob-bytes")}


def _usd(dollars: float) -> str:
    """To the cent; what is less than ten, to two digits."""
    if dollars == 0 or dollars >= 0.0995:
        return f"${dollars:,.2f}"
    return f"${float(f'{dollars:.2g}'):.6f}".rstrip("0")


def _number(count: float) -> str:
    if not count:
        return ""
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
