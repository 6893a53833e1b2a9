"""Walks through all worlds that can follow, the shortest ways first, and judges each."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from grid_operator.api.conditions import Condition, timestamp
from grid_operator.api.phase import Step
from grid_operator.api.status import GridClusterStatus, OperationKind, OperationStatus
from grid_operator.decide import decide
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.operations.journal import next_attempt
from grid_operator.decide.situation import moment
from tests.unit.operator.decide.state_space.moves import (
    TIMES_S,
    accidents,
    at_rest,
    complete,
    controllers,
    mended,
    rounds,
    work_ends,
)
from tests.unit.operator.decide.state_space.waiting import Shown, as_shown
from tests.unit.operator.decide.state_space.world import DAMAGED, JOINED, Pod, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from grid_operator.decide.model import Decision, Desired, Observed
    from tests.unit.operator.decide.state_space.moves import Edit

Decide: TypeAlias = "Callable[[Observed, Desired, datetime], Decision]"
Key: TypeAlias = "tuple[Any, ...]"

MAX_ROUNDS = 80
"""In which a world that is well has to reach what is asked for."""
_TURNS = ("Ready", "BackupSucceeded")
RETRY_S = 61.0
AGES_S = (0, 2, 60, 120)
PLACES = re.compile(r"\bdemo\b|demo-0|spec\.|gridcluster\.io/|metadata\.")
"""What a message has to name one of: a member or the cluster, a field, an annotation."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class Explorer:
    """One exploration."""

    edits: Sequence[Edit]
    decide: Decide = decide
    limit: int = 100_000
    """States at most."""
    seen: set[Key] = field(default_factory=set)
    statuses: dict[str, Shown] = field(default_factory=dict)
    """Every status that was decided, as the API server would show it, by what waiting goes by."""
    live: set[Key] = field(default_factory=set)
    """Worlds from which what is asked for is reached."""

    def explore(self, start: World) -> int:
        """Return the number of states; every one was judged."""
        todo = deque([start])
        self.seen.add(_key(start))
        while todo:
            world = todo.popleft()
            for after in self._successors(world):
                key = _key(after)
                if key not in self.seen:
                    self.seen.add(key)
                    todo.append(after)
            self._check_liveness(world)
            if len(self.seen) > self.limit:
                raise BrokenError(f"more than {self.limit} states")
        return len(self.seen)

    def _successors(self, world: World) -> Iterator[World]:
        if world.gone:
            return
        yield from rounds(world, self._judged(world))
        after = controllers(world)
        if after is not None:
            yield after
        yield from work_ends(world)
        yield from accidents(world)
        if world.status.operation is not None or world.status.last_operations:
            yield from (world.later(seconds) for seconds in TIMES_S)
        if world.edits > 0:
            edited = replace(world, edits=world.edits - 1)
            for edit in self.edits:
                after = edit(edited)
                if after != edited:
                    yield after

    def _judged(self, world: World) -> Decision:
        decision = self.decide(world.observe(), world.desired(), world.now)
        problem = (
            _status_problem(world, decision.status)
            or _effect_problem(world, decision)
            or _time_problem(world, decision.status)
        )
        problem = problem or _waiting_problem(world, decision.status)
        if problem is not None:
            raise BrokenError(f"{problem}\n{world}\n{decision}")
        shown = as_shown(world, decision.status)
        self.statuses.setdefault(shown.key, shown)
        return decision

    def _check_liveness(self, start: World) -> None:
        """Follow the world without users and accidents until it is as it is wanted."""
        world = mended(start)
        passed = []
        for _ in range(MAX_ROUNDS):
            world = at_rest(world)
            key = _key(world)
            if key in self.live:
                break
            passed.append(key)
            if world.gone:
                break
            decision = self._judged(world)
            after = complete(world, decision)
            if after == world:
                if _is_reached(world) and next_moment(world, decision) is None:
                    break
                after = world.later(RETRY_S)
            world = after.later(max(decision.requeue_after_s, 1.0))
        else:
            raise BrokenError(f"it does not come to what is wanted\n{start}\n{world}")
        self.live.update(passed)


def next_moment(world: World, decision: Decision) -> float | None:
    """Return when something is due that is not being waited for by looking alone."""
    waits = world.status.operation is not None or decision.call is not None
    retries = any(c.reason == "Retrying" for c in world.status.conditions)
    return decision.requeue_after_s if retries or (waits and not _waits_for_user(world)) else None


def _waits_for_user(world: World) -> bool:
    return world.spec.paused or (world.pod is not None and world.pod.process == DAMAGED)


def _is_reached(world: World) -> bool:
    """Return whether the cluster is what spec and requests ask for, as far as it can be."""
    conditions = {c.type: c for c in world.status.conditions}
    if world.deleted:
        return world.gone
    if world.spec.paused:
        return conditions["Progressing"].reason == "Paused"
    if world.pod is not None and world.pod.process == DAMAGED:
        recovers = [value for name, value in world.annotations if name.endswith("-start")]
        return conditions["Ready"].status == "False" and not _unheard(world, recovers)
    if world.spec.restores and world.status.restored_from is None:
        return False
    if world.status.operation is not None or _unheard(world, [v for _, v in world.annotations]):
        return False
    if world.spec.run_state == "Stopped":
        return conditions["Stopped"].status == "True" and world.pod is None
    return (
        conditions["Ready"].status == "True"
        and conditions["Progressing"].status == "False"
        and world.pod is not None
        and world.pod.template == world.spec.template
        and _is_state_reached(world)
    )


def _is_state_reached(world: World) -> bool:
    wanted = world.spec.cluster_state
    if not wanted:
        return True
    shows = world.disk.state == wanted.upper()
    return shows or (
        world.spec.drift_policy == "Report" and world.status.applied_cluster_state == wanted
    )


def _unheard(world: World, values: list[str]) -> bool:
    """Return whether a proper request of these was neither carried out nor refused."""
    handled = {(h.annotation, h.request): h.outcome for h in world.status.handled_requests}
    done = {f.request for f in world.status.last_operations}
    for name, value in world.annotations:
        request = value.partition(",")[0]
        outcome = handled.get((name.removeprefix("gridcluster.io/"), request))
        wrong = "another" in value
        if value in values and not wrong and outcome in (None, "Accepted") and request not in done:
            return True
    return False


# Invariants


def _waiting_problem(world: World, status: GridClusterStatus) -> str | None:
    """Return what is wrong with the conditions by which tools wait."""
    found = {c.type: c for c in status.conditions}
    if "Reconciling" in found and "Stalled" in found:
        return "both Reconciling and Stalled"
    if any(found[kind].status != "True" for kind in ("Reconciling", "Stalled") if kind in found):
        return "Reconciling or Stalled is there and not True"
    if found["Progressing"].status == "True" and not found.keys() & {"Reconciling", "Stalled"}:
        return "Progressing, and neither Reconciling nor Stalled"
    if "Stalled" in found and not _waits_for_user(world) and not world.spec.restores:
        return "Stalled, and it goes on by itself"
    return None


def _status_problem(world: World, status: GridClusterStatus) -> str | None:
    found = {c.type: c for c in status.conditions}
    ready, progressing = found["Ready"].status, found["Progressing"].status
    if ready == "True" and not (world.pod is not None and world.pod.process == JOINED):
        return "Ready without a member"
    if progressing == "False" and status.operation is not None:
        return "an operation is under way, and Progressing is False"
    if found["Stopped"].status == "True" and (ready == "True" or world.pod is not None):
        return "Stopped, and there are members"
    if status.operation is not None and status.operation.request:
        handled = {h.request: h.outcome for h in status.handled_requests}
        if handled.get(status.operation.request) != "Accepted":
            return "a request is carried out that was not accepted"
    ids = [f.id for f in status.last_operations]
    if len(set(ids)) != len(ids):
        return "two operations of one id"
    return next(filter(None, map(_message_problem, status.conditions)), None)


def _message_problem(condition: Condition) -> str | None:
    if condition.status != "True" and not PLACES.search(condition.message):
        return f"{condition.type} is {condition.status} and names nothing: {condition.message!r}"
    return None


def _effect_problem(world: World, decision: Decision) -> str | None:
    live = world.status.operation
    if decision.call is not None:
        written = decision.status.operation
        if live is None or not decision.call.key.startswith(f"{live.id}.{live.step}"):
            return f"the call {decision.call.key} is of no step that is written down"
        if written is None or (written.id, written.step) != (live.id, live.step):
            return "a call goes out, and the journal goes on"
        if written.attempts != live.attempts + 1 or written.last_attempt != timestamp(world.now):
            return "a call that is not counted"
        if _is_needless(world, live, decision.call.endpoint):
            return "a member that runs what the spec says is restarted, and nobody asked for it"
    acts = decision.apply or decision.delete or decision.delete_pods or decision.call
    if acts and (world.spec.paused or (world.deleted and not decision.call)):
        return "paused or deleted, and something is done"
    serving = world.pod is not None and world.pod.process == JOINED and not world.pod.terminating
    if decision.delete_pods and serving and not world.pod_is_due():
        return "a pod that serves is deleted without being written down"
    if serving and world.status.size and not _may_scale_down(world):
        scaled = [o for o in decision.apply if o["kind"] == "StatefulSet"]
        if any(o["spec"]["replicas"] == 0 for o in scaled):
            return "members are scaled down without being written down"
    return None


def _is_needless(world: World, live: OperationStatus, endpoint: Endpoint) -> bool:
    restarts = endpoint is Endpoint.MEMBER_SHUTDOWN and not live.request and not live.attempts
    return restarts and world.pod is not None and world.pod.template == world.spec.template


def _may_scale_down(world: World) -> bool:
    operation = world.status.operation
    if operation is None:
        return bool(world.status.stopped)
    return (operation.kind, operation.step) == (OperationKind.STOP, Step.SCALE_DOWN)


def _time_problem(world: World, status: GridClusterStatus) -> str | None:
    before = {c.type: c for c in world.status.conditions}
    if status.observed_generation != world.generation:
        return "observedGeneration is not that of the spec"
    for condition in status.conditions:
        old = before.get(condition.type)
        kept = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and kept else timestamp(world.now)
        if condition.last_transition_time != since:
            return f"lastTransitionTime of {condition.type} does not tell when it turned"
        if condition.observed_generation != world.generation:
            return f"observedGeneration of {condition.type} is not that of the spec"
    return None


# States that differ in nothing that a decision could depend on


def _key(world: World) -> Key:
    status, pod, disk = world.status, world.pod, world.disk
    operation = status.operation
    return (
        (world.spec, world.annotations, world.finalizer, world.deleted, world.terminating),
        (world.gone, world.statefulset, world.job, world.edits, world.faults, world.may_hold),
        world.forced,
        world.generation == status.observed_generation,
        status.observed_uid,
        None if pod is None else _pod_key(pod),
        (disk.damaged, disk.state, f"uuid-{disk.uuid}" == _known_uuid(status)),
        _operation_key(world, operation),
        _backups_key(world, operation),
        tuple((c.type, c.status) for c in status.conditions if c.type in _TURNS),
        (status.applied_cluster_state, status.stopped, status.resume_state, status.restored_from),
        tuple((h.annotation, h.request, h.outcome) for h in status.handled_requests),
        _failures_key(world),
        tuple(m.live_digest for m in status.members),
    )


def _pod_key(pod: Pod) -> Key:
    return (pod.template, pod.terminating, pod.process, pod.hangs, pod.held)


def _known_uuid(status: GridClusterStatus) -> str:
    return status.members[0].uuid if status.members else ""


def _operation_key(world: World, operation: OperationStatus | None) -> Key:
    if operation is None:
        return ()
    uid = f"pod-{world.pod.uid}" if world.pod is not None else ""
    started = moment(operation.started) or world.now
    told = f"{operation.id}.{operation.step}"
    named = operation.target if operation.kind is not OperationKind.BACKUP else ""
    return (
        (operation.kind, operation.step, named, operation.request, operation.digest),
        (min(operation.attempts, 2), next_attempt(operation, world.now) is None),
        (_age(operation.step_started, world.now), bool(operation.last_error)),
        operation.kind is OperationKind.SHUT_DOWN and _age(operation.started, world.now),
        operation.target_uid == uid,
        world.pod is not None and world.pod.created < started,
        any(key.startswith(told) for key, _ in world.disk.outcomes),
    )


def _age(text: str, now: datetime) -> int:
    then = moment(text)
    age_s = (now - then) / timedelta(seconds=1) if then is not None else 0
    return sum(age_s >= limit for limit in AGES_S)


def _backups_key(world: World, operation: OperationStatus | None) -> Key:
    target = operation.target if operation is not None else ""
    stages = dict(world.disk.backups)
    return stages.get(target, ""), "STARTED" in stages.values()


def _failures_key(world: World) -> Key:
    newest: dict[str, Key] = {}
    for finished in reversed(world.status.last_operations):
        retried = finished.kind in (OperationKind.CHANGE_STATE, OperationKind.RESTORE)
        retried = retried or finished.kind is OperationKind.APPLY_LIVE
        age = _age(finished.finished, world.now) if retried else 0
        target = finished.target if retried else ""
        newest[finished.kind] = (finished.kind, finished.outcome, target, age >= 3)
    return tuple(sorted(newest.values()))
