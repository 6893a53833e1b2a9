"""A store whose members leave when they are told to, and whose volumes outlive pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from grid_operator.api.conditions import find_condition
from grid_operator.decide import decide
from grid_operator.decide.calls import CallDone, CallOutcome, CallRefused, Endpoint, MemberCall
from grid_operator.decide.model import (
    MemberOperation,
    MemberProblem,
    MemberView,
    Observed,
)
from grid_operator.decide.operations.journal import record_outcome
from tests.unit.operator.decide.fake_store import WELL, FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.conditions import Condition, ConditionType
    from grid_operator.api.objects import KubeObject
    from grid_operator.render import RenderContext

JOINED, LEAVING, LEFT, NEW, REFUSED = "joined", "leaving", "left", "new", "refused"
GONE = (LEFT, NEW, REFUSED)
"""What members are whom nobody misses."""
DEATHS = ("undone", "done", "written", "sent")
"""Moments of a round at which an operator may be killed: before and after what it does to objects,
after its status was written, after its call was carried out."""
ROUNDS_TO_LEAVE = 2
MAX_ROUNDS = 120
PERIOD_S = 10
STARTING = MemberProblem("cannot join", node_state="STARTING")
SILENT = MemberProblem("gave no complete answer within 3 s")
PARKED = MemberProblem("was shut down", node_state="PASSIVE")


def make_claim(name: str) -> KubeObject:
    labels = {"gridcluster.io/cluster": name.rpartition("-")[0]}
    metadata = {"name": f"data-{name}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}


class Leavers(FakeStore):
    """Several members."""

    def __init__(self, size: int, **spec: Any) -> None:
        super().__init__({"size": size, "persistence": {"enabled": True}, **spec})
        self.size = size
        self.members: dict[str, str] = {}
        self.volumes: dict[str, str] = {}
        """What was on them when their pod went; by the member's name."""
        self.claims: dict[str, KubeObject] = {}
        """By the member's name. They are made before the pod, and go only with one."""
        self.begun: list[str] = []
        """Who began to leave, each time."""
        self.room = 1_000
        """Pods for which there is a node."""
        self.state = "ACTIVE"
        self.fails = ""
        """Why the next that is told to leave does not."""
        self.shown: dict[str, MemberView | MemberProblem] = {}
        """What members say in place of what is so."""
        self._operations: dict[str, MemberOperation] = {}
        self._rounds_left = 0
        self.settle()

    @property
    def joined(self) -> list[str]:
        return sorted(n for n, state in self.members.items() if state in (JOINED, LEAVING))

    def spec(self, **changes: Any) -> None:
        self.size = changes.get("size", self.size)
        wanted = {"size": self.size, "persistence": {"enabled": True}, **changes}
        self.change_spec(wanted)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(MAX_ROUNDS):
            if condition():
                return
            self.step()
        raise AssertionError(f"it does not come to that: {self.cluster.status}")

    def settle(self) -> int:
        quiet = 0
        for rounds in range(MAX_ROUNDS):
            quiet = 0 if self.step() else quiet + 1
            if quiet > ROUNDS_TO_LEAVE:
                return rounds
        raise AssertionError(f"it does not come to rest: {self.cluster.status}")

    def step(self, death: str = "") -> int:
        self.now += timedelta(seconds=PERIOD_S)
        decision = decide(self.observe(), self.desired(), self.now)
        if death == "undone":
            return 0
        writes = self._perform(decision)
        if death != "done":
            writes += self._store(decision.status.to_kube())
            writes += self._call(decision.call, death)
        self.run_controller()
        self._go_on()
        return writes

    def _call(self, call: MemberCall | None, death: str) -> int:
        if call is None or death == "written":
            return 0
        self.calls.append(call)
        outcome = self._told(call)
        if death == "sent":
            return 0
        status = record_outcome(self.cluster.status, call, outcome, self.now)
        return self._store(status.to_kube())

    def _told(self, call: MemberCall) -> CallOutcome:
        name = call.pod["metadata"]["name"]
        if call.endpoint is Endpoint.CHANGE_STATE:
            self.state = (call.parameter or "").upper()
        if not call.forever:
            return CallDone()
        if call.key in self._operations:
            return CallDone(call.key)
        if self.state != "ACTIVE" or LEAVING in self.members.values():
            return CallRefused("answered 409: not now", conflict=True)
        self.begun.append(name)
        stage = "FAILED" if self.fails else "IN_PROGRESS"
        self._operations[call.key] = MemberOperation(call.key, "migration", stage, 5, self.fails)
        if not self.fails:
            self.members[name], self._rounds_left = LEAVING, ROUNDS_TO_LEAVE
        self.fails = ""
        return CallDone(call.key)

    def _go_on(self) -> None:
        """Let whoever leaves get on, and whoever can join do so."""
        for name, state in list(self.members.items()):
            if state == LEAVING and self.state == "ACTIVE":
                self._rounds_left -= 1
                if self._rounds_left == 0:
                    self.members[name] = LEFT
                    self.end("FINISHED")
            elif state == NEW and self._has_room(name) and self.state == "ACTIVE":
                self.members[name] = JOINED

    def end(self, stage: str) -> None:
        newest = list(self._operations)[-1]
        self._operations[newest] = replace(self._operations[newest], stage=stage)

    def _has_room(self, name: str) -> bool:
        return int(name.rpartition("-")[2]) < self.room

    def run_controller(self) -> None:
        before = set(self.pods)
        super().run_controller()
        (stateful_set,) = (o for o in self.objects.values() if o["kind"] == "StatefulSet")
        for name in (f"demo-{n}" for n in range(stateful_set["spec"]["replicas"])):
            self.claims.setdefault(name, make_claim(name))
        policy = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"]
        stopped = stateful_set["spec"]["replicas"] == 0
        gone = before - self.pods.keys()
        assert stopped or len(gone) <= 1, "two at once"
        for name in gone:
            was = self.members.pop(name)
            assert stopped or was in GONE, f"{name} was {was} when its pod was taken away"
            self.volumes[name] = JOINED if was == LEAVING else was
            if policy["whenScaled"] == "Delete":
                assert was in GONE, f"the data of {name} is deleted"
                del self.volumes[name], self.claims[name]
        for name in self.pods.keys() - before:
            self._start(name)
        if not self.pods:
            self._operations.clear()

    def _start(self, name: str) -> None:
        """Start the member of a new pod on what its volume has."""
        had = self.members.get(name) or self.volumes.pop(name, NEW)
        if had == LEAVING:
            self.end("FAILED")
        self.members[name] = {LEAVING: JOINED, LEFT: REFUSED}.get(had, had)

    def _show(self) -> None:
        together = len(self.joined)
        safe = not {LEAVING} & set(self.members.values())
        view = replace(
            WELL,
            cluster_size=together,
            cluster_safe=safe,
            cluster_state=self.state,
            operations=tuple(self._operations.values()),
        )
        shown: dict[str, MemberView | MemberProblem] = {}
        for name, state in self.members.items():
            shown[name] = {LEFT: PARKED, NEW: STARTING, REFUSED: STARTING}.get(state, view)
        self.views = {**shown, **self.shown}
        for name in self.views:
            self._set_ready(name, isinstance(self.views[name], MemberView))

    def _set_ready(self, name: str, ready: bool) -> None:
        if name in self.pods:
            since = "2026-01-01T00:00:00Z"
            conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}]
            phase = "Running" if self._has_room(name) else "Pending"
            status = {"podIP": "10.0.0.1", "conditions": conditions, "phase": phase}
            self.pods[name]["status"] = status

    def observe(self) -> Observed:
        self._show()
        return replace(super().observe(), claims=tuple(self.claims.values()))

    def lose_pods(self) -> None:
        """Let the StatefulSet go with all its pods; claims, and what is on volumes, stay."""
        self.objects = {r: o for r, o in self.objects.items() if o["kind"] != "StatefulSet"}
        self.volumes |= {n: JOINED if s == LEAVING else s for n, s in self.members.items()}
        self.members, self.pods = {}, {}
        self._operations.clear()

    def context(self, live: KubeObject | None) -> RenderContext:
        return replace(super().context(live), claims=tuple(self.claims.values()))


def names(*ordinals: int) -> list[str]:
    return [f"demo-{ordinal}" for ordinal in ordinals]


def condition(store: Leavers, kind: ConditionType) -> Condition:
    found = find_condition(store.cluster.status.conditions, kind)
    assert found is not None
    return found


def unsafe(store: Leavers, name: str) -> MemberView:
    view = store.observe().members[name]
    assert isinstance(view, MemberView)
    return replace(view, cluster_safe=False)


def step_of(store: Leavers) -> str:
    operation = store.cluster.status.operation
    return operation.step if operation is not None else ""


def ended(store: Leavers, kind: str = "Shrink") -> list[tuple[str, str]]:
    done = reversed(store.cluster.status.last_operations)
    return [(o.target, o.outcome.value) for o in done if o.kind.value == kind]
