"""What can happen next in a small world: to the operator, in Kubernetes, in a member, by users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from grid_operator.decide.calls import CallRefused, CallUnknown
from grid_operator.decide.operations.journal import record_outcome
from tests.unit.operator.decide.state_space.world import (
    DAMAGED,
    JOINED,
    PARKED,
    STARTING,
    UID,
    Pod,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_operator.decide.model import Decision

Edit: TypeAlias = "Callable[[World], World]"

TIMES_S = (2.0, 130.0)
"""Past the first backoff; past every other one, and past the deadlines of calls."""


def rounds(world: World, decision: Decision) -> Iterator[World]:
    """Yield the world after a round, and after one that was cut off or that went wrong."""
    yield complete(world, decision)
    if world.faults == 0:
        return
    faulty = replace(world, faults=world.faults - 1)
    acted = faulty.with_objects(decision)
    if acted != faulty:
        yield acted  # the operator died, or somebody else had written the status since
    if decision.call is None:
        return
    written = acted.with_status(decision.status)
    yield written  # it died before the call
    status, now = decision.status, world.now
    lost = CallUnknown("gave no complete answer")
    yield written.with_status(record_outcome(status, decision.call, lost, now))
    refused = CallRefused("answered 409")
    yield written.with_status(record_outcome(status, decision.call, refused, now))
    done, _ = written.called(decision.call)
    if done != written:
        yield done  # it died before the answer was written down
        yield done.with_status(record_outcome(status, decision.call, lost, now))


def complete(world: World, decision: Decision) -> World:
    """Return the world after a round in which nothing went wrong."""
    world = world.with_objects(decision).with_status(decision.status)
    if decision.call is not None:
        world, outcome = world.called(decision.call)
        return world.with_status(record_outcome(decision.status, decision.call, outcome, world.now))
    return world.with_finalizers(decision)


def controllers(world: World) -> World | None:
    """Return the world after the next thing that Kubernetes and the member do by themselves."""
    statefulset, pod = world.statefulset, world.pod
    if world.gone:
        return None
    if statefulset is not None and not statefulset.seen:
        return replace(world, statefulset=replace(statefulset, seen=True))
    if pod is not None and pod.terminating:
        return replace(world, pod=None)
    if statefulset is not None and not world.deleted:
        if pod is None and statefulset.replicas == 1:
            born = world.born + 1
            made = Pod(born, statefulset.template, world.now)
            return replace(world, born=born, pod=made)
        if pod is not None and statefulset.replicas == 0:
            return world.with_pod(terminating=True)
    if pod is not None and pod.process == STARTING:
        return world.with_pod(process=DAMAGED if world.disk.damaged else JOINED)
    return None


def work_ends(world: World) -> Iterator[World]:
    """Yield the world after what takes its time has ended."""
    if world.job == "Running":
        yield replace(world, job="Complete")
    for index, (key, stage) in enumerate(world.disk.backups):
        if stage == "STARTED" and world.pod is not None and world.pod.process == JOINED:
            backups = list(world.disk.backups)
            backups[index] = (key, "FINISHED")
            yield world.with_disk(backups=tuple(backups))


def accidents(world: World) -> Iterator[World]:
    """Yield the world after something went wrong that nobody asked for."""
    if world.faults == 0:
        return
    world = replace(world, faults=world.faults - 1)
    if world.job == "Running":
        yield replace(world, job="Failed")
    if world.pod is None or world.pod.terminating:
        return
    if world.spec.sidecar:
        yield world.with_pod(held=not world.pod.held)
    if world.pod.process in (JOINED, PARKED):
        yield world.with_pod(hangs=not world.pod.hangs)
    if world.pod.process == JOINED:
        crashed = world.with_pod(process=STARTING)
        ended = tuple((k, "FAILED" if s == "STARTED" else s) for k, s in world.disk.backups)
        yield crashed.with_disk(backups=ended)
        yield crashed.with_disk(backups=ended, damaged=True)
        yield replace(world, pod=None)  # its node is gone
        other = "FROZEN" if world.disk.state == "ACTIVE" else "ACTIVE"
        yield world.with_disk(state=other)  # somebody calls the member


def mended(world: World) -> World:
    """Return the world in which nothing is wrong and nobody changes anything any more."""
    world = replace(world, edits=0, faults=0)
    if world.pod is not None and world.pod.hangs:
        world = world.with_pod(hangs=False)
    if world.pod is not None and world.pod.held:
        world = world.with_pod(held=False)
    return world


def at_rest(world: World) -> World:
    """Return the world after all that Kubernetes and the member do without the operator."""
    while (after := controllers(world)) is not None:
        world = after
    for after in work_ends(world):
        return at_rest(after)
    return world


def spec_edit(**changes: object) -> Edit:
    """Return a change of the spec; `toggle` the other way round when it is so already."""

    def edit(world: World) -> World:
        spec = replace(world.spec, **changes)  # type: ignore[arg-type]
        if spec == world.spec:
            return world
        return replace(world, spec=spec, generation=world.generation + 1)

    return edit


def annotate(name: str, value: str) -> Edit:
    """Return a request by annotation, over which an earlier one of its name is lost."""

    def edit(world: World) -> World:
        others = tuple(a for a in world.annotations if a[0] != f"gridcluster.io/{name}")
        return replace(world, annotations=(*others, (f"gridcluster.io/{name}", value)))

    return edit


def delete(world: World) -> World:
    """Return the world in which somebody deletes the GridCluster."""
    return replace(world, deleted=True, gone=not world.finalizer)


def end_namespace(world: World) -> World:
    """Return the world in which somebody deletes the namespace with all that is in it."""
    return replace(delete(world), terminating=True)


STOP, RUN = spec_edit(run_state="Stopped"), spec_edit(run_state="Running")
PAUSE, RESUME = spec_edit(paused=True), spec_edit(paused=False)
ROLL, ROLL_AGAIN = spec_edit(template=2), spec_edit(template=3)
ROLL_BACK = spec_edit(template=1)
FREEZE, ACTIVATE = spec_edit(cluster_state="Frozen"), spec_edit(cluster_state="Active")
LEAVE = spec_edit(cluster_state="")
CORRECT = spec_edit(drift_policy="Correct")
GIVE = spec_edit(structures="map: {}")
RESTART, RESTART_AGAIN = annotate("restart", "r1"), annotate("restart", "r2")
BACKUP, BACKUP_AGAIN = annotate("backup", "b1"), annotate("backup", "b2")
INTERRUPT = annotate("backup-interrupt", "i1")
FORCE = annotate("force-start", f"f1,acknowledge-data-loss={UID}")
FORCE_AGAIN = annotate("force-start", f"f2,acknowledge-data-loss={UID}")
FORCE_WRONGLY = annotate("force-start", "f1,acknowledge-data-loss=uid-of-another")
PARTIAL = annotate("partial-start", f"p1,acknowledge-data-loss={UID}")
