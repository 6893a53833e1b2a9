"""Annotations that ask for something once."""

from __future__ import annotations

from typing import Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.annotation_requests import read_requests
from tests.unit.operator.api.clusters import make_cluster
from tests.unit.operator.decide.fake_store import FakeStore

UID = "uid-1"
PREFIX = "gridcluster.io/"


def settled(spec: dict[str, Any] | None = None) -> FakeStore:
    store = FakeStore(spec)
    store.settle()
    store.events.clear()
    return store


def condition(store: FakeStore) -> tuple[str, str, str]:
    found = find_condition(store.cluster.status.conditions, ConditionType.REQUESTS_VALID)
    assert found is not None
    return found.status.value, found.reason, found.message


@pytest.mark.parametrize(
    ("name", "value", "request_id"),
    [
        ("backup", "monday-1", "monday-1"),
        ("backup", "a" * 63, "a" * 63),
        ("restart", "2026.01.01_1", "2026.01.01_1"),
        ("force-start", f"r1,acknowledge-data-loss={UID}", "r1"),
        ("partial-start", f"r1,acknowledge-data-loss={UID}", "r1"),
    ],
)
def test_proper_request(name: str, value: str, request_id: str) -> None:
    found = read_requests(make_cluster(annotations={PREFIX + name: value}))

    assert (dict(found.ids), found.problems) == ({name: request_id}, ())


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("backup", "", "request id"),
        ("backup", "a" * 64, "request id"),
        ("backup", "a b", "request id"),
        ("backup", "\u00e9", "request id"),
        ("backup", ",now=yes", "request id"),
        ("backup", "r1,now=yes", "options"),
        ("backup", "r1,", "options"),
        ("restart", f"r1,acknowledge-data-loss={UID}", "options"),
        ("backup", "r" * 10_000, "request id"),
        ("force-start", "r1", "metadata.uid"),
        ("force-start", "r1,acknowledge-data-loss=", "metadata.uid"),
        ("force-start", "r1,acknowledge-data-loss=uid-2", "metadata.uid"),
        ("force-start", f"r1,acknowledge-data-loss={UID},x=1", "options"),
        (
            "force-start",
            f"r1,acknowledge-data-loss={UID},acknowledge-data-loss={UID}",
            "options",
        ),
        ("backups", "r1", "write gridcluster.io/backup"),
        ("forcestart", "r1", "write gridcluster.io/force-start"),
        ("Restart", "r1", "write gridcluster.io/restart"),
    ],
)
def test_what_asks_for_nothing_is_told_and_nothing_is_done(
    name: str, value: str, told: str
) -> None:
    store = settled()
    meta = store.cluster.metadata.model_copy(update={"annotations": {PREFIX + name: value}})
    store.cluster = store.cluster.model_copy(update={"metadata": meta})

    store.settle()

    status, reason, message = condition(store)
    assert (status, reason) == ("False", "InvalidRequest")
    assert f"{PREFIX}{name[:20]}" in message
    assert told in message
    assert len(message) < 1000
    assert store.events == ["InvalidRequest"]
    assert (store.calls, store.replaced) == ([], [])
    assert store.cluster.status.handled_requests == ()


@pytest.mark.parametrize("name", ["rendered-hash", "team", "note"])
def test_other_annotations_are_nobodys_business(name: str) -> None:
    assert read_requests(make_cluster(annotations={PREFIX + name: "x"})).problems == ()


def test_another_wrong_annotation_is_told_as_well() -> None:
    store = settled()
    store.annotate(backup="a b")
    store.settle()
    store.annotate(restart="a b")
    store.settle()

    assert store.events == ["InvalidRequest", "InvalidRequest"]


def test_a_request_is_carried_out_once() -> None:
    store = settled()
    store.annotate(restart="r1")
    store.settle()
    assert store.replaced == ["demo-0"]
    assert [
        (h.annotation, h.request, h.outcome) for h in store.cluster.status.handled_requests
    ] == [("restart", "r1", "Succeeded")]
    assert store.events == ["RestartStarted", "ReplacingPod", "RestartSucceeded"]

    store.settle()
    store.annotate(restart="r2")
    store.settle()
    assert store.replaced == ["demo-0", "demo-0"]

    # An id that was carried out before is not carried out again, though another came since.
    store.annotate(restart="r1")
    store.settle()
    assert store.replaced == ["demo-0", "demo-0"]


@pytest.mark.parametrize(
    ("spec", "annotations", "told"),
    [
        ({}, {"backup": "r1"}, "spec.persistence.backup"),
        ({}, {"backup_interrupt": "r1"}, "no backup is being made"),
        ({}, {"force_start": f"r1,acknowledge-data-loss={UID}"}, "no member waits"),
        ({"runState": "Stopped"}, {"restart": "r1"}, "spec.runState is Stopped"),
        (
            {
                "runState": "Stopped",
                "persistence": {"enabled": True, "backup": {"claimName": "backups"}},
            },
            {"backup": "r1"},
            "spec.runState is Stopped",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_at_once_and_never_done(
    spec: dict[str, Any], annotations: dict[str, str], told: str
) -> None:
    store = settled(spec)
    store.annotate(**annotations)

    store.settle()

    assert store.calls == [] or spec
    (handled,) = store.cluster.status.handled_requests
    assert (handled.request, handled.outcome) == ("r1", "Refused")
    assert told in handled.message
    assert store.events == ["RequestRefused"]
    assert condition(store)[0] == "True"


def test_a_request_that_waits_says_for_what() -> None:
    store = settled({"persistence": {"enabled": True, "backup": {"claimName": "backups"}}})
    store.pods["demo-0"]["status"]["conditions"][0]["status"] = "False"
    store.views = {}
    store.annotate(backup="r1")

    store.settle()

    status, _, message = condition(store)
    assert status == "True"
    assert message == "gridcluster.io/backup r1 waits: demo-0 is not ready yet"
