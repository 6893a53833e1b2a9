"""An in-memory Kubernetes that counts writes and fails when it is told to."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide.calls import CallDone, Endpoint
from grid_operator.decide.model import MemberProblem, MemberView
from grid_operator.ports.errors import Conflict, OperatorError
from grid_operator.ports.kubernetes.client import is_child
from tests.unit.operator.api_server import applied, patched, stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grid_operator.decide.calls import CallOutcome, MemberCall
    from grid_operator.decide.model import ClusterEvent
    from grid_operator.ports.api import MemberAccess

VIEW = MemberView(
    uuid="0d8f9f9e-0f6a-4b7c-8a55-2f4ac8e6a111",
    address="10.244.0.7:5701",
    version="0.2.0",
    cluster_version="0.1",
    node_state="ACTIVE",
    cluster_state="ACTIVE",
    cluster_safe=True,
    migration_queue_size=0,
    cluster_size=1,
    ready=True,
)


def cluster_object(name: str = "demo", **spec: object) -> KubeObject:
    return {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {
            "name": name,
            "namespace": "grids",
            "uid": f"uid-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }


def _version(obj: KubeObject) -> str | None:
    version: str | None = obj.get("metadata", {}).get("resourceVersion")
    return version


class FakeKube:
    """Implements `ports.api.Kube`; a StatefulSet gets its pods, ready, at once."""

    def __init__(self, *clusters: KubeObject) -> None:
        self.objects: dict[ObjectRef, KubeObject] = {}
        self.writes: list[str] = []
        self.events: list[ClusterEvent] = []
        self.fail: dict[str, OperatorError] = {}
        """By what it happens to: a method's name, or `apply KIND`."""
        self.terminating: set[str] = set()
        """Namespaces that are being deleted."""
        self.job_condition = "Complete"
        """What becomes of Jobs at once; empty: they run on."""
        self.reported: dict[str, list[KubeObject]] | None = {}
        """Events, by the name of the object that they are about; None: without the right to."""
        self.asked: list[str] = []
        """Objects whose Events were asked for."""
        self.quota = 1
        """Pods that are let in."""
        self.before_status: Callable[[], None] = lambda: None
        self.admission: Callable[[KubeObject], None] = lambda _: None
        """Changes each child that is written, as webhooks and policies do."""
        self.unknown: set[str] = set()
        """Fields of the status that the definition does not have: they are dropped."""
        self.dry_runs = 0
        self._applied: dict[ObjectRef, KubeObject] = {}
        self._versions = itertools.count(100)
        self._pods = itertools.count(1)
        for cluster in clusters:
            self.objects[ObjectRef.of(cluster)] = cluster

    def get(self, kind: str, name: str = "demo") -> KubeObject:
        return next(o for r, o in self.objects.items() if (r.kind, r.name) == (kind, name))

    def condition(self, kind: str, name: str = "demo") -> dict[str, str]:
        """Return a condition, {} when there is none."""
        conditions = self.get("GridCluster", name)["status"]["conditions"]
        return next((c for c in conditions if c["type"] == kind), {})

    def edit(self, name: str = "demo", **spec: object) -> None:
        """Change the spec as a user would."""
        cluster = self.get("GridCluster", name)
        cluster["spec"] = {**cluster["spec"], **spec}
        cluster["metadata"]["generation"] += 1
        self._touch(cluster)

    def recreate(self, name: str = "demo") -> KubeObject:
        """Delete the cluster but nothing that it owns; create it from its saved text."""
        old = self.get("GridCluster", name)
        uid = old["metadata"]["uid"]
        for obj in self.objects.values():
            owners = obj["metadata"].get("ownerReferences", [])
            obj["metadata"]["ownerReferences"] = [o for o in owners if o["uid"] != uid]
        fresh = cluster_object(name, **old["spec"])
        fresh["metadata"] |= {"uid": f"{uid}-again", "resourceVersion": str(next(self._versions))}
        self.objects[ObjectRef.of(fresh)] = fresh
        return fresh

    def annotate(self, name: str = "demo", **annotations: str) -> None:
        """Set annotations of ours, `-` written as `_`."""
        cluster = self.get("GridCluster", name)
        found = cluster["metadata"].setdefault("annotations", {})
        found |= {f"gridcluster.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
        self._touch(cluster)

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        self._raise("fetch_cluster")
        return await self.fetch(
            ObjectRef("gridcluster.io/v1alpha1", "GridCluster", namespace, name)
        )

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        self._raise(f"fetch {ref.kind}")
        return copy.deepcopy(self.objects.get(ref))

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        apart = ("Pod", "PersistentVolumeClaim")
        found = [o for o in self._labelled(cluster) if o["kind"] not in apart]
        return [o for o in found if is_child(o, cluster)]

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        return [o for o in self._labelled(cluster) if o["kind"] == "Pod"]

    async def fetch_claims(self, cluster: KubeObject) -> list[KubeObject]:
        return [o for o in self._labelled(cluster) if o["kind"] == "PersistentVolumeClaim"]

    async def is_terminating(self, namespace: str) -> bool:
        return namespace in self.terminating

    async def fetch_events(self, obj: KubeObject) -> list[KubeObject] | None:
        self._raise("fetch_events")
        self.asked.append(f"{obj['kind']} {obj['metadata']['name']}")
        return self.reported.get(obj["metadata"]["name"], []) if self.reported is not None else None

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        self._raise("apply")
        self._raise(f"apply {obj['kind']}")
        ref = ObjectRef.of(obj)
        old = self.objects.get(ref, {})
        if obj["metadata"].get("resourceVersion") not in (None, _version(old)):
            raise Conflict("the object has been modified")
        fresh = stored(applied(old, obj, self._applied.get(ref)))
        if not dry_run:
            self._applied[ref] = copy.deepcopy(obj)
            self.writes.append(f"apply {obj['kind']}")
        return self._admitted(fresh, dry_run=dry_run)

    async def patch(
        self, obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        self._raise(f"patch {obj['kind']}")
        live = self.objects[ObjectRef.of(obj)]
        if _version(live) != _version(obj):
            raise Conflict("the object has been modified")
        if not dry_run:
            self.writes.append(f"patch {obj['kind']}")
        return self._admitted(stored(patched(live, operations)), dry_run=dry_run)

    def _admitted(self, obj: KubeObject, *, dry_run: bool) -> KubeObject:
        """Store a child, or say what would be stored; only a change makes it another one."""
        fresh = copy.deepcopy(obj)
        self.admission(fresh)
        ref = ObjectRef.of(fresh)
        self.dry_runs += dry_run
        if dry_run or fresh == self.objects.get(ref):
            return fresh
        fresh["metadata"]["resourceVersion"] = str(next(self._versions))
        fresh["metadata"]["uid"] = f"uid-{ref}"
        fresh["metadata"]["generation"] = fresh["metadata"].get("generation", 0) + 1
        self.objects[ref] = fresh
        if ref.kind == "StatefulSet":
            self._run_pods(fresh)
        if ref.kind == "Job" and self.job_condition:
            conditions = [{"type": self.job_condition, "status": "True", "message": "as told"}]
            fresh["status"] = {"conditions": conditions}
        return copy.deepcopy(fresh)

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        self._raise("delete")
        self.writes.append(f"delete {ref.kind}")
        if ref in self.objects and self.objects[ref]["metadata"]["uid"] == uid:
            del self.objects[ref]
        if ref.kind == "Pod":
            for obj in [o for r, o in self.objects.items() if r.kind == "StatefulSet"]:
                self._run_pods(obj)

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> KubeObject:
        self.before_status()
        self._raise("apply_status")
        live = self._observed(cluster)
        self.writes.append("status")
        kept = {field: value for field, value in status.items() if field not in self.unknown}
        if kept == live.get("status"):
            return copy.deepcopy(live)  # what changes nothing makes no new version
        live["status"] = copy.deepcopy(kept)
        return self._touch(live)

    async def set_finalizers(self, cluster: KubeObject, finalizers: tuple[str, ...]) -> None:
        self._raise("set_finalizers")
        live = self._observed(cluster)
        self.writes.append("finalizers")
        live["metadata"]["finalizers"] = list(finalizers)
        self._touch(live)
        if not finalizers and "deletionTimestamp" in live["metadata"]:
            del self.objects[ObjectRef.of(live)]

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        self._raise("record_event")
        self.writes.append(f"event {event.reason}")
        self.events.append(event)

    def _observed(self, cluster: KubeObject) -> KubeObject:
        live = self.objects.get(ObjectRef.of(cluster))
        version = cluster["metadata"]["resourceVersion"]
        if live is None or live["metadata"]["resourceVersion"] != version:
            raise Conflict("the object has been modified")
        return live

    def _touch(self, cluster: KubeObject) -> KubeObject:
        cluster["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(cluster)

    def _raise(self, what: str) -> None:
        if what in self.fail:
            raise self.fail[what]

    def _labelled(self, cluster: KubeObject) -> list[KubeObject]:
        name = cluster["metadata"]["name"]
        return [
            copy.deepcopy(o)
            for o in self.objects.values()
            if o["metadata"].get("labels", {}).get("gridcluster.io/cluster") == name
        ]

    def _run_pods(self, stateful_set: KubeObject) -> None:
        meta, spec = stateful_set["metadata"], stateful_set["spec"]
        ref = ObjectRef("v1", "Pod", meta["namespace"], f"{meta['name']}-0")
        text = json.dumps(spec["template"], sort_keys=True)
        revision = hashlib.sha256(text.encode()).hexdigest()[:10]
        if spec["replicas"] == 0:
            self.objects.pop(ref, None)
        elif ref not in self.objects and self.quota > 0:
            self.objects[ref] = self._pod(ref, stateful_set, revision)
        stateful_set["status"] = {
            "observedGeneration": meta["generation"],
            "replicas": spec["replicas"],
            "readyReplicas": spec["replicas"],
            "currentRevision": revision,
            "updateRevision": revision,
        }

    def _pod(self, ref: ObjectRef, stateful_set: KubeObject, revision: str) -> KubeObject:
        template = stateful_set["spec"]["template"]
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": ref.name,
                "namespace": ref.namespace,
                "uid": f"uid-pod-{next(self._pods)}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels,
                "annotations": dict(template["metadata"]["annotations"]),
                "ownerReferences": [
                    {"kind": "StatefulSet", "uid": stateful_set["metadata"]["uid"]}
                ],
            },
            "spec": copy.deepcopy(template["spec"]),
            "status": {
                "phase": "Running",
                "podIP": "10.244.0.7",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


class FakeMembers:
    """Implements `ports.api.Members`: one member that does what it is told, each key once."""

    def __init__(self) -> None:
        self.answer: Callable[[KubeObject], Awaitable[MemberView | MemberProblem]] = self._view
        self.outcome: Callable[[MemberCall], CallOutcome] = self._carried_out
        self.accesses: set[MemberAccess] = set()
        self.calls: list[MemberCall] = []
        """Every one that was sent."""
        self.effects: list[Endpoint] = []
        """What was carried out."""
        self.view = VIEW
        self._known: dict[str, CallOutcome] = {}

    async def fetch_view(self, pod: KubeObject, access: MemberAccess) -> MemberView | MemberProblem:
        self.accesses.add(access)
        return await self.answer(pod)

    async def call(
        self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
    ) -> CallOutcome | None:
        self.accesses.add(access)
        if not may_send():
            return None
        self.calls.append(call)
        if call.key not in self._known:
            self._known[call.key] = self.outcome(call)
        return self._known[call.key]

    async def _view(self, pod: KubeObject) -> MemberView:
        return self.view

    def _carried_out(self, call: MemberCall) -> CallOutcome:
        self.effects.append(call.endpoint)
        if call.endpoint is Endpoint.CHANGE_STATE:
            self.view = replace(self.view, cluster_state=str(call.parameter).upper())
        return CallDone("op-1" if call.endpoint is Endpoint.BACKUP else "")
