"""What a benchmark reports, and how it is shown."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `floor` was measured in the same run, `limit` is what is to be reached.

    Lower is better unless `limit_is_least`. The limit is on the ratio if `on_ratio`.
    """

    what: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str = ""
    limit: float | None = None
    on_ratio: bool = False
    limit_is_least: bool = False

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    @property
    def reached(self) -> bool | None:
        """Whether the limit was kept; None without one."""
        judged = self.ratio if self.on_ratio else self.value
        if self.limit is None or judged is None:
            return None
        return judged >= self.limit if self.limit_is_least else judged <= self.limit


def quantile(samples: Sequence[float], q: float) -> float:
    """The sample at that rank, 0 to 1."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    return quantile(samples, 0.5)


def show(figures: Sequence[Figure], as_json: bool) -> None:
    if as_json:
        rows = [asdict(f) | {"ratio": f.ratio, "reached": f.reached} for f in figures]
        print(json.dumps(rows, indent=2))
        return
    table = Table("measured", "value", "floor or peer", "ratio", "limit", "", title="xmcloud")
    for figure in figures:
        table.add_row(
            figure.what,
            _amount(figure.value, figure.unit),
            ""
            if figure.floor is None
            else f"{_amount(figure.floor, figure.unit)} {figure.floor_is}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}x",
            _limit(figure),
            {True: "[green]reached", False: "[red]missed", None: ""}[figure.reached],
        )
    Console(width=150).print(table)


def _floor(figure: Figure) -> str:
    if figure.floor is None:
        return ""
    return f"{_amount(figure.floor, figure.unit)} {figure.floor_is}"


def _limit(figure: Figure) -> str:
    if figure.limit is None:
        return ""
    sign = ">=" if figure.limit_is_least else "<="
    bound = f"{figure.limit:g}x" if figure.on_ratio else _amount(figure.limit, figure.unit)
    return f"{sign} {bound}"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 20 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
