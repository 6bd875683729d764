"""Metrics, alerts and the check from outside: on what is really logged and served."""

import json
import logging
import re
from typing import Any

import pytest

from tests.infra.conftest import Applied
from tests.support.clock import START
from xmcloud.core.control.sweep import _log_loss
from xmcloud.core.logs import JsonFormatter, about
from xmcloud.core.models import Session
from xmcloud.functions.http import operation

POLICY = "google_monitoring_alert_policy"
METRIC = "google_logging_metric"
USER_METRIC = re.compile(r"logging\.googleapis\.com/user/(\w+)")


def line(record: logging.LogRecord) -> dict[str, Any]:
    """As Cloud Logging has it: what it does not know itself is in jsonPayload."""
    written: dict[str, Any] = json.loads(JsonFormatter("my-project").format(record))
    return {"severity": written.pop("severity"), "jsonPayload": written}


@pytest.fixture
def lost(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    times = dict.fromkeys(("opened_at", "renewed_at", "expires_at"), START)
    session = Session.model_validate(
        {"id": "a" * 16, "worker": "box-1", "pool": "lab", "queues": ["high"], "slots": 1} | times
    )
    with caplog.at_level(logging.INFO, "xmcloud.sweep"):
        _log_loss(session)
    (record,) = caplog.records
    return line(record)


def test_lost_workers_are_counted_in_the_lines_that_the_sweep_writes(
    applied: Applied, lost: dict[str, Any]
) -> None:
    metric = applied.one(METRIC, name="xmcloud_lost_workers").values
    (wanted,) = re.findall(r'jsonPayload\.(\w+)="(\w+)"', metric["filter"])
    assert lost["jsonPayload"][wanted[0]] == wanted[1]
    extracted = {
        label: lost["jsonPayload"][text.removeprefix("EXTRACT(jsonPayload.").removesuffix(")")]
        for label, text in metric["label_extractors"].items()
    }
    assert extracted == {"worker": "box-1", "pool": "lab"}
    assert {label["key"] for label in metric["metric_descriptor"][0]["labels"]} == set(extracted)


def test_errors_are_counted_by_the_severity_that_is_written(
    applied: Applied, lost: dict[str, Any]
) -> None:
    metric = applied.one(METRIC, name="xmcloud_errors").values
    assert metric["filter"].endswith("severity>=ERROR")
    record = logging.LogRecord("xmcloud", logging.ERROR, "", 0, "no", None, None)
    record.__dict__.update(about(None, status=500))
    assert line(record)["severity"] == "ERROR"
    assert lost["severity"] != "ERROR"


def test_every_metric_is_of_the_functions_own_output_and_is_looked_at(applied: Applied) -> None:
    metrics = {each.values["name"]: each.values for each in applied.all(METRIC)}
    functions = [f.values["name"] for f in applied.all("google_cloudfunctions2_function")]
    for metric in metrics.values():
        (service,) = re.findall(r'service_name=~"([^"]+)"', metric["filter"])
        assert all(re.match(service, name) for name in functions)
        assert 'log_id("run.googleapis.com/stdout")' in metric["filter"]
    texts = [json.dumps(policy.values["conditions"]) for policy in applied.all(POLICY)]
    assert set(USER_METRIC.findall(" ".join(texts))) == set(metrics)
    dashboard = applied.one("google_monitoring_dashboard").values["dashboard_json"]
    assert set(USER_METRIC.findall(dashboard)) == set(metrics)


def test_every_alert_says_what_to_do_and_tells_somebody(applied: Applied) -> None:
    for policy in applied.all(POLICY):
        assert "docs/operation.md" in policy.values["documentation"][0]["content"]
        assert len(policy.values["notification_channels"]) == 2


def test_the_api_is_watched_from_outside_where_anybody_may_reach_it(
    applied: Applied, least: str
) -> None:
    check = applied.one("google_monitoring_uptime_check_config").values
    (http,) = check["http_check"]
    assert http["path"].removeprefix("/v1") in {route.path for route in operation.public.routes}  # type: ignore[attr-defined]
    assert http["validate_ssl"] is True
    host = check["monitored_resource"][0]["labels"]["host"]
    assert applied.outputs["api_url"] == f"https://{host}"
    assert "uptime_check" not in least
    assert "not_ready" not in least
