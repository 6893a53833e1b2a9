"""The Kubernetes port against a real API server."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import (
    API_VERSION,
    CLUSTER_LABEL,
    FIELD_MANAGER,
    KIND,
    OPERATOR_NAME,
    PLURAL,
    statefulset_name,
)
from grid_operator.api.objects import KubeObject, ObjectRef, other_manager
from grid_operator.ports.errors import Conflict, Rejected
from grid_operator.ports.kubernetes.rest import APPLY_TYPE, JSON_PATCH_TYPE, MERGE_TYPE, KubeRest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_operator.decide.model import ClusterEvent

LIST_PAGE_SIZE: Final = 500
EVENT_LIMIT: Final = 200
"""Events about one object: the API server keeps them for an hour, and joins those that repeat."""
EVENT_MESSAGE_LIMIT_BYTES: Final = 1024
NOT_FOUND: Final = "NotFound"
"""The API server's reason of a 404."""

STATEFUL_SET_KIND: Final = ("apps/v1", "StatefulSet", "statefulsets")
CHILD_KINDS: Final = (
    STATEFUL_SET_KIND,
    ("v1", "Service", "services"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("batch/v1", "Job", "jobs"),
)
"""apiVersion, kind and plural of everything that `render` makes, volume claims left out."""
POD_KIND: Final = ("v1", "Pod", "pods")
CLAIM_KIND: Final = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
LABELLED_KINDS: Final = (*CHILD_KINDS, POD_KIND, CLAIM_KIND)
"""Everything that carries the label of its cluster."""
PLURALS: Final = {kind: plural for _, kind, plural in LABELLED_KINDS} | {KIND: PLURAL}


class KubeClient:
    """Implements `ports.api.Kube` over a connection to an API server."""

    def __init__(self, rest: KubeRest, reporter: str) -> None:
        """Make the port.

        Args:
            rest: The connection.
            reporter: This operator's instance in Events: its pod's name.
        """
        self.rest = rest
        self._reporter = reporter

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        """Return the GridCluster, None when there is none."""
        return await self.fetch(ObjectRef(API_VERSION, KIND, namespace, name))

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        """Return one object, whoever owns it; None when there is none."""
        found = await self.rest.get(object_path(ref))
        return None if found is None else _trimmed(found)

    async def fetch_clusters(self, namespace: str | None) -> list[KubeObject]:
        """Return the GridClusters of a namespace, or of all namespaces."""
        return await self._list(API_VERSION, KIND, PLURAL, namespace, None)

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the objects of every kind that `render` makes and that are the cluster's.

        Pods and volume claims are left out.
        """
        lists = await asyncio.gather(
            *(self._list_labelled(*kind, cluster=cluster) for kind in CHILD_KINDS)
        )
        return [obj for listed in lists for obj in listed if is_child(obj, cluster)]

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the pods that carry the cluster's label."""
        return await self._list_labelled(*POD_KIND, cluster=cluster)

    async def fetch_claims(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the volume claims that carry the cluster's label."""
        return await self._list_labelled(*CLAIM_KIND, cluster=cluster)

    async def is_terminating(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted; False when that is not known."""
        try:
            found = await self.rest.get(f"/api/v1/namespaces/{namespace}")
        except Rejected:  # the right to look is not needed for anything else
            return False
        return found is None or "deletionTimestamp" in found["metadata"]

    async def fetch_events(self, obj: KubeObject) -> list[KubeObject] | None:
        """Return the Events about an object, None when the operator has no right to list them."""
        meta = obj["metadata"]
        query = {"limit": str(EVENT_LIMIT), "fieldSelector": f"involvedObject.uid={meta['uid']}"}
        try:
            page = await self.rest.get(collection_path("v1", "events", meta["namespace"]), query)
        except Rejected:
            return None
        return list(page.get("items", ())) if page is not None else []

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Server-side apply with the operator's field manager, forced; return the result."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"} | _dry(dry_run)
        path = object_path(ObjectRef.of(obj))
        return _trimmed(await self.rest.patch(path, obj, APPLY_TYPE, query))

    async def patch(
        self, obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        """Change an object where an apply leaves it as it is; return the result.

        Raises:
            Conflict: Somebody wrote the object since; nothing is written.
            Rejected: One of the operations cannot be; nothing is written.
        """
        version = obj["metadata"]["resourceVersion"]
        precondition = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        query = {"fieldManager": FIELD_MANAGER} | _dry(dry_run)
        path = object_path(ObjectRef.of(obj))
        body = [precondition, *operations]
        return _trimmed(await self.rest.patch(path, body, JSON_PATCH_TYPE, query))

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        """Delete the object if it still has this uid; no error when it is gone."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        await self.rest.delete(object_path(ref), options)

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> KubeObject:
        """Write the status subresource, if the cluster is still the one that was observed.

        Returns:
            The cluster as it is now, for the next write of its status.

        Raises:
            Conflict: Somebody wrote the cluster since; nothing is written.
        """
        # In a merge patch, null removes a field; lists are replaced, objects are joined.
        patch = {"status": _replacing(cluster.get("status", {}), status)}
        return await self._patch_observed(cluster, "/status", patch)

    async def set_finalizers(self, cluster: KubeObject, finalizers: tuple[str, ...]) -> None:
        """Replace the cluster's finalizers, if the cluster is still the one that was observed.

        Raises:
            Conflict: Somebody wrote the cluster since; nothing is written.
        """
        patch = {"metadata": {"finalizers": list(finalizers)}}
        await self._patch_observed(cluster, "", patch)

    async def _patch_observed(
        self, cluster: KubeObject, subresource: str, patch: KubeObject
    ) -> KubeObject:
        seen = cluster["metadata"]
        precondition = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **precondition}}
        path = object_path(ObjectRef.of(cluster)) + subresource
        query = {"fieldManager": FIELD_MANAGER}
        try:
            return _trimmed(await self.rest.patch(path, patch, MERGE_TYPE, query))
        except Rejected as error:
            if error.reason != NOT_FOUND:
                raise
            raise Conflict("the GridCluster is gone") from error

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        """Record an Event on the GridCluster."""
        meta = cluster["metadata"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        message = event.message.encode()[:EVENT_MESSAGE_LIMIT_BYTES].decode(errors="ignore")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{secrets.token_hex(8)}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": message,
            "source": {"component": OPERATOR_NAME},
            "reportingComponent": OPERATOR_NAME,
            "reportingInstance": self._reporter,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self.rest.create(f"/api/v1/namespaces/{meta['namespace']}/events", body)

    async def _list_labelled(
        self, api_version: str, kind: str, plural: str, *, cluster: KubeObject
    ) -> list[KubeObject]:
        meta = cluster["metadata"]
        selector = f"{CLUSTER_LABEL}={meta['name']}"
        return await self._list(api_version, kind, plural, meta["namespace"], selector)

    async def _list(
        self, api_version: str, kind: str, plural: str, namespace: str | None, selector: str | None
    ) -> list[KubeObject]:
        query = {"limit": str(LIST_PAGE_SIZE)}
        if selector is not None:
            query["labelSelector"] = selector
        found: list[KubeObject] = []
        while True:
            page = await self.rest.get(collection_path(api_version, plural, namespace), query)
            if page is None:
                return found
            found += (
                _trimmed({**item, "apiVersion": api_version, "kind": kind})
                for item in page.get("items", ())
            )
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            query["continue"] = token


def collection_path(api_version: str, plural: str, namespace: str | None) -> str:
    """Return the URL path of all objects of one kind, in one namespace or in all."""
    root = f"/api/{api_version}" if api_version == "v1" else f"/apis/{api_version}"
    return f"{root}/{plural}" if namespace is None else f"{root}/namespaces/{namespace}/{plural}"


def object_path(ref: ObjectRef) -> str:
    """Return the URL path of one object."""
    return f"{collection_path(ref.api_version, PLURALS[ref.kind], ref.namespace)}/{ref.name}"


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _replacing(before: object, after: object) -> object:
    """Return the merge patch that makes `before` into `after`: null for each field that left."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = dict.fromkeys(set(before) - set(after))
    return {k: _replacing(before.get(k), v) for k, v in after.items()} | gone


def is_child(obj: KubeObject, cluster: KubeObject) -> bool:
    """Return whether a labelled object is the cluster's: by its owner, or as its orphan.

    The StatefulSet of a cluster that was deleted with `--cascade=orphan` still runs members, and
    its record says with what they started. The operator has to know both before it writes over it.
    Other orphans are taken over when they are written, and never deleted.
    """
    meta = obj["metadata"]
    owners = meta.get("ownerReferences") or ()
    if any(owner["uid"] == cluster["metadata"]["uid"] for owner in owners):
        return True
    if owners or meta.get("deletionTimestamp") or other_manager(obj):
        return False
    if obj["kind"] != STATEFUL_SET_KIND[1]:
        return False
    return bool(meta["name"] == statefulset_name(cluster["metadata"]["name"]))


def _trimmed(obj: KubeObject) -> KubeObject:
    obj["metadata"].pop("managedFields", None)
    return obj
