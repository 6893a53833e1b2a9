"""Events are asked for when something is missing, and nothing fails for want of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.errors import Unavailable
from grid_operator.reconcile import reporting
from grid_operator.reconcile.reconciler import Reconciler, Surroundings
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object
from tests.unit.operator.reconcile.test_hindrances import RESTORING
from tests.unit.operator.reconcile.test_reconciler import KEY, NOW
from tests.unit.waiting import PATIENCE_S

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

DENIED = 'pods "demo-0" is forbidden: every pod must carry the label team'
LATER_S = 11


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def after(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def refused(message: str) -> list[KubeObject]:
    time = "2026-01-01T00:00:01Z"
    told = {"reason": "FailedCreate", "type": "Warning", "message": message, "lastTimestamp": time}
    return [{"metadata": {"name": "e"}, **told}]


async def without_pods(**spec: Any) -> tuple[FakeKube, Reconciler]:
    """Return a new cluster of which no pod was let in for longer than a moment."""
    kube, clock = FakeKube(cluster_object(**spec)), Clock()
    kube.quota, kube.job_condition = 0, ""
    reconciler = Reconciler(kube, FakeMembers(), Surroundings("grid-system", now=lambda: clock.now))
    for _ in range(3):
        await reconciler.reconcile(KEY)
    assert kube.asked == [], "a pod may take a moment"
    clock.after(LATER_S)
    return kube, reconciler


async def test_a_pod_that_a_policy_forbids_is_told_in_the_words_of_the_policy() -> None:
    kube, reconciler = await without_pods()
    failed = "create Pod demo-0 in StatefulSet demo failed error: "
    kube.reported = {"demo": refused(failed + DENIED)}

    await reconciler.reconcile(KEY)

    assert kube.condition("Ready")["message"] == f"demo-0 does not exist yet: {DENIED}"
    (told,) = (e for e in kube.events if e.reason == "PodRefused")
    assert told.message == f"demo-0: {DENIED}"
    kube.writes.clear()
    await reconciler.reconcile(KEY)
    assert kube.writes == [], "it is told once"


def refused_pods(count: int) -> list[KubeObject]:
    """Return Events about as many pods; no condition has room for the words of all of them."""
    words = "x" * 600
    texts = (f'pods "demo-{n}" is forbidden: {words}' for n in range(count))
    failed = "create Pod demo-{n} in StatefulSet demo failed error: "
    return [e for n, t in enumerate(texts) for e in refused(failed.format(n=n) + t)]


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 9},
        {"size": 3, "paused": True, "runState": "Stopped"},
        {"size": 1, "pod": {"labels": {"a b": "no name of a label"}}},
    ],
)
async def test_what_no_condition_shows_is_not_told_in_every_round(spec: dict[str, Any]) -> None:
    kube, reconciler = await without_pods(size=spec["size"])
    kube.reported = {"demo": refused_pods(spec["size"])}
    kube.edit(**spec)
    for _ in range(2):
        await reconciler.reconcile(KEY)
    kube.writes.clear()

    await reconciler.reconcile(KEY)

    assert kube.writes == []


async def test_a_restore_whose_pod_a_policy_forbids_says_so() -> None:
    kube, reconciler = await without_pods(**RESTORING)
    kube.reported = {"demo-restore": refused(f"Error creating: {DENIED}")}

    await reconciler.reconcile(KEY)

    assert f"it gets no pod: {DENIED}" in kube.condition("Progressing")["message"]


async def test_without_the_right_to_list_events_it_says_that() -> None:
    kube, reconciler = await without_pods()
    kube.reported = None

    await reconciler.reconcile(KEY)

    message = kube.condition("Ready")["message"]
    assert message.startswith("demo-0 does not exist yet: Events say why")
    assert "the operator may not list them" in message
    assert "PodRefused" not in [event.reason for event in kube.events]


@pytest.mark.parametrize("reported", [{}, {"demo": [{"metadata": {}}]}])
async def test_events_that_say_nothing_change_nothing(
    reported: dict[str, list[KubeObject]],
) -> None:
    kube, reconciler = await without_pods()
    kube.reported = reported

    await reconciler.reconcile(KEY)

    assert kube.asked == ["StatefulSet demo"]
    assert kube.condition("Ready")["message"] == "demo-0 does not exist yet"


async def test_an_api_server_that_lists_no_events_holds_nothing_up() -> None:
    kube, reconciler = await without_pods()
    kube.fail["fetch_events"] = Unavailable("too many requests")
    kube.edit(logging={"level": "Debug"})
    kube.writes.clear()

    await reconciler.reconcile(KEY)

    assert "apply StatefulSet" in kube.writes


async def test_a_list_of_events_that_hangs_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube, reconciler = await without_pods()

    async def hang(_obj: KubeObject) -> list[KubeObject]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(kube, "fetch_events", hang)
    monkeypatch.setattr(reporting, "LIMIT_S", 0.01)
    kube.edit(logging={"level": "Debug"})
    kube.writes.clear()

    async with asyncio.timeout(PATIENCE_S):
        await reconciler.reconcile(KEY)

    assert "apply StatefulSet" in kube.writes


async def test_a_cluster_that_is_well_costs_no_events() -> None:
    kube, clock = FakeKube(cluster_object()), Clock()
    reconciler = Reconciler(kube, FakeMembers(), Surroundings("grid-system", now=lambda: clock.now))
    for _ in range(5):
        await reconciler.reconcile(KEY)
        clock.after(LATER_S)
    assert kube.asked == []
