import json
from pathlib import Path
from typing import Any

import pytest

from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.studies import Algorithm, Choice, Double, Integer, StudySpec, search_of
from xmcloud.xm_cloud.unsupported import Unsupported
from xmcloud.xm_cloud.vizier_worker import VizierWorker

Parameter = StudySpec.ParameterSpec
DOUBLE = Parameter.DoubleValueSpec(min_value=0.5, max_value=2.0)
GOALS = StudySpec.MetricSpec.GoalType


def study(kind: Any) -> Any:
    """In the words of either: ours or Vertex AI's."""
    parameter, scale = kind.ParameterSpec, kind.ParameterSpec.ScaleType.UNIT_LOG_SCALE
    return kind(
        algorithm=kind.Algorithm.RANDOM_SEARCH,
        parameters=[
            parameter(
                parameter_id="x",
                scale_type=scale,
                double_value_spec=parameter.DoubleValueSpec(min_value=0.5, max_value=2.0),
            ),
            parameter(
                parameter_id="n",
                integer_value_spec=parameter.IntegerValueSpec(min_value=0, max_value=3),
            ),
            parameter(
                parameter_id="c",
                categorical_value_spec=parameter.CategoricalValueSpec(values=["a", "b"]),
            ),
            parameter(
                parameter_id="d",
                discrete_value_spec=parameter.DiscreteValueSpec(values=[1.0, 2.5]),
            ),
        ],
        metrics=[kind.MetricSpec(metric_id="loss", goal=kind.MetricSpec.GoalType.MINIMIZE)],
    )


def of_vertex() -> Any:
    from google.cloud.aiplatform_v1.types import StudySpec as OfVertex

    return OfVertex


@pytest.mark.parametrize("kind", [lambda: StudySpec, of_vertex])
def test_our_words_and_those_of_vertex(kind: Any) -> None:
    search = search_of(study(kind()))
    assert (search.metric, search.maximize) == ("loss", False)
    assert search.algorithm is Algorithm.RANDOM_SEARCH
    assert search.parameters == (
        Double(name="x", low=0.5, high=2.0, log=True),
        Integer(name="n", low=0, high=3, log=False),
        Choice(name="c", values=("a", "b")),
        Choice(name="d", values=(1.0, 2.5)),
    )


def spec(**changes: Any) -> StudySpec:
    fields: dict[str, Any] = {
        "parameters": [Parameter(parameter_id="x", double_value_spec=DOUBLE)],
        "metrics": [StudySpec.MetricSpec(metric_id="m")],
    }
    return StudySpec(**(fields | changes))


@pytest.mark.parametrize(
    ("goal", "maximize"),
    [(GOALS.MAXIMIZE, True), (GOALS.MINIMIZE, False), (GOALS.GOAL_TYPE_UNSPECIFIED, True)],
)
def test_the_goal(goal: int, maximize: bool) -> None:
    metric = StudySpec.MetricSpec(metric_id="m", goal=goal)
    assert search_of(spec(metrics=[metric])).maximize is maximize


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"metrics": []}, Unsupported, "0 metrics"),
        ({"parameters": []}, InvalidInput, "one parameter at least"),
        ({"parameters": [Parameter(parameter_id="x")]}, InvalidInput, "exactly one value spec"),
        ({"algorithm": 9}, Unsupported, "algorithm is 9. Use one of ALGORITHM_UNSPECIFIED, GRID"),
        ({"algorithm": Algorithm.GRID_SEARCH}, InvalidInput, "x is 'double'. .* grid search"),
        (
            {"parameters": [Parameter(parameter_id="x", double_value_spec=DOUBLE, scale_type=3)]},
            Unsupported,
            "scale_type is 3",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(
    changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        search_of(spec(**changes))


def test_a_job_tells_how_its_trial_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results"
    monkeypatch.setenv("XMCLOUD_RESULTS", str(path))
    worker = VizierWorker("projects/p/locations/l/studies/s/trials/1")
    worker.add_trial_measurement(1, {"loss": 2.0, "other": 1.0})
    worker.add_trial_measurement(2, {"loss": 0.5})
    worker.complete_trial()
    assert json.loads(path.read_text()) == {"step": 2, "loss": 0.5, "other": 1.0}
    with pytest.raises(RuntimeError, match="infeasible: no room"):
        worker.complete_trial("no room")
    with pytest.raises(ValueError, match="trial_name is '1'"):
        VizierWorker("1")
