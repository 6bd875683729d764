"""docs/cost.md: its counts are those of this code, its prices those that follow from them."""

from pathlib import Path

import pytest

from tests.cost.bill import Bill
from tests.cost.pricing import Price, PriceList, price_list
from tests.cost.record import AGAIN, DOCUMENT, PRICES, differences, recorded, rendered
from tests.cost.scenarios import measured


def test_the_counts_are_those_of_a_run(tmp_path: Path) -> None:
    changed = differences(recorded(), measured(tmp_path))
    what = "\n".join(changed)
    assert not changed, f"It costs something else than docs/cost.md says:\n{what}\nThen: {AGAIN}"


def test_the_page_is_what_follows_from_counts_and_prices() -> None:
    assert DOCUMENT.read_text("utf-8") == rendered(recorded()), (
        f"docs/cost.md is made of tests/cost/page.md, counts.json and prices.json: {AGAIN}"
    )


def test_an_idle_month_costs_nothing() -> None:
    bill = Bill(recorded(), price_list(PRICES))
    assert bill.prices.of_month(bill.idle_month()) == 0
    assert bill.prices.of_month(bill.idle_month("sweep, with builds and Vertex AI")) == 0


def test_every_counted_kind_has_a_price() -> None:
    kinds = {kind for counts in recorded().values() for kind in counts}
    # Of messages, their bytes are billed.
    assert kinds - {"publish"} <= {price.kind for price in price_list(PRICES).prices}


def test_what_is_free_is_taken_off_once() -> None:
    told = price_list(PRICES)
    prices = PriceList("", "", told.assumptions, (Price("read", "reads", 0.5, 10, 100.0, ""),))
    assert prices.list_price({"read": 120}) == pytest.approx(6)
    assert prices.of_month({"read": 120}) == pytest.approx(1)
    assert prices.of_month({"read": 100}) == 0
    assert prices.list_price({"other": 5}) == 0


def test_a_count_that_changed_is_named() -> None:
    known = {"job": {"read": 3, "write": 2, "answer-bytes": 1000}}
    now = {"job": {"read": 3, "write": 4, "answer-bytes": 1200}}
    assert differences(known, now) == ["job: write was 2, is 4"]
    assert differences(known, {}) == [
        "job: answer-bytes was 1000, is 0",
        "job: read was 3, is 0",
        "job: write was 2, is 0",
    ]
