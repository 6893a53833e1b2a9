"""A small world around `decide`: an API server's objects, a controller, one member, its disk.

A value: every change gives another world. Members keep the outcome of a call under its key, as
real ones do, and whatever takes effect in one is checked against the journal that is stored then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from grid_operator.api.conditions import timestamp
from grid_operator.api.names import SHUTDOWN_FINALIZER
from grid_operator.api.phase import Step, is_copying, wanted_replicas
from grid_operator.api.status import GridClusterStatus, OperationKind
from grid_operator.decide.calls import CallDone, CallOutcome, CallRefused, CallUnknown, Endpoint
from grid_operator.decide.model import (
    Desired,
    Live,
    MemberOperation,
    MemberProblem,
    MemberView,
    Observed,
)
from tests.unit.operator.api.clusters import make_cluster
from tests.unit.operator.fake_kube import VIEW

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.calls import MemberCall
    from grid_operator.decide.model import Decision

START = datetime(2026, 1, 1, tzinfo=UTC)
POD = "demo-0"
UID = "uid-1"
JOINED, STARTING, DAMAGED, PARKED = "joined", "starting", "damaged", "parked"


class TwiceError(AssertionError):
    """One step took effect in a member two times, or without being written down."""


@dataclass(frozen=True, slots=True)
class Pod:
    uid: int
    template: int
    created: datetime
    terminating: bool = False
    process: str = STARTING
    hangs: bool = False
    held: bool = False
    """A container beside the member's keeps it from being ready."""


@dataclass(frozen=True, slots=True)
class Disk:
    """What outlives the member's process and its pod."""

    damaged: bool = False
    state: str = "ACTIVE"
    uuid: int = 0
    outcomes: tuple[tuple[str, str], ...] = ()
    """Key of a call that was carried out, and the id of what it began."""
    backups: tuple[tuple[str, str], ...] = ()
    """Id and stage."""


@dataclass(frozen=True, slots=True)
class StatefulSet:
    replicas: int
    template: int
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    run_state: str = "Running"
    cluster_state: str = ""
    drift_policy: str = "Report"
    paused: bool = False
    template: int = 1
    structures: str = ""
    restores: bool = False
    cron: str = ""
    sidecar: bool = False
    """A mesh adds a container to every pod."""


@dataclass(frozen=True, slots=True)
class World:
    now: datetime = START
    spec: Spec = Spec()
    generation: int = 1
    annotations: tuple[tuple[str, str], ...] = ()
    finalizer: bool = False
    may_hold: bool = False
    deleted: bool = False
    terminating: bool = False
    gone: bool = False
    status: GridClusterStatus = field(default_factory=GridClusterStatus)
    statefulset: StatefulSet | None = None
    job: str | None = None
    """Running, Complete, Failed."""
    pod: Pod | None = None
    disk: Disk = Disk()
    born: int = 0
    """Pods so far."""
    effects: tuple[tuple[str, str, int], ...] = ()
    """Of the present operation: its id, step, and the pod's uid."""
    forced: tuple[str, ...] = ()
    """Requests that a forced start came from, once per effect."""
    edits: int = 0
    """Changes that users may still make."""
    faults: int = 0
    """Things that may still go wrong."""

    # What the operator sees

    def cluster(self) -> GridCluster:
        base = _parsed(self.spec, self.generation)
        meta = base.metadata.model_copy(
            update={
                "annotations": dict(self.annotations),
                "finalizers": (SHUTDOWN_FINALIZER,) if self.finalizer else (),
                "deletion_timestamp": "2026-01-01T00:00:00Z" if self.deleted else None,
            }
        )
        return base.model_copy(update={"metadata": meta, "status": self.status})

    def observe(self) -> Observed:
        return Observed(
            cluster=self.cluster(),
            children=tuple(self._children()),
            pods=(self.pod_object(),) if self.pod is not None else (),
            members={POD: self.view()} if self.pod is not None else {},
            may_hold=self.may_hold,
            namespace_terminating=self.terminating,
        )

    def desired(self) -> Desired:
        cluster = self.cluster()
        children: list[KubeObject] = []
        if is_copying(cluster):
            children.append(_job(None))
        replicas = wanted_replicas(cluster)
        if replicas is not None:
            children.append(_statefulset(replicas, self.spec.template))
        live = Live("d1", structures=self.spec.structures) if self.spec.structures else Live("")
        return Desired(tuple(children), live)

    def _children(self) -> list[KubeObject]:
        found: list[KubeObject] = []
        if self.statefulset is not None:
            live = _statefulset(self.statefulset.replicas, self.statefulset.template)
            live["metadata"] = {**live["metadata"], "generation": 2}
            seen = 2 if self.statefulset.seen else 1
            revision = f"r{self.statefulset.template}"
            live["status"] = {"observedGeneration": seen, "updateRevision": revision}
            found.append(live)
        if self.job is not None:
            ended = [{"type": self.job, "status": "True", "message": "checksum"}]
            found.append(_job({"conditions": ended if self.job != "Running" else []}))
        return found

    def pod_object(self) -> KubeObject:
        assert self.pod is not None
        joined = self.pod.process == JOINED
        ready = "True" if joined and not self.pod.held else "False"
        meta: dict[str, Any] = {
            "name": POD,
            "namespace": "default",
            "uid": f"pod-{self.pod.uid}",
            "creationTimestamp": timestamp(self.pod.created),
            "labels": {"controller-revision-hash": f"r{self.pod.template}"},
        }
        if self.pod.terminating:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status: dict[str, Any] = {"podIP": "10.0.0.1"}
        status["conditions"] = [{"type": "Ready", "status": ready}]
        if self.spec.sidecar:
            own = {"name": "member", "ready": joined, "state": {"running": {}}}
            proxy = {"name": "proxy", "ready": not self.pod.held, "state": {"running": {}}}
            status |= {"phase": "Running", "containerStatuses": [proxy, own]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}

    def view(self) -> MemberView | MemberProblem:
        assert self.pod is not None
        if self.pod.hangs:
            return MemberProblem("gave no complete answer within 3 s")
        if self.pod.process != JOINED:
            state = {PARKED: "PASSIVE", DAMAGED: "STARTING"}.get(self.pod.process, "")
            return MemberProblem(f"is {self.pod.process}", node_state=state)
        operations = tuple(
            MemberOperation(key, "backup", stage, 0, "interrupted" if stage == "FAILED" else "")
            for key, stage in self.disk.backups
        )
        uuid = f"uuid-{self.disk.uuid}"
        return replace(VIEW, uuid=uuid, cluster_state=self.disk.state, operations=operations)

    def pod_is_due(self) -> bool:
        """Return whether the journal says that this very pod is deleted now."""
        operation = self.status.operation
        if operation is None or self.pod is None:
            return False
        step = (operation.kind, operation.step, operation.target_uid)
        return step == (OperationKind.RESTART, Step.DELETE_POD, f"pod-{self.pod.uid}")

    # What the operator does

    def with_objects(self, decision: Decision) -> World:
        """Return the world with the decision's objects and pods as they are to be."""
        world = self
        for obj in decision.apply:
            world = world._applied(obj)
        for ref in decision.delete:
            assert ref.kind == "Job", ref
            world = replace(world, job=None)
        for pod in decision.delete_pods:
            if world.pod is not None and pod["metadata"]["uid"] == f"pod-{world.pod.uid}":
                world = replace(world, pod=replace(world.pod, terminating=True))
        return world

    def _applied(self, obj: KubeObject) -> World:
        if obj["kind"] == "Job":
            return replace(self, job="Running")
        template = obj["spec"]["template"]["revision"]
        return replace(self, statefulset=StatefulSet(obj["spec"]["replicas"], template))

    def with_status(self, status: GridClusterStatus) -> World:
        operation = status.operation
        kept = tuple(e for e in self.effects if operation is not None and e[0] == operation.id)
        return replace(self, status=status, effects=kept)

    def with_finalizers(self, decision: Decision) -> World:
        if decision.finalizers is None:
            return self
        held = SHUTDOWN_FINALIZER in decision.finalizers
        return replace(self, finalizer=held, gone=self.deleted and not held)

    # What a member does

    def called(self, call: MemberCall) -> tuple[World, CallOutcome]:
        pod = self.pod
        if pod is None or pod.hangs or call.pod["metadata"]["uid"] != f"pod-{pod.uid}":
            return self, CallUnknown("cannot be reached")
        known = dict(self.disk.outcomes)
        if call.key in known and pod.process in (JOINED, DAMAGED):
            return self, CallDone(known[call.key])
        if pod.process not in (JOINED, DAMAGED):
            return self, CallUnknown("cannot be reached")
        changed = _EFFECTS[call.endpoint](self, call)
        if isinstance(changed, CallRefused):
            return self, changed
        world, begun = changed
        outcomes = (*world.disk.outcomes, (call.key, begun))
        world = replace(world, disk=replace(world.disk, outcomes=outcomes))
        return world._noted(call, pod), CallDone(begun)

    def _noted(self, call: MemberCall, pod: Pod) -> World:
        operation = self.status.operation
        if operation is None or not call.key.startswith(f"{operation.id}.{operation.step}"):
            raise TwiceError(f"{call.key} took effect and is not in the journal")
        effect = (operation.id, operation.step, pod.uid)
        if effect in self.effects:
            raise TwiceError(f"{effect} took effect twice")
        forced = self.forced
        if call.endpoint is Endpoint.FORCE_START:
            if operation.request in forced:
                raise TwiceError(f"{operation.request} took effect twice")
            forced = (*forced, operation.request)
        return replace(self, effects=(*self.effects, effect), forced=forced)

    def with_pod(self, **changes: Any) -> World:
        assert self.pod is not None
        return replace(self, pod=replace(self.pod, **changes))

    def with_disk(self, **changes: Any) -> World:
        return replace(self, disk=replace(self.disk, **changes))

    def later(self, seconds: float) -> World:
        return replace(self, now=self.now + timedelta(seconds=seconds))


def _change_state(world: World, call: MemberCall) -> tuple[World, str] | CallRefused:
    if world.pod is None or world.pod.process != JOINED:
        return CallRefused("has not joined")
    return world.with_disk(state=(call.parameter or "").upper()), ""


def _shut_down(world: World, _: MemberCall) -> tuple[World, str] | CallRefused:
    if world.pod is None or world.pod.process != JOINED:
        return CallRefused("has not joined")
    return _without_running_backup(world.with_pod(process=PARKED)), ""


def _backup(world: World, _: MemberCall) -> tuple[World, str] | CallRefused:
    if any(stage == "STARTED" for _, stage in world.disk.backups):
        return CallRefused("one is being made")
    key = f"b{len(world.disk.backups)}"
    return world.with_disk(backups=(*world.disk.backups, (key, "STARTED"))), key


def _interrupt(world: World, _: MemberCall) -> tuple[World, str] | CallRefused:
    return _without_running_backup(world), ""


def _force(world: World, _: MemberCall) -> tuple[World, str] | CallRefused:
    if world.pod is None or world.pod.process != DAMAGED:
        return CallRefused("the store is healthy and in use")
    mended = world.with_disk(damaged=False, state="ACTIVE", uuid=world.disk.uuid + 1)
    return mended.with_pod(process=STARTING), ""


def _upload(world: World, _: MemberCall) -> tuple[World, str] | CallRefused:
    return world, ""


def _without_running_backup(world: World) -> World:
    ended = tuple((k, "FAILED" if s == "STARTED" else s) for k, s in world.disk.backups)
    return world.with_disk(backups=ended)


_EFFECTS = {
    Endpoint.CHANGE_STATE: _change_state,
    Endpoint.CLUSTER_SHUTDOWN: _shut_down,
    Endpoint.MEMBER_SHUTDOWN: _shut_down,
    Endpoint.BACKUP: _backup,
    Endpoint.BACKUP_INTERRUPT: _interrupt,
    Endpoint.FORCE_START: _force,
    Endpoint.PARTIAL_START: _force,
    Endpoint.CONFIG_UPLOAD: _upload,
}


@cache
def _parsed(spec: Spec, generation: int) -> GridCluster:
    content: dict[str, Any] = {
        "runState": spec.run_state,
        "paused": spec.paused,
        "clusterStateDriftPolicy": spec.drift_policy,
        "persistence": {"enabled": True, "backup": {"claimName": "backups"}},
        "maps": [{"name": "default"}],
    }
    if spec.cluster_state:
        content["clusterState"] = spec.cluster_state
    if spec.cron:
        content["persistence"]["backup"]["schedule"] = {"cron": spec.cron}
    if spec.restores:
        content["restoreFrom"] = {"cluster": "source"}
    return make_cluster(content, uid=UID, generation=generation)


def _statefulset(replicas: int, template: int) -> KubeObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"replicas": replicas, "template": {"revision": template}},
    }


def _job(status: dict[str, Any] | None) -> KubeObject:
    meta = {"name": "demo-restore", "namespace": "default"}
    job: KubeObject = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
    return job if status is None else {**job, "status": status}
