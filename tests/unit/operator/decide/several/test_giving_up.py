"""Of several members data is given up only while none of them may serve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType
from grid_operator.decide.calls import CallDone, CallOutcome, CallRefused, CallUnknown
from tests.unit.operator.decide.fake_store import FakeStore, make_pod
from tests.unit.operator.decide.several.test_several import (
    ENDED,
    NAMES,
    OF_THREE,
    PARKED,
    RUNNING,
    SILENT,
    STARTING,
    UNSTARTED,
    condition,
    revision,
    three,
)

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem, MemberView

REFUSED = CallRefused("it waits for nobody")


def all_starting() -> FakeStore:
    """Return three that have not joined, and none of which is ready."""
    store = three(persistence={"enabled": True})
    for name in NAMES:
        store.pods[name] = make_pod(name, revision(store), ready=False)
    store.views = dict.fromkeys(NAMES, STARTING)
    return store


@pytest.mark.parametrize("request_of", ["force_start", "partial_start"])
@pytest.mark.parametrize(
    "other", [OF_THREE, replace(OF_THREE, ready=False), SILENT], ids=["ready", "joined", "silent"]
)
def test_data_is_given_up_only_while_nobody_serves(
    request_of: str, other: MemberView | MemberProblem
) -> None:
    """A member that is starting is what every restart shows."""
    store = three(persistence={"enabled": True})
    store.pods["demo-2"] = make_pod("demo-2", revision(store), ready=False)
    store.views = {"demo-0": other, "demo-1": other, "demo-2": STARTING}
    store.annotate(**{request_of: "r1,acknowledge-data-loss=uid-1"})
    for _ in range(5):
        store.step()

    assert store.calls == []
    (handled,) = store.cluster.status.handled_requests
    assert handled.outcome == "Refused"
    assert "demo-0 has joined or serves" in handled.message

    for name in NAMES:
        store.pods[name] = make_pod(name, revision(store), ready=False)
    store.views = dict.fromkeys(NAMES, STARTING)
    store.annotate(**{request_of: "r2,acknowledge-data-loss=uid-1"})
    for _ in range(5):
        store.step()
    assert [call.pod["metadata"]["name"] for call in store.calls] == ["demo-0"]


@pytest.mark.parametrize("request_of", ["force_start", "partial_start"])
def test_data_is_given_up_only_while_nobody_may_serve(request_of: str) -> None:
    """Who answers the operator nothing may answer clients, and is not ready for a while only."""
    store = all_starting()
    store.pods["demo-1"]["status"] |= RUNNING
    store.views = {**store.views, "demo-1": SILENT}
    store.annotate(**{request_of: "r1,acknowledge-data-loss=uid-1"})
    for _ in range(5):
        store.step()
    assert store.calls == []
    assert store.cluster.status.operation is not None  # a moment's silence is waited for
    told = condition(store, ConditionType.PROGRESSING)
    assert "demo-1 does not say whether it serves" in told.message

    for _ in range(10):
        store.step()

    assert store.calls == []
    (finished,) = store.cluster.status.last_operations
    assert finished.outcome == "Failed"
    assert "demo-1 does not say whether it serves" in finished.message


def test_a_request_during_a_start_is_refused_at_once_while_others_serve() -> None:
    store = three(persistence={"enabled": True}, runState="Stopped")
    store.change_spec({"size": 3, "persistence": {"enabled": True}})
    store.views = {**store.views, "demo-2": STARTING}
    for _ in range(5):
        store.step()
    asked = "r1,acknowledge-data-loss=uid-1"
    store.annotate(force_start=asked, partial_start=asked)
    for _ in range(5):
        store.step()

    (finished, *_) = store.cluster.status.last_operations
    assert (finished.kind, finished.outcome) == ("Start", "Interrupted")
    assert finished.message == "gridcluster.io/partial-start is carried out or refused first"
    assert [one.outcome for one in store.cluster.status.handled_requests] == ["Refused"] * 2
    assert store.calls == []


def test_data_is_given_up_once_the_others_say_again_that_they_wait() -> None:
    store = all_starting()
    store.pods["demo-1"]["status"] |= RUNNING
    store.views = {**store.views, "demo-1": SILENT}
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    for _ in range(3):
        store.step()
    store.views = dict.fromkeys(NAMES, STARTING)
    for _ in range(3):
        store.step()

    assert [call.pod["metadata"]["name"] for call in store.calls] == ["demo-0"]


@pytest.mark.parametrize("other", [SILENT, OF_THREE], ids=["silent", "serves"])
def test_data_is_not_given_up_again_while_another_may_serve(
    other: MemberView | MemberProblem,
) -> None:
    """The first call was refused for a moment, or its answer was lost."""
    store = all_starting()
    store.answer = CallUnknown("demo-0 has only just started: nothing was done, ask again in 5 s")
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    while not store.calls:
        store.step()
    store.pods["demo-2"]["status"] |= RUNNING
    store.views = {**store.views, "demo-2": other}
    for _ in range(15):
        store.step()

    assert len(store.calls) == 1
    (finished,) = store.cluster.status.last_operations
    assert finished.outcome == "Failed"
    assert "demo-2" in finished.message


@pytest.mark.parametrize(
    ("view", "status"), [(STARTING, RUNNING), (PARKED, RUNNING), (SILENT, ENDED), (SILENT, None)]
)
def test_data_is_given_up_while_the_others_cannot_serve(
    view: MemberProblem, status: dict[str, Any] | None
) -> None:
    """They say so, nothing runs in their pods, or these are gone."""
    store = all_starting()
    store.views = {**store.views, "demo-1": view, "demo-2": view}
    for name in ("demo-1", "demo-2"):
        if status is None:
            store.pods[name]["status"] = dict(UNSTARTED)
        else:
            store.pods[name]["status"] |= status
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    store.step()

    operation = store.cluster.status.operation
    assert operation is not None
    assert (operation.kind.value, operation.target) == ("ForceStart", "demo-0")


def test_data_is_not_given_up_when_another_falls_silent_just_before_the_call() -> None:
    store = all_starting()
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    store.step()
    store.pods["demo-2"]["status"] |= RUNNING
    store.views = {**store.views, "demo-2": SILENT}
    for _ in range(15):
        store.step()

    assert store.calls == []
    assert "demo-2 does not say" in store.cluster.status.last_operations[0].message


def test_data_is_not_given_up_when_another_serves_just_before_the_call() -> None:
    store = all_starting()
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    store.step()
    assert (store.cluster.status.operation is not None, store.calls) == (True, [])
    store.views = {**store.views, "demo-1": OF_THREE}
    for _ in range(5):
        store.step()

    assert store.calls == []
    assert "demo-1 has joined" in store.cluster.status.last_operations[0].message


@pytest.mark.parametrize(
    ("first", "second", "outcome", "message"),
    [
        ("nothing was done, ask again in 5 s", REFUSED, "Failed", "it waits for nobody"),
        ("no answer within 45 s", REFUSED, "Failed", "it waits for nobody"),
        ("no answer within 45 s", CallDone(), "Succeeded", ""),
        ("no answer within 45 s", CallUnknown("no answer yet"), "Failed", "does not say what"),
    ],
)
def test_who_was_told_and_joined_is_asked_what_became_of_it(
    first: str, second: CallOutcome, outcome: str, message: str
) -> None:
    """It may have been refused for a moment, and the others came: then all data is there."""
    store = all_starting()
    store.answer = CallUnknown(first)
    store.annotate(force_start="r1,acknowledge-data-loss=uid-1")
    while not store.calls:
        store.step()
    store.answer = second
    store.views = dict.fromkeys(NAMES, OF_THREE)
    for name in NAMES:
        metadata = store.pods[name]["metadata"]
        store.pods[name] = make_pod(name, revision(store), ready=True) | {"metadata": metadata}
    for _ in range(25):
        store.step()

    assert {(call.endpoint, call.key) for call in store.calls[1:]} == {
        (store.calls[0].endpoint, store.calls[0].key)
    }
    (finished,) = store.cluster.status.last_operations
    assert finished.outcome == outcome
    assert message in finished.message
