"""From counts to a price: arithmetic alone. The prices are those of `prices.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MONTH_DAYS = 30

Usage = Mapping[str, float]
"""Billed quantities by kind, in the units of the prices."""


@dataclass(frozen=True, slots=True)
class Price:
    """`usd` for `per` of it, beyond what is free in a month."""

    kind: str
    what: str
    usd: float
    per: int
    free: float
    page: str

    def list_price(self, quantity: float) -> float:
        return quantity * self.usd / self.per

    def after_free(self, quantity: float) -> float:
        return self.list_price(max(0.0, quantity - self.free))


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is not counted."""

    request_seconds: float
    sweep_seconds: float
    instance_requests: int
    empty_pull_seconds: float
    log_bytes_a_request: int
    log_bytes_a_sweep: int
    stored_factor: float
    starts_a_month: int
    start_seconds: float
    build_minutes: float


@dataclass(frozen=True, slots=True)
class PriceList:
    date: str
    region: str
    assumptions: Assumptions
    prices: tuple[Price, ...]

    def list_price(self, usage: Usage) -> float:
        """US dollars, nothing free."""
        return sum(price.list_price(usage.get(price.kind, 0)) for price in self.prices)

    def of_month(self, usage: Usage) -> float:
        """US dollars of a month in which nothing else happens."""
        return sum(price.after_free(usage.get(price.kind, 0)) for price in self.prices)


def price_list(file: Path) -> PriceList:
    found = json.loads(file.read_text("utf-8"))
    prices = tuple(_price(kind, told) for kind, told in found["prices"].items())
    return PriceList(found["date"], found["region"], Assumptions(**found["assumptions"]), prices)


def _price(kind: str, told: dict[str, Any]) -> Price:
    free = told.get("free_a_month", told.get("free_a_day", 0) * MONTH_DAYS)
    return Price(kind, told["what"], told["usd"], told["per"], free, told["page"])


def times(usage: Usage, factor: float) -> Usage:
    return {kind: quantity * factor for kind, quantity in usage.items()}


def together(*parts: Usage) -> Usage:
    kinds = {kind for part in parts for kind in part}
    return {kind: sum(part.get(kind, 0) for part in parts) for kind in kinds}
