"""Promise: what each watch hears is told, and nothing at all for too long ends the work."""

from __future__ import annotations

import asyncio
import logging

import pytest

from grid_operator.handlers.ending import STOP_LIMIT_S
from grid_operator.handlers.hearing import (
    HEARING_LIMIT_S,
    REMINDER_S,
    SHOWN_WATCHES,
    Hearing,
    WatchState,
)
from grid_operator.handlers.operator import RELEASE_S, STOP_S
from grid_operator.handlers.watching import WatchPace
from grid_operator.ports.errors import Conflict, Rejected, Silent, Unavailable, Unheard
from grid_operator.ports.kubernetes.watch import WatchTarget
from grid_operator.ports.metrics import OperatorMetrics

MINUTE_S = 60.0


class Told:
    """A Hearing with a clock that the test turns."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.metrics = OperatorMetrics()
        self.hearing = Hearing(lambda: self.now_s, self.metrics)

    def watch(self, namespace: str | None, plural: str = "pods") -> WatchState:
        return self.hearing.of(WatchTarget("v1", plural, namespace))

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"grid_operator_watch_{name}", labels)


def test_a_watch_that_fails_is_told_while_others_are_heard() -> None:
    told = Told()
    fine, failing = told.watch("a"), told.watch("b")
    failing.heard()
    told.now_s += 10
    failing.failed(Rejected("forbidden (403)"))
    told.now_s += 100
    failing.failed(Rejected("forbidden (403)"))
    fine.heard()
    assert told.hearing.hears()
    assert told.hearing.shown() == {
        "hears": True,
        "silentSeconds": 0.0,
        "watches": 2,
        "failing": 1,
        "failingWatches": [
            {
                "resource": "pods",
                "namespace": "b",
                "failingSeconds": 100.0,
                "silentSeconds": 110.0,
                "everHeard": True,
                "restarts": 2,
                "lastError": "forbidden (403)",
            }
        ],
    }
    failing.works()
    failing.heard()
    assert told.hearing.shown()["failing"] == 0


def test_a_watch_that_is_merely_silent_is_told_as_well() -> None:
    told = Told()
    fine, _ = told.watch("a"), told.watch("b")
    told.now_s += HEARING_LIMIT_S
    fine.heard()
    (state,) = told.hearing.failing()
    shown = state.shown()
    assert (shown["namespace"], shown["failingSeconds"], shown["everHeard"]) == ("b", None, False)


def test_an_operator_without_watches_stands_by_and_is_healthy() -> None:
    told = Told()
    told.now_s += 1e6
    assert told.hearing.hears()
    assert told.hearing.shown()["watches"] == 0


def test_the_answer_has_a_limit() -> None:
    told = Told()
    for number in range(SHOWN_WATCHES + 1):
        told.watch(f"n{number}").failed(Unavailable("away"))
    shown = told.hearing.shown()
    assert shown["failing"] == SHOWN_WATCHES + 1
    assert len(shown["failingWatches"]) == SHOWN_WATCHES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Conflict("old"), "expired"),
        (Rejected("no"), "refused"),
        (Silent("no word"), "silent"),
        (Unavailable("away"), "unavailable"),
        (KeyError("x"), "defect"),
    ],
)
def test_metrics_are_by_watch(error: Exception, reason: str) -> None:
    told = Told()
    one, everywhere = told.watch("a"), told.watch(None, "jobs")
    told.now_s += 7
    everywhere.heard()
    one.failed(error)
    at_one = {"resource": "pods", "namespace": "a"}
    assert told.metric("silence_seconds", **at_one) == 7
    assert told.metric("failing", **at_one) == 1
    assert told.metric("restarts_total", **at_one, reason=reason) == 1
    assert told.metric("silence_seconds", resource="jobs", namespace="*") == 0
    assert told.metric("failing", resource="jobs", namespace="*") == 0


def test_a_failure_is_logged_when_it_begins_and_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "grid_operator")
    told = Told()
    state = told.watch("b")
    for _ in range(3):
        state.failed(Rejected("forbidden"))
        told.now_s += 1
    assert [r.getMessage() for r in caplog.records] == [
        "watch of pods in namespace b: failed, is begun again: forbidden"
    ]
    state.failed(Unavailable("away"))
    assert len(caplog.records) == 2
    told.now_s += REMINDER_S
    state.failed(Unavailable("away"))
    assert len(caplog.records) == 3
    state.works()
    state.works()
    assert [r.getMessage() for r in caplog.records[3:]] == [
        "watch of pods in namespace b: works again"
    ]


async def test_silence_of_all_ends_the_work() -> None:
    metrics = OperatorMetrics()
    hearing = Hearing(asyncio.get_running_loop().time, metrics, 0.2)
    hearing.of(WatchTarget("v1", "pods", "a")).failed(Unavailable("no answer"))
    with pytest.raises(Unheard, match="pods in namespace a: no answer"):
        await hearing.guard()


async def test_one_watch_that_is_heard_is_enough() -> None:
    told = Told()
    fine, _ = told.watch("a"), told.watch("b")
    guard = asyncio.create_task(told.hearing.guard())
    for _ in range(5):
        told.now_s += HEARING_LIMIT_S / 2
        fine.heard()
        await asyncio.sleep(0)
    assert not guard.done()
    guard.cancel()


def test_the_times_fit_together() -> None:
    """A healthy watch is never taken for silent, and the end comes within a minute."""
    pace = WatchPace()
    assert pace.life_s[1] + pace.grace_s < HEARING_LIMIT_S
    assert pace.retry_max_s * (1 + pace.jitter) + pace.request_s < HEARING_LIMIT_S
    assert HEARING_LIMIT_S + STOP_S + RELEASE_S < MINUTE_S
    assert STOP_S + RELEASE_S < STOP_LIMIT_S
