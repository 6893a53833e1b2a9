"""The journal at work: intent first, then the call, in time or not at all; outcomes written."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.decide.calls import CallUnknown, Endpoint
from grid_operator.ports.errors import Conflict, NotReady, OperatorError, Rejected, Unavailable
from grid_operator.reconcile.calling import CALL_START_LIMIT_S
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings
from tests.unit.operator.fake_kube import VIEW, FakeKube, FakeMembers, cluster_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.calls import CallOutcome, MemberCall
    from grid_operator.decide.model import MemberProblem, MemberView
    from grid_operator.ports.api import MemberAccess

KEY = ClusterKey("grids", "demo")
PERSISTENT = {"persistence": {"enabled": True, "backup": {"volume": {"size": "1Gi"}}}}


class World:
    """One cluster, its member, and a clock that moves with each round."""

    def __init__(self, **spec: Any) -> None:
        self.kube = FakeKube(cluster_object(**spec))
        self.members = FakeMembers()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.steady_s = 0.0
        self.may_act = True
        self.reconciler = self.operator()

    def operator(self, serves_all: bool = False) -> Reconciler:
        """Return another operator on the same world."""
        passwords = itertools.count(1)
        surroundings = Surroundings(
            "grid-system",
            serves_all=serves_all,
            now=lambda: self.now,
            steady_s=lambda: self.steady_s,
            make_password=lambda: f"password-{next(passwords)}",
            may_act=lambda: self.may_act,
        )
        return Reconciler(self.kube, self.members, surroundings)

    async def round(self) -> float | None:
        self.now += timedelta(seconds=2)
        self.steady_s += 2
        return await self.reconciler.reconcile(KEY)

    async def until(self, condition: Callable[[], bool], rounds: int = 40) -> None:
        for _ in range(rounds):
            if condition():
                return
            await self.round()
        raise AssertionError(f"not within {rounds} rounds: {self.status}")

    async def settle(self) -> None:
        await self.until(lambda: self.is_so("Ready"))

    def is_so(self, condition: str) -> bool:
        found = {c["type"]: c["status"] for c in self.status.get("conditions", ())}
        return found.get(condition) == "True"

    @property
    def status(self) -> KubeObject:
        status: KubeObject = self.kube.get("GridCluster").get("status", {})
        return status

    @property
    def operation(self) -> KubeObject:
        found: KubeObject = self.status.get("operation", {})
        return found

    def ended(self) -> list[tuple[str, str]]:
        return [(o["kind"], o["outcome"]) for o in self.status.get("lastOperations", ())]


async def test_the_intent_is_in_the_live_status_before_the_call() -> None:
    world = World()
    await world.settle()
    seen: list[KubeObject] = []
    carry_out = world.members.outcome

    def outcome(call: MemberCall) -> CallOutcome:
        seen.append(dict(world.operation))
        return carry_out(call)

    world.members.outcome = outcome
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: world.status.get("appliedClusterState") == "Frozen")
    (intent,) = seen
    assert (intent["kind"], intent["attempts"]) == ("ChangeState", 1)
    assert intent["lastAttempt"]
    assert world.members.calls[0].key.startswith(intent["id"] + ".")
    assert world.members.effects == [Endpoint.CHANGE_STATE]


async def test_a_conflict_while_the_intent_is_written_calls_nobody() -> None:
    world = World()
    await world.settle()
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: bool(world.operation))

    def edit() -> None:
        world.kube.get("GridCluster")["metadata"]["resourceVersion"] += "1"

    world.kube.before_status = edit
    for _ in range(3):
        with pytest.raises(Conflict):
            await world.round()
    assert world.members.calls == []


async def test_an_intent_whose_time_has_passed_sends_nothing() -> None:
    world = World()
    await world.settle()
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: bool(world.operation))

    def pause() -> None:  # as SIGSTOP would, while the intent is written
        world.steady_s += CALL_START_LIMIT_S + 0.1

    world.kube.before_status = pause
    with pytest.raises(NotReady, match="too late"):
        await world.round()
    assert world.members.calls == []
    world.kube.before_status = lambda: None
    await world.until(lambda: world.status.get("appliedClusterState") == "Frozen")
    assert world.members.effects == [Endpoint.CHANGE_STATE]


async def test_an_operator_that_lost_its_lease_sends_nothing() -> None:
    world = World()
    await world.settle()
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: bool(world.operation))
    world.may_act = False
    with pytest.raises(NotReady):
        await world.round()
    assert world.members.calls == []


async def test_an_outcome_that_cannot_be_written_is_asked_for_again_under_the_same_key() -> None:
    world = World()
    await world.settle()

    async def late(_pod: KubeObject) -> MemberView | MemberProblem:
        return world.members.view if len(world.members.calls) > 1 else VIEW

    world.members.answer = late
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: bool(world.operation))
    writes = itertools.count()

    def fail_second() -> None:
        if next(writes) == 1:
            raise Unavailable("503")

    world.kube.before_status = fail_second
    with pytest.raises(Unavailable):
        await world.round()
    await world.until(lambda: world.status.get("appliedClusterState") == "Frozen")
    assert len(world.members.calls) == 2
    assert len({call.key for call in world.members.calls}) == 1
    assert world.members.effects == [Endpoint.CHANGE_STATE]


async def test_unknown_outcomes_are_repeated_with_backoff_under_one_key() -> None:
    world = World()
    await world.settle()
    sent: list[MemberCall] = []

    class Silent(FakeMembers):
        async def call(
            self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
        ) -> CallOutcome | None:
            sent.append(call)
            return CallUnknown("gave no complete answer in time")

    world.members = Silent()
    world.reconciler = world.operator()
    world.kube.edit(clusterState="Frozen")
    for _ in range(16):
        await world.round()
    assert 2 <= len(sent) <= 6, "32 seconds: 2, 4, 8, 16 between attempts"
    assert len({call.key for call in sent}) == 1
    assert "no complete answer" in world.operation["lastError"]


async def test_of_two_operators_on_one_object_one_has_its_effect() -> None:
    world = World()
    await world.settle()
    others = [world.operator() for _ in range(3)]
    world.kube.edit(clusterState="Frozen")
    for _ in range(12):
        world.now += timedelta(seconds=2)
        ends = await asyncio.gather(
            *(other.reconcile(KEY) for other in others), return_exceptions=True
        )
        assert all(e is None or isinstance(e, float | OperatorError) for e in ends), ends
    assert world.status["appliedClusterState"] == "Frozen"
    assert world.members.effects == [Endpoint.CHANGE_STATE]
    assert len(world.ended()) == 1


async def test_a_stale_view_is_waited_out_without_another_effect() -> None:
    world = World()
    await world.settle()

    async def stale(_pod: KubeObject) -> MemberView | MemberProblem:
        return VIEW

    world.members.answer = stale
    world.kube.edit(clusterState="Passive")
    for _ in range(20):
        await world.round()
    assert world.status.get("appliedClusterState") != "Passive"
    assert world.members.effects == [Endpoint.CHANGE_STATE]


async def test_stop_and_start_keep_the_cluster_state() -> None:
    world = World()
    await world.settle()
    world.members.view = replace(VIEW, cluster_state="FROZEN")
    world.kube.edit(runState="Stopped")
    await world.until(lambda: world.status.get("stopped") is True)
    assert world.members.effects == [Endpoint.CHANGE_STATE, Endpoint.CLUSTER_SHUTDOWN]
    assert not any(ref.kind == "Pod" for ref in world.kube.objects)
    world.kube.edit(runState="Running")
    await world.until(lambda: world.is_so("Ready") and not world.operation)
    told = [c.parameter for c in world.members.calls if c.endpoint is Endpoint.CHANGE_STATE]
    assert told == ["passive", "frozen"]
    assert ("Start", "Succeeded") in world.ended()


async def test_a_restart_replaces_the_pod_after_its_member_was_told() -> None:
    world = World()
    await world.settle()
    before = world.kube.get("Pod", "demo-0")["metadata"]["uid"]
    world.kube.annotate(restart="r-1")
    await world.until(lambda: ("Restart", "Succeeded") in world.ended())
    assert world.kube.get("Pod", "demo-0")["metadata"]["uid"] != before
    assert world.members.effects == [Endpoint.MEMBER_SHUTDOWN]
    for _ in range(5):
        await world.round()
    assert world.members.effects == [Endpoint.MEMBER_SHUTDOWN], "one request, one restart"


async def test_nothing_is_called_for_a_cluster_in_which_nothing_changes() -> None:
    world = World(**PERSISTENT)
    await world.settle()
    await world.round()
    world.kube.writes.clear()
    for _ in range(5):
        await world.round()
    assert world.kube.writes == []
    assert world.members.calls == []


async def test_deletion_with_the_finalizer_shuts_the_members_down_and_lets_go() -> None:
    world = World()
    world.reconciler = world.operator(serves_all=True)
    await world.settle()
    await world.until(lambda: bool(world.kube.get("GridCluster")["metadata"].get("finalizers")))
    meta = world.kube.get("GridCluster")["metadata"]
    meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    await world.until(lambda: not any(r.kind == "GridCluster" for r in world.kube.objects))
    assert world.members.effects == [Endpoint.CHANGE_STATE, Endpoint.CLUSTER_SHUTDOWN]


async def test_a_terminating_namespace_is_not_held_back() -> None:
    world = World()
    world.reconciler = world.operator(serves_all=True)
    await world.settle()
    await world.until(lambda: bool(world.kube.get("GridCluster")["metadata"].get("finalizers")))
    world.kube.terminating.add("grids")
    meta = world.kube.get("GridCluster")["metadata"]
    meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    await world.until(lambda: not any(r.kind == "GridCluster" for r in world.kube.objects), 3)
    assert world.members.calls == []


async def test_without_rights_in_all_namespaces_there_is_no_finalizer() -> None:
    world = World()
    await world.settle()
    assert not world.kube.get("GridCluster")["metadata"].get("finalizers")
    assert "finalizers" not in world.kube.writes


async def test_events_of_a_refused_round_are_told() -> None:
    world = World()
    await world.settle()
    world.kube.events.clear()
    world.kube.fail["apply ConfigMap"] = Rejected("exceeded quota", "Forbidden")
    world.kube.edit(clusterState="Frozen", maps=[{"name": "m"}])
    await world.round()
    reasons = [event.reason for event in world.kube.events]
    assert reasons.count("ApiRefused") == 1
    assert "ChangeStateStarted" not in reasons
    assert world.operation == {}, "nothing was done"
    await world.round()
    assert [event.reason for event in world.kube.events] == reasons, "told once"
    world.members.view = replace(VIEW, ready=False)
    await world.round()
    news = [event.reason for event in world.kube.events][len(reasons) :]
    assert news == ["MembersNotReady"], "what turned meanwhile is told"
    world.members.view = VIEW
    world.kube.fail.clear()
    await world.until(lambda: world.status.get("appliedClusterState") == "Frozen")
    assert "ChangeStateStarted" in [event.reason for event in world.kube.events]


async def test_events_that_the_api_server_does_not_take_are_kept_and_told_in_order() -> None:
    world = World()
    world.kube.fail["record_event"] = Unavailable("503")
    await world.settle()
    assert world.kube.events == []
    world.kube.fail.clear()
    await world.round()
    told = [event.reason for event in world.kube.events]
    assert told
    assert told[-1] == "AllMembersReady"


async def test_a_fight_over_a_field_is_told_once_in_a_while() -> None:
    world = World()
    await world.settle()
    for _ in range(20):
        world.kube.get("ConfigMap", "demo-config")["data"]["grid.yaml"] = "grid: {}"
        await world.round()
    reverted = [e for e in world.kube.events if e.reason == "DriftReverted"]
    assert len(reverted) == 1
    world.steady_s += 600
    world.kube.get("ConfigMap", "demo-config")["data"]["grid.yaml"] = "grid: {}"
    await world.round()
    reverted = [e for e in world.kube.events if e.reason == "DriftReverted"]
    assert len(reverted) == 2


@pytest.mark.parametrize(
    "error",
    [Conflict("409"), Unavailable("429", 1.0), Unavailable("500")],
    ids=lambda e: str(e),
)
async def test_a_storm_of_the_api_server_changes_nothing_of_the_end(error: OperatorError) -> None:
    """Every fourth, then every third, then every second write or read fails."""
    world = World()
    await world.settle()
    count = itertools.count(1)

    class Storm(dict[str, OperatorError]):
        every = 4

        def __contains__(self, what: object) -> bool:
            return next(count) % self.every == 0

        def __getitem__(self, what: str) -> OperatorError:
            return error

    storm = Storm()
    world.kube.fail = storm
    wishes: list[dict[str, Any]] = [
        {"clusterState": "Frozen"},
        {"clusterState": "Frozen", "maps": [{"name": "m"}]},
        {"clusterState": "Passive"},
    ]
    for every, wish in zip((4, 3, 2), wishes, strict=True):
        storm.every = every
        world.kube.edit(**wish)
        for _ in range(60):
            try:
                await world.round()
            except OperatorError:
                continue
    world.kube.fail = {}
    await world.until(lambda: world.status.get("appliedClusterState") == "Passive")
    states = [c.parameter for c in world.members.calls if c.endpoint is Endpoint.CHANGE_STATE]
    assert len({c.key for c in world.members.calls}) == len(world.members.effects)
    assert [s for s, _ in itertools.groupby(states)] == ["frozen", "passive"]
