"""Topics, subscriptions, indexes and the bucket against the code that uses them."""

import json
from importlib.resources import files

import pytest
from google.pubsub_v1 import types

from tests.infra.conftest import FULL, Applied, Resource
from xmcloud.adapters.gcp.pubsub import PubSubQueue, _description
from xmcloud.core import documents, topics
from xmcloud.core.control.content import _upload
from xmcloud.core.documents import Collection
from xmcloud.core.indexes import declared
from xmcloud.core.models import DEFAULT_QUEUES
from xmcloud.core.ports import Subscription

PROJECT = "my-project"
INDEXES = "functions/xmcloud/core/firestore.indexes.json"
SUBSCRIPTION = "google_pubsub_subscription"
ALL_QUEUES = [name for name, _ in DEFAULT_QUEUES] + ["nightly"]
CODE = PubSubQueue(PROJECT)


def topic_of(name: str) -> str:
    return CODE._topic(name).rpartition("/")[2]


def made(applied: Applied, subscription: Subscription) -> Resource:
    return applied.one(SUBSCRIPTION, name=CODE._name(subscription).rpartition("/")[2])


@pytest.mark.parametrize("name", [topics.CONTROL_TOPIC, *map(topics.queue_topic, ALL_QUEUES)])
def test_every_topic_is_there_by_the_codes_name(applied: Applied, name: str) -> None:
    applied.one("google_pubsub_topic", name=topic_of(name))


def test_topics_of_events(applied: Applied) -> None:
    """Cloud Build publishes to a topic of its own name, without ours before it."""
    assert topic_of(topics.BUILD_EVENTS) == "cloud-builds"
    applied.one("google_pubsub_topic", name="cloud-builds")
    applied.one("google_pubsub_topic", name=topic_of(topics.PLATFORM_EVENTS))


@pytest.mark.parametrize("pool", ["local", "lab", "vertex"])
@pytest.mark.parametrize("queue", ALL_QUEUES)
def test_permits_are_subscribed_to_as_the_code_would(
    applied: Applied, queue: str, pool: str
) -> None:
    subscription = topics.permit_subscription(queue, pool)
    ours = made(applied, subscription)
    assert topic_of(subscription.topic) in ours.values["topic"]
    code = types.Subscription.pb(_description("s", "t", subscription))
    assert ours.values["filter"] == code.filter
    retention = f"{code.message_retention_duration.seconds}s"
    assert ours.values["message_retention_duration"] == retention
    assert ours.values["expiration_policy"] == [{"ttl": ""}]
    assert ours.values["retry_policy"] == ours.values["dead_letter_policy"] == []
    if pool != "vertex":  # that is pushed, and answered when its jobs are submitted
        assert ours.values["ack_deadline_seconds"] == code.ack_deadline_seconds == 10


@pytest.mark.parametrize("subscription", topics.event_subscriptions(), ids=lambda s: s.topic)
def test_events_are_tried_again_and_then_kept(applied: Applied, subscription: Subscription) -> None:
    ours = made(applied, subscription)
    assert ours.values["filter"] == _description("s", "t", subscription).filter
    assert ours.values["retry_policy"] == [{"minimum_backoff": "10s", "maximum_backoff": "600s"}]
    (policy,) = ours.values["dead_letter_policy"]
    assert 5 <= policy["max_delivery_attempts"] <= 100
    dead = next(
        t
        for t in applied.all("google_pubsub_topic")
        if t.values["id"] == policy["dead_letter_topic"]
    )
    kept = [s for s in applied.all(SUBSCRIPTION) if s.values["topic"] == dead.values["id"]]
    assert len(kept) == 1
    agent = "@gcp-sa-pubsub.iam.gserviceaccount.com"
    buries = applied.one("google_pubsub_topic_iam_member", topic=dead.values["name"])
    takes = applied.one("google_pubsub_subscription_iam_member", subscription=ours.values["name"])
    assert (buries.values["role"], takes.values["role"]) == (
        "roles/pubsub.publisher", "roles/pubsub.subscriber",
    )  # fmt: skip
    assert buries.values["member"].endswith(agent)
    assert takes.values["member"].endswith(agent)


def test_no_other_subscription(applied: Applied) -> None:
    pools = [*FULL["pools"], "vertex"]  # type: ignore[misc]
    expected = {CODE._name(topics.permit_subscription(q, p)) for q in ALL_QUEUES for p in pools}
    expected |= {CODE._name(each) for each in topics.event_subscriptions()}
    names = {s.values["name"] for s in applied.all(SUBSCRIPTION)}
    dead = {name for name in names if name.endswith(".dead-letters")}
    assert names - dead == {name.rpartition("/")[2] for name in expected}
    assert len(dead) == 2


def test_the_platforms_words_reach_their_topic(applied: Applied) -> None:
    sink = applied.one("google_logging_project_sink")
    name = topic_of(topics.PLATFORM_EVENTS)
    assert sink.values["filter"].startswith('resource.type="ml_job" ')
    assert sink.values["destination"].endswith(f"/topics/{name}")
    grant = applied.one("google_pubsub_topic_iam_member", topic=name)
    assert grant.values["member"] == sink.values["writer_identity"]


def test_every_index_of_the_one_declaration(applied: Applied) -> None:
    ways = {"ASCENDING": "asc", "DESCENDING": "desc"}
    made = [index.values for index in applied.all("google_firestore_index")]
    assert sorted(
        (index["collection"], tuple((f["field_path"], ways[f["order"]]) for f in index["fields"]))
        for index in made
    ) == sorted((index.collection, index.fields) for index in declared())
    assert {index["query_scope"] for index in made} == {"COLLECTION"}


def test_fields_that_are_exempt_from_indexing(applied: Applied) -> None:
    raw = json.loads((files("xmcloud.core") / "firestore.indexes.json").read_text("utf-8"))
    fields = [field.values for field in applied.all("google_firestore_field")]
    made = {(field["collection"], field["field"]): bool(field["ttl_config"]) for field in fields}
    assert made == {
        (field["collectionGroup"], field["fieldPath"]): field.get("ttl", False)
        for field in raw["fieldOverrides"]
    }
    kept = {each.name for each in vars(documents).values() if isinstance(each, Collection)}
    assert kept <= {collection for collection, field in made if field == "body"}
    configs = [field["index_config"] for field in fields]
    assert all(config == [{"indexes": []}] for config in configs)


def test_the_database_is_the_codes_and_is_protected(applied: Applied) -> None:
    database = applied.one("google_firestore_database").values
    assert (database["name"], database["type"]) == ("(default)", "FIRESTORE_NATIVE")
    assert database["delete_protection_state"] == "DELETE_PROTECTION_ENABLED"
    assert database["point_in_time_recovery_enablement"] == "POINT_IN_TIME_RECOVERY_ENABLED"


def test_direct_clients_are_refused(applied: Applied) -> None:
    ((file,),) = (s["files"] for s in applied.one("google_firebaserules_ruleset").values["source"])
    assert "allow read, write: if false;" in file["content"]
    assert file["content"].count("allow") == 1
    release = applied.one("google_firebaserules_release").values
    assert release["name"] == "cloud.firestore"


def test_the_bucket_forgets_abandoned_uploads_and_nothing_else_of_the_jobs(
    applied: Applied,
) -> None:
    bucket = applied.one("google_storage_bucket", name="my-project-xmcloud").values
    assert bucket["uniform_bucket_level_access"] is True
    assert bucket["public_access_prevention"] == "enforced"
    assert bucket["force_destroy"] is False
    aged = {
        tuple(rule["condition"][0]["matches_prefix"] or ())
        for rule in bucket["lifecycle_rule"]
        if rule["condition"][0]["age"] and rule["action"][0]["type"] == "Delete"
    }
    assert aged == {(_upload("").rstrip("/") + "/",), ("build-logs/",)}
