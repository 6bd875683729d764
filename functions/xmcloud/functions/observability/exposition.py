"""Prometheus' text format, version 0.0.4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["gauge", "counter", "summary"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A value with its labels; `suffix` is that of a part of a summary."""

    value: float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """Samples of one name."""

    name: str
    kind: Kind
    about: str
    samples: Sequence[Sample]


def exposed(metrics: Sequence[Metric]) -> str:
    return "".join(_lines(metric) for metric in metrics)


def _lines(metric: Metric) -> str:
    about = metric.about.replace("\\", r"\\").replace("\n", r"\n")
    head = f"# HELP {metric.name} {about}\n# TYPE {metric.name} {metric.kind}\n"
    return head + "".join(
        f"{metric.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}\n"
        for sample in metric.samples
    )


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
