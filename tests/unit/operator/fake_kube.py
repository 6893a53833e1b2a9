"""An in-memory Kubernetes that counts writes and fails when it is told to."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide.model import MemberProblem, MemberView
from grid_operator.ports.errors import Conflict, OperatorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_operator.decide.model import ClusterEvent

VIEW = MemberView(
    uuid="0d8f9f9e-0f6a-4b7c-8a55-2f4ac8e6a111",
    address="10.244.0.7:5701",
    version="0.1.0",
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


class FakeKube:
    """Implements `ports.api.Kube`; a StatefulSet gets its pods, ready, at once."""

    def __init__(self, *clusters: KubeObject) -> None:
        self.objects: dict[ObjectRef, KubeObject] = {}
        self.writes: list[str] = []
        self.events: list[ClusterEvent] = []
        self.fail: dict[str, OperatorError] = {}
        """By what it happens to: a method's name, or `apply KIND`."""
        self.before_status: Callable[[], None] = lambda: None
        self._versions = itertools.count(100)
        for cluster in clusters:
            self.objects[ObjectRef.of(cluster)] = cluster

    def get(self, kind: str, name: str = "demo") -> KubeObject:
        return next(o for r, o in self.objects.items() if (r.kind, r.name) == (kind, name))

    def condition(self, kind: str, name: str = "demo") -> dict[str, str]:
        conditions = self.get("GridCluster", name)["status"]["conditions"]
        return next(c for c in conditions if c["type"] == kind)

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        self._raise("fetch_cluster")
        return await self.fetch(
            ObjectRef("gridcluster.io/v1alpha1", "GridCluster", namespace, name)
        )

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        return copy.deepcopy(self.objects.get(ref))

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        return [o for o in self._labelled(cluster) if o["kind"] != "Pod"]

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        return [o for o in self._labelled(cluster) if o["kind"] == "Pod"]

    async def apply(self, obj: KubeObject) -> KubeObject:
        self._raise("apply")
        self._raise(f"apply {obj['kind']}")
        self.writes.append(f"apply {obj['kind']}")
        ref = ObjectRef.of(obj)
        old = self.objects.get(ref, {})
        fresh = copy.deepcopy(obj)
        fresh["metadata"]["uid"] = f"uid-{ref}"
        fresh["metadata"]["generation"] = old.get("metadata", {}).get("generation", 0) + 1
        self.objects[ref] = fresh
        if ref.kind == "StatefulSet":
            self._run_pods(fresh)
        return copy.deepcopy(fresh)

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        self._raise("delete")
        self.writes.append(f"delete {ref.kind}")
        if self.objects[ref]["metadata"]["uid"] == uid:
            del self.objects[ref]

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> None:
        self.before_status()
        self._raise("apply_status")
        live = self.objects.get(ObjectRef.of(cluster))
        version = cluster["metadata"]["resourceVersion"]
        if live is None or live["metadata"]["resourceVersion"] != version:
            raise Conflict("the object has been modified")
        self.writes.append("status")
        live["status"] = copy.deepcopy(status)
        live["metadata"]["resourceVersion"] = str(next(self._versions))

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        self._raise("record_event")
        self.writes.append(f"event {event.reason}")
        self.events.append(event)

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
        meta, template = stateful_set["metadata"], stateful_set["spec"]["template"]
        pod: KubeObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-0",
                "namespace": meta["namespace"],
                "uid": f"uid-pod-{meta['generation']}",
                "labels": {**template["metadata"]["labels"], "controller-revision-hash": "r1"},
                "annotations": dict(template["metadata"]["annotations"]),
                "ownerReferences": [{"kind": "StatefulSet", "uid": meta["uid"]}],
            },
            "spec": copy.deepcopy(template["spec"]),
            "status": {
                "phase": "Running",
                "podIP": "10.244.0.7",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.objects.setdefault(ObjectRef.of(pod), pod)
        stateful_set["status"] = {
            "observedGeneration": meta["generation"],
            "replicas": 1,
            "readyReplicas": 1,
            "currentRevision": "r1",
            "updateRevision": "r1",
        }


class FakeMembers:
    """Implements `ports.api.Members`."""

    def __init__(self) -> None:
        self.answer: Callable[[KubeObject], Awaitable[MemberView | MemberProblem]] = self._view
        self.credentials: set[tuple[str, str]] = set()

    async def fetch_view(
        self, pod: KubeObject, username: str, password: str
    ) -> MemberView | MemberProblem:
        self.credentials.add((username, password))
        return await self.answer(pod)

    async def _view(self, pod: KubeObject) -> MemberView:
        return VIEW
