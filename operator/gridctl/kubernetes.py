"""The GridClusters of one Kubernetes, as the command line tool reads and changes them."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from grid_operator.api.names import API_VERSION, KIND, PLURAL, statefulset_name
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.ports.errors import Conflict, OperatorError
from grid_operator.ports.kubernetes.client import KubeClient, collection_path, object_path
from grid_operator.ports.kubernetes.rest import MERGE_TYPE, KubeRest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FIELD_MANAGER: Final = "gridctl"
JSON_PATCH_TYPE: Final = "application/json-patch+json"
DEFAULT_NAMESPACE: Final = "default"
CHANGE_ATTEMPTS: Final = 5
"""Somebody else, mostly the operator, may write between a read and a change."""


class NotFoundError(Exception):
    """There is no such GridCluster; the message says where none was found."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which Kubernetes to ask, and which namespace of it."""

    kubeconfig: str
    context: str | None = None
    namespace: str | None = None
    """None: that of the context, or `default`."""


class Clusters:
    """Reads and changes GridClusters of one namespace."""

    def __init__(self, rest: KubeRest, namespace: str) -> None:
        self.namespace = namespace
        self._rest = rest
        self._kube = KubeClient(rest, FIELD_MANAGER)

    async def fetch(self, name: str) -> KubeObject:
        """Return the GridCluster.

        Raises:
            NotFoundError: There is none of this name.
            OperatorError: The API server cannot be asked, or refuses.
        """
        found = await self._kube.fetch_cluster(self.namespace, name)
        if found is None:
            raise NotFoundError(
                f"there is no {KIND} {name} in namespace {self.namespace}: see gridctl status -A, "
                "and name the namespace with -n"
            )
        return found

    async def find(self, name: str) -> KubeObject | None:
        """Return the GridCluster, None when there is none."""
        return await self._kube.fetch_cluster(self.namespace, name)

    async def find_set(self, name: str) -> KubeObject | None:
        """Return the StatefulSet of a cluster's members, None when there is none."""
        ref = ObjectRef("apps/v1", "StatefulSet", self.namespace, statefulset_name(name))
        return await self._kube.fetch(ref)

    async def change(self, name: str, make: Callable[[KubeObject], KubeObject]) -> KubeObject:
        """Merge what `make` says of the live cluster into it; return the cluster as it is then.

        Raises:
            NotFoundError: There is none of this name.
            OperatorError: The API server cannot be asked, or refuses.
        """
        for attempt in range(CHANGE_ATTEMPTS):
            live = await self.fetch(name)
            version = live["metadata"]["resourceVersion"]
            patch = copy.deepcopy(make(live))
            patch.setdefault("metadata", {})["resourceVersion"] = version
            try:
                return await self._rest.patch(
                    object_path(ObjectRef.of(live)),
                    patch,
                    MERGE_TYPE,
                    {"fieldManager": FIELD_MANAGER},
                )
            except Conflict:
                if attempt == CHANGE_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def create(self, manifest: KubeObject) -> KubeObject:
        """Create a GridCluster.

        Raises:
            OperatorError: There is one of this name, or the API server refuses.
        """
        path = collection_path(API_VERSION, PLURAL, self.namespace)
        return await self._rest.create(path, manifest)

    async def try_spec(self, live: KubeObject, spec: dict[str, Any]) -> None:
        """Ask the API server whether it would take another spec; nothing is written.

        Raises:
            OperatorError: It would not; the message is its own.
        """
        patch = [{"op": "add", "path": "/spec", "value": spec}]
        await self._rest.patch(
            object_path(ObjectRef.of(live)),
            cast("KubeObject", patch),
            JSON_PATCH_TYPE,
            {"fieldManager": FIELD_MANAGER, "dryRun": "All"},
        )

    async def try_create(self, manifest: KubeObject) -> None:
        """Ask the API server whether it would take a new cluster; nothing is written.

        Raises:
            OperatorError: It would not; the message is its own.
        """
        path = collection_path(API_VERSION, PLURAL, self.namespace)
        await self._rest.create(f"{path}?dryRun=All", manifest)


@contextlib.asynccontextmanager
async def clusters_of(access: Access) -> AsyncIterator[Clusters]:
    """Connect to a Kubernetes for as long as the block takes.

    Raises:
        OperatorError: The configuration is missing or unusable.
    """
    rest = await KubeRest.connect(access.kubeconfig, access.context)
    try:
        yield Clusters(rest, access.namespace or rest.default_namespace or DEFAULT_NAMESPACE)
    finally:
        await rest.close()


async def fetch_all(access: Access) -> list[KubeObject]:
    """Return the GridClusters of a namespace, or of all namespaces when none is named.

    Raises:
        OperatorError: The API server cannot be asked, or refuses.
    """
    rest = await KubeRest.connect(access.kubeconfig, access.context)
    try:
        return await KubeClient(rest, FIELD_MANAGER).fetch_clusters(access.namespace)
    finally:
        await rest.close()


__all__ = ["Access", "Clusters", "NotFoundError", "OperatorError", "clusters_of", "fetch_all"]
