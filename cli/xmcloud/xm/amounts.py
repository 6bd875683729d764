"""Parses what a script states of resources, replicas and slices."""

import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from xmcloud.xm.quantities import InvalidTpuTopologyError, ResourceQuantity, Topology
from xmcloud.xm.resources import AcceleratorType, ResourceType

Amount: TypeAlias = int | float | Topology

_SLICED = re.compile(r"(?P<amount>[^*]*)\*(?P<slices>[1-9][0-9]*)", re.ASCII)


@dataclass(frozen=True)
class Stated:
    """An amount and, of `'4x2*3'`, the number of slices."""

    amount: Amount
    slices: int | None = None


def parse_stated(name: str, resource: ResourceType, quantity: ResourceQuantity) -> Stated:
    """Raises ValueError; InvalidTpuTopologyError for an impossible count of accelerators."""
    if isinstance(quantity, str) and (sliced := _SLICED.fullmatch(quantity)):
        if resource not in AcceleratorType:
            raise ValueError(f"{name} is no accelerator, so {quantity!r} means nothing for it")
        return Stated(_parse(name, resource, sliced["amount"]), int(sliced["slices"]))
    return Stated(_parse(name, resource, quantity))


def _parse(name: str, resource: ResourceType, quantity: Any) -> Amount:
    if isinstance(quantity, str):
        quantity = _parse_text(name, quantity)
    if isinstance(quantity, Topology):
        if resource not in AcceleratorType:
            raise ValueError(f"{name} is no accelerator, so {quantity.name!r} means nothing for it")
        return quantity
    if not isinstance(quantity, int | float) or not math.isfinite(quantity):
        raise ValueError(f"{name} is {quantity!r}; give a number")
    if resource in AcceleratorType:
        return _chips(name, quantity)
    if quantity < 0:
        raise ValueError(f"{name} is {quantity!r}; give a number that is not negative")
    return float(quantity) if resource is ResourceType.CPU else quantity


def _parse_text(name: str, text: str) -> int | float | Topology:
    if Topology.PATTERN.fullmatch(text) and not text.isdigit():
        return Topology(text)
    try:
        number = float(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}, which is no number; with a unit, write for example "
            f"{name}=4 * xm.GiB"
        ) from None
    return int(number) if number.is_integer() else number


def _chips(name: str, count: int | float) -> Topology | int:
    if count < 0 or count != int(count):
        raise InvalidTpuTopologyError(
            f"{name} is {count!r}; a count of accelerators is a whole number that is not negative"
        )
    return Topology(str(int(count))) if count else 0


def parse_count(name: str, value: Any) -> int | None:
    """A whole number from 1, also as text; None stays. Raises ValueError."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if number >= 1 and number.is_integer():
        return int(number)
    raise ValueError(f"{name} is {value!r}; give a whole number from 1")
