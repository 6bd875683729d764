"""Which GPUs somebody names: `all`, `none`, or numbers and UUIDs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f-]+", re.ASCII | re.IGNORECASE)
_MIG = re.compile(r"MIG-.*|[0-9]+:[0-9]+", re.IGNORECASE)
_NO_DEVICE = ("-1", "NoDevFiles")
_NONE = ("", "none", "void")


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Numbers as the driver counts, in the order of the PCI bus, or beginnings of UUIDs."""

    names: tuple[str, ...] | None = None
    """None: whatever there is."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError."""
        text = text.strip()
        if text.lower() == "all":
            return cls()
        if text.lower() in _NONE:
            return cls(())
        return cls(tuple(_device(part.strip()) for part in text.split(",")))


def _device(text: str) -> str:
    if _MIG.fullmatch(text):
        raise ValueError(
            f"{text!r} is a part of a GPU (MIG), and jobs get whole ones here;"
            " name the GPU by its number or UUID"
        )
    if _NUMBER.fullmatch(text):
        return str(int(text))
    if _UUID.fullmatch(text):
        return text
    raise ValueError(f"{text!r} is no GPU; write 'all', 'none', or numbers and UUIDs: 0,1")


def of_nvidia(text: str, *, contained: bool) -> str:
    """What NVIDIA_VISIBLE_DEVICES says to a worker.

    In a container its numbers are those of the host, which were applied when it started; and
    `void` is what an engine that gave it devices itself leaves there.
    """
    applied = re.fullmatch(r"\s*(void|[0-9]+(\s*,\s*[0-9]+)*)\s*", text, re.ASCII)
    return "all" if contained and applied else text


def visible_to_cuda(environment: Mapping[str, str]) -> GpuChoice:
    """What CUDA_VISIBLE_DEVICES leaves; it ends before the first -1. Raises ValueError."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return GpuChoice()
    names = [part.strip() for part in text.split(",")]
    end = next((i for i, name in enumerate(names) if name in _NO_DEVICE), len(names))
    return GpuChoice.parse(",".join(names[:end]))
