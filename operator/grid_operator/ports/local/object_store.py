"""The Kubernetes port of the local mode: an object store that runs pods as processes.

It keeps what `reconcile` looks at as Kubernetes keeps it: uid, resourceVersion and generation;
StatefulSet status with revisions; pods with their revision label, address and Ready condition;
OnDelete updates; a volume claim's directory that outlives its pod; Jobs that run to their end.
"""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import itertools
import shutil
import uuid
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import API_VERSION, CLUSTER_LABEL, KIND
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.ports.errors import Conflict, Rejected
from grid_operator.ports.local.controllers import data_claims, make_pod, pod_status, set_status
from grid_operator.ports.local.job import JobProcess
from grid_operator.ports.local.pod import PodProcess
from grid_operator.ports.local.program import LocalHost, process_spec
from grid_operator.ports.local.secret_files import read_secret, remove_secret, write_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from datetime import datetime

    import aiohttp

    from grid_operator.decide.model import ClusterEvent

SERVER_FIELDS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")
NO_CHILDREN: Final = frozenset({"Pod", "PersistentVolumeClaim", KIND})
"""Kinds of labelled objects that are read on their own."""


class LocalKube:
    """Implements `ports.api.Kube` on this machine, for the clusters that are put into it."""

    def __init__(
        self,
        host: LocalHost,
        session: aiohttp.ClientSession,
        now: Callable[[], datetime],
        on_change: Callable[[str, str], None],
        first_address: str = "127.0.0.1",
    ) -> None:
        """Make an empty store.

        Args:
            host: Where the pods run.
            session: For readiness probes.
            now: The clock.
            on_change: Called with namespace and name of the GridCluster after each change.
            first_address: Address of ordinal 0; the following ordinals count on from it.
        """
        self.events: list[ClusterEvent] = []
        self.writes = 0
        self._host = host
        self._session = session
        self._now = now
        self._on_change = on_change
        self._first_address = ipaddress.IPv4Address(first_address)
        self._objects: dict[ObjectRef, KubeObject] = {}
        self._processes: dict[ObjectRef, PodProcess] = {}
        self._jobs: dict[ObjectRef, JobProcess] = {}
        self._doomed: dict[ObjectRef, list[ObjectRef]] = {}
        """The claims that go with a pod, by pod."""
        self._stopping: set[asyncio.Task[None]] = set()
        self._versions = itertools.count(1)
        self._closed = False

    def put_cluster(self, manifest: KubeObject) -> None:
        """Create or update a GridCluster as `kubectl apply` would; keeps its status."""
        self._store(copy.deepcopy(manifest) | {"kind": KIND, "apiVersion": API_VERSION})

    def recall_cluster(self, cluster: KubeObject) -> None:
        """Take a GridCluster as it was left: its uid, generation, spec and status."""
        recalled = copy.deepcopy(cluster)
        self._objects[ObjectRef.of(cluster)] = recalled
        self._touch(recalled)

    def cluster(self, namespace: str, name: str) -> KubeObject | None:
        """Return a copy of the GridCluster as it is now, None when there is none."""
        return copy.deepcopy(self.find(KIND, namespace, name))

    def addresses(self) -> list[str]:
        """Return the addresses of the pods, in the order of their names' ordinals."""
        pods = [obj for ref, obj in self._objects.items() if ref.kind == "Pod"]
        return sorted((p["status"]["podIP"] for p in pods), key=ipaddress.IPv4Address)

    def pids(self) -> dict[str, int]:
        """Return the process id of every running pod, by pod name."""
        return {ref.name: p.pid for ref, p in self._processes.items() if p.pid is not None}

    async def close(self) -> None:
        """Stop every pod, all at once, and wait until their processes are gone."""
        self._closed = True
        await asyncio.gather(
            *(process.stop(with_all=True) for process in self._processes.values()),
            *(job.stop() for job in self._jobs.values()),
        )
        await asyncio.gather(*self._stopping)

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """Return the object of this kind, None when there is none."""
        for ref, obj in self._objects.items():
            if (ref.kind, ref.namespace, ref.name) == (kind, namespace, name):
                return obj
        return read_secret(self._host.data_dir, namespace, name) if kind == "Secret" else None

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        """Return the GridCluster, None when there is none."""
        return self.cluster(namespace, name)

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        """Return one object, whoever owns it; None when there is none."""
        return copy.deepcopy(self._objects.get(ref) or self.find(ref.kind, ref.namespace, ref.name))

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        """Return what the cluster owns, pods and volume claims left out."""
        return [o for o in self._labelled(cluster) if o["kind"] not in NO_CHILDREN]

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the cluster's pods."""
        return [o for o in self._labelled(cluster) if o["kind"] == "Pod"]

    async def fetch_claims(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the cluster's volume claims."""
        return [o for o in self._labelled(cluster) if o["kind"] == "PersistentVolumeClaim"]

    async def is_terminating(self, namespace: str) -> bool:
        """Return False: nobody deletes namespaces here."""
        return False

    async def fetch_events(self, obj: KubeObject) -> list[KubeObject] | None:
        """Return none: nothing forbids a pod here, and its status says what a process lacks."""
        return []

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Store the object; a StatefulSet's pods follow, also when their ConfigMap comes later."""
        if dry_run:
            return copy.deepcopy(obj)
        self.writes += 1
        stored = self._store(copy.deepcopy(obj))
        if obj["kind"] == "Secret":
            write_secret(self._host.data_dir, obj)
        if obj["kind"] == "Job":
            self._start_job(ObjectRef.of(obj))
        self._sync_sets()
        return copy.deepcopy(stored)

    async def patch(
        self, obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        """Return the object as it is: an apply replaces all of it here, so nothing is left."""
        return obj

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        """Delete the object if it still has this uid. A pod goes when its process has ended."""
        obj = self._objects.get(ref)
        if obj is None:
            return
        if obj["metadata"]["uid"] != uid:
            raise Conflict(f"{ref} is no longer the one that was read")
        self.writes += 1
        if ref.kind == "Pod":
            self._begin_pod_stop(ref)
            return
        del self._objects[ref]
        if ref.kind == "Secret":
            remove_secret(self._host.data_dir, ref.namespace, ref.name)
        job = self._jobs.pop(ref, None)
        if job is not None:
            self._stop_later(job.stop(), ref)
        self._changed(obj)

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> KubeObject:
        """Write the status of the GridCluster, if nobody wrote the GridCluster since."""
        stored = self._observed(cluster)
        stored["status"] = copy.deepcopy(status)
        self._touch(stored)
        return copy.deepcopy(stored)

    async def set_finalizers(self, cluster: KubeObject, finalizers: tuple[str, ...]) -> None:
        """Replace the GridCluster's finalizers, if nobody wrote the GridCluster since."""
        stored = self._observed(cluster)
        stored["metadata"]["finalizers"] = list(finalizers)
        self._touch(stored)

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        """Keep the Event and print it with the cluster's name."""
        self.events.append(event)
        self._host.print_log(cluster["metadata"]["name"], f"{event.reason}: {event.message}")

    def _observed(self, cluster: KubeObject) -> KubeObject:
        """Return the stored form of a cluster that is going to be written."""
        stored = self._objects.get(ObjectRef.of(cluster))
        seen = cluster["metadata"]["resourceVersion"]
        if stored is None or stored["metadata"]["resourceVersion"] != seen:
            raise Conflict("the GridCluster changed since it was read")
        self.writes += 1
        return stored

    def _labelled(self, cluster: KubeObject) -> list[KubeObject]:
        meta = cluster["metadata"]
        return [
            copy.deepcopy(obj)
            for ref, obj in self._objects.items()
            if ref.namespace == meta["namespace"]
            and obj["metadata"].get("labels", {}).get(CLUSTER_LABEL) == meta["name"]
        ]

    def _store(self, obj: KubeObject) -> KubeObject:
        ref = ObjectRef.of(obj)
        old = self._objects.get(ref)
        if old is None:
            obj["metadata"] |= {
                "uid": str(uuid.uuid4()),
                "generation": 1,
                "creationTimestamp": self._timestamp(),
            }
        else:
            obj["metadata"] |= {key: old["metadata"][key] for key in SERVER_FIELDS}
            if "status" in old:
                obj["status"] = old["status"]
            if obj == old:
                return old
            if obj.get("spec") != old.get("spec"):
                obj["metadata"]["generation"] += 1
        self._objects[ref] = obj
        self._touch(obj)
        return obj

    def _touch(self, obj: KubeObject) -> None:
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        self._changed(obj)

    def _changed(self, obj: KubeObject) -> None:
        meta = obj["metadata"]
        name = meta["name"] if obj["kind"] == KIND else meta.get("labels", {}).get(CLUSTER_LABEL)
        if name is not None:
            self._on_change(meta["namespace"], name)

    def _timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def _sync_sets(self) -> None:
        for obj in [o for r, o in self._objects.items() if r.kind == "StatefulSet"]:
            self._sync_set(obj)

    def _sync_set(self, stateful_set: KubeObject) -> None:
        """Make the pods that are wanted and missing, and stop those beyond the size."""
        if self._closed:
            return
        meta = stateful_set["metadata"]
        for ordinal in range(stateful_set["spec"].get("replicas", 1)):
            ref = ObjectRef("v1", "Pod", meta["namespace"], f"{meta['name']}-{ordinal}")
            for claim in data_claims(stateful_set, ref.name):
                if ObjectRef.of(claim) not in self._objects:
                    self._store(claim)
            if ref not in self._objects:
                self._store(make_pod(stateful_set, ordinal, str(self._first_address + ordinal)))
            if ref not in self._processes:
                self._start_process(ref)
        for pod in self._pods_of(stateful_set):
            ordinal = int(pod["metadata"]["name"].rpartition("-")[2])
            if ordinal >= stateful_set["spec"].get("replicas", 1):
                self._condemn(stateful_set, ObjectRef.of(pod))
        self._refresh_set_status(stateful_set)

    def _condemn(self, stateful_set: KubeObject, pod: ObjectRef) -> None:
        """Stop a pod that is one too many, and have its claims go with it if they are to."""
        policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy", {})
        if policy.get("whenScaled") == "Delete":
            self._doomed[pod] = list(map(ObjectRef.of, data_claims(stateful_set, pod.name)))
        self._begin_pod_stop(pod)

    async def _remove_claims(self, pod: ObjectRef) -> None:
        for claim in self._doomed.pop(pod, ()):
            place = self._host.claim_directory(claim.namespace, claim.name)
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
            self._objects.pop(claim, None)

    def _pods_of(self, stateful_set: KubeObject) -> list[KubeObject]:
        uid = stateful_set["metadata"]["uid"]
        return [
            obj
            for ref, obj in self._objects.items()
            if ref.kind == "Pod" and obj["metadata"]["ownerReferences"][0]["uid"] == uid
        ]

    def _start_process(self, ref: ObjectRef) -> None:
        pod = self._objects[ref]
        try:
            spec = process_spec(pod, self, self._host)
        except Rejected as problem:
            if pod["status"].get("message") != str(problem):
                self._host.print_log(ref.name, f"cannot start: {problem}")
            pod["status"]["message"] = str(problem)
            self._touch(pod)
            return
        pod["status"].pop("message", None)
        self._processes[ref] = PodProcess(
            ref.name, spec, self._host, self._session, lambda: self._refresh_pod(ref)
        )

    def _refresh_pod(self, ref: ObjectRef) -> None:
        process = self._processes.get(ref)
        pod = self._objects.get(ref)
        if pod is None or process is None:
            return
        status = pod_status(pod, process, self._timestamp())
        if status != pod["status"]:
            pod["status"] = status
            self._touch(pod)
        owner = pod["metadata"]["ownerReferences"][0]
        stateful_set = self.find("StatefulSet", ref.namespace, owner["name"])
        if stateful_set is not None:
            self._refresh_set_status(stateful_set)

    def _refresh_set_status(self, stateful_set: KubeObject) -> None:
        status = set_status(stateful_set, self._pods_of(stateful_set))
        if status != stateful_set.get("status"):
            stateful_set["status"] = status
            self._touch(stateful_set)

    def _begin_pod_stop(self, ref: ObjectRef) -> None:
        meta = self._objects[ref]["metadata"]
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = self._timestamp()
            self._stop_later(self._stop_pod(ref), ref)
            self._touch(self._objects[ref])

    def _stop_later(self, work: Coroutine[None, None, None], ref: ObjectRef) -> None:
        task = asyncio.create_task(work, name=f"stop {ref.name}")
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _start_job(self, ref: ObjectRef) -> None:
        if ref not in self._jobs and not self._closed:
            job = self._objects[ref]
            self._jobs[ref] = JobProcess(job, self, self._host, lambda: self._job_ended(ref))

    def _job_ended(self, ref: ObjectRef) -> None:
        job, process = self._objects.get(ref), self._jobs.get(ref)
        if job is not None and process is not None and process.condition is not None:
            job["status"] = {"conditions": [process.condition]}
            self._touch(job)

    async def _stop_pod(self, ref: ObjectRef) -> None:
        process = self._processes.get(ref)
        if process is not None:
            await process.stop()
            del self._processes[ref]
        # What is in it would park the next member of this name.
        scratch = self._host.scratch_directory(ref.namespace, ref.name)
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        await self._remove_claims(ref)
        pod = self._objects.pop(ref)
        self._changed(pod)
        self._sync_sets()
