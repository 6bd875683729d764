"""Instants and spans as people say them."""

from datetime import datetime

_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float) -> str:
    """`4.7 s`, `3 min 05 s`, `2 h 10 min`, `4 d 06 h`."""
    whole = max(0, int(seconds))
    for size, name, part, part_name in _UNITS:
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part:02} {part_name}"
    return f"{max(0.0, seconds):.1f} s"


def age(then: datetime, now: datetime) -> str:
    """`just now`, `3 min ago`, `5 h ago`, `12 d ago`."""
    whole = int((now - then).total_seconds())
    for size, name, _, _ in _UNITS:
        if whole >= size:
            return f"{whole // size} {name} ago"
    return f"{whole} s ago" if whole >= 5 else "just now"


def memory(size: int) -> str:
    """`87 MB`, `1.2 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
