"""What the control plane runs on; one package a platform."""

from collections.abc import Callable

Observe = Callable[[str, int], None]
"""Told of every operation of a backend: its kind and how many documents or messages it moved."""


def unobserved(kind: str, count: int) -> None:
    """Counts nothing."""
