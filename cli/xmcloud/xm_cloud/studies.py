"""What a search varies and what it is after, in the words of Vertex AI Vizier.

`StudySpec` has the names of the class there; either can be given to a study.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from xmcloud.core.base import Model
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.unsupported import Unsupported

E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """One metric to make largest or smallest, and the parameters that may be varied for it."""

    class Algorithm(IntEnum):
        """How parameters are chosen; unspecified: by what the trials before have shown."""

        ALGORITHM_UNSPECIFIED = 0
        GRID_SEARCH = 2
        RANDOM_SEARCH = 3

    @dataclass(frozen=True, kw_only=True)
    class ParameterSpec:
        """One parameter; exactly one of the value specs says which values it takes."""

        class ScaleType(IntEnum):
            SCALE_TYPE_UNSPECIFIED = 0
            UNIT_LINEAR_SCALE = 1
            UNIT_LOG_SCALE = 2

        @dataclass(frozen=True)
        class DoubleValueSpec:
            min_value: float
            max_value: float

        @dataclass(frozen=True)
        class IntegerValueSpec:
            min_value: int
            max_value: int

        @dataclass(frozen=True)
        class CategoricalValueSpec:
            values: Sequence[str]

        @dataclass(frozen=True)
        class DiscreteValueSpec:
            values: Sequence[float]

        parameter_id: str
        double_value_spec: DoubleValueSpec | None = None
        integer_value_spec: IntegerValueSpec | None = None
        categorical_value_spec: CategoricalValueSpec | None = None
        discrete_value_spec: DiscreteValueSpec | None = None
        scale_type: int = ScaleType.SCALE_TYPE_UNSPECIFIED

    @dataclass(frozen=True, kw_only=True)
    class MetricSpec:
        """A result of the job, by its name; the larger the better, unless it is to be least."""

        class GoalType(IntEnum):
            GOAL_TYPE_UNSPECIFIED = 0
            MAXIMIZE = 1
            MINIMIZE = 2

        metric_id: str
        goal: int = GoalType.GOAL_TYPE_UNSPECIFIED

    metrics: Sequence[MetricSpec]
    parameters: Sequence[ParameterSpec]
    algorithm: int = Algorithm.ALGORITHM_UNSPECIFIED


Algorithm = StudySpec.Algorithm


class Double(Model):
    kind: Literal["double"] = "double"
    name: str
    low: float
    high: float
    log: bool


class Integer(Model):
    kind: Literal["integer"] = "integer"
    name: str
    low: int
    high: int
    log: bool


class Choice(Model):
    kind: Literal["choice"] = "choice"
    name: str
    values: tuple[str | float, ...]


Parameter = Annotated[Double | Integer | Choice, Field(discriminator="kind")]


class Search(Model):
    """A study spec, checked; it is kept with the study."""

    parameters: Annotated[tuple[Parameter, ...], Field(min_length=1)]
    metric: str
    maximize: bool
    algorithm: Algorithm


def search_of(config: Any) -> Search:
    """Of our `StudySpec` or that of Vertex AI.

    Raises `InvalidInput` for what says nothing to search, and `Unsupported` for several metrics,
    parameters that depend on others, and scales and algorithms that are not here.
    """
    metrics = list(config.metrics)
    if len(metrics) != 1:
        raise Unsupported(
            f"The study has {len(metrics)} metrics.", "Give the one that the search is after."
        )
    parameters = tuple(_parameter(each) for each in config.parameters)
    if not parameters:
        raise InvalidInput("parameters", [], "one parameter at least")
    [metric] = metrics
    search = Search(
        parameters=parameters,
        metric=metric.metric_id,
        maximize=int(metric.goal) != StudySpec.MetricSpec.GoalType.MINIMIZE,
        algorithm=_known("algorithm", int(config.algorithm), Algorithm),
    )
    if search.algorithm is Algorithm.GRID_SEARCH:
        for each in search.parameters:
            if isinstance(each, Double):
                raise InvalidInput(each.name, each.kind, "of finitely many values in a grid search")
    return search


def _parameter(spec: Any) -> Double | Integer | Choice:
    name = str(spec.parameter_id)
    if getattr(spec, "conditional_parameter_specs", None):
        raise Unsupported(
            f"Parameter {name} has parameters that depend on it.", "Search them as if they did not."
        )
    given = list(_given(spec, name))
    if len(given) != 1:
        raise InvalidInput(name, spec, "a parameter with exactly one value spec")
    return given[0]


def _given(spec: Any, name: str) -> Iterator[Double | Integer | Choice]:
    scales = StudySpec.ParameterSpec.ScaleType
    log = _known("scale_type", int(spec.scale_type), scales) is scales.UNIT_LOG_SCALE
    if double := spec.double_value_spec:
        yield Double(name=name, low=double.min_value, high=double.max_value, log=log)
    if integer := spec.integer_value_spec:
        yield Integer(name=name, low=integer.min_value, high=integer.max_value, log=log)
    for choice in filter(None, (spec.categorical_value_spec, spec.discrete_value_spec)):
        yield Choice(name=name, values=tuple(choice.values))


def _known(what: str, value: int, kind: type[E]) -> E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(each.name for each in kind)
        raise Unsupported(f"{what} is {value}.", f"Use one of {known}.") from None
