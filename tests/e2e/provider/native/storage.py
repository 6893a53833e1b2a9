"""Volumes as directories: answers PersistentVolumeClaims of the native cluster."""

from __future__ import annotations

import asyncio
import shutil
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.native.objects import PROVISIONER
from tests.e2e.provider.native.watching import KubeObject, Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import aiohttp

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def volume_for(
    claim: KubeObject, storage_class: KubeObject, root: Path, nodes: Sequence[str]
) -> KubeObject | None:
    """Return the volume that a claim waits for, or None when it waits for something else.

    A `local` volume and not a `hostPath` one: only the former honours a pod's fsGroup.
    """
    metadata, spec = claim["metadata"], claim["spec"]
    chosen = (metadata.get("annotations") or {}).get(SELECTED_NODE)
    immediate = storage_class.get("volumeBindingMode") != "WaitForFirstConsumer"
    pending = claim["status"].get("phase") == "Pending" and not spec.get("volumeName")
    if not pending or not (chosen or immediate):
        return None
    shared = (storage_class.get("parameters") or {}).get("shared") == "true"
    reachable = list(nodes) if shared or not chosen else [chosen]
    name = f"pvc-{metadata['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "local": {"path": str(root / name)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_on_nodes(reachable)]}},
        },
    }


def _on_nodes(names: Sequence[str]) -> KubeObject:
    key = "kubernetes.io/hostname"
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(names)}]}


class Provisioner:
    """Creates a directory and a volume per claim; removes both when the claim is gone."""

    def __init__(self, session: aiohttp.ClientSession, root: Path) -> None:
        self._session = session
        self._root = root
        self._wake = asyncio.Event()
        changed = self._wake.set
        self._claims = Mirror(session, "/api/v1/persistentvolumeclaims", changed)
        self._volumes = Mirror(session, "/api/v1/persistentvolumes", changed)
        self._classes = Mirror(session, "/apis/storage.k8s.io/v1/storageclasses", changed)
        self._nodes = Mirror(session, "/api/v1/nodes", lambda: None)

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in (self._claims, self._volumes, self._classes, self._nodes):
                tasks.create_task(mirror.follow())
            tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._provision()
            await self._reclaim()

    async def _provision(self) -> None:
        classes = {c["metadata"]["name"]: c for c in self._classes.objects}
        nodes = sorted(n["metadata"]["name"] for n in self._nodes.objects)
        for claim in self._claims.objects:
            storage_class = classes.get(claim["spec"].get("storageClassName", ""))
            if storage_class is None or storage_class["provisioner"] != PROVISIONER:
                continue
            volume = volume_for(claim, storage_class, self._root, nodes)
            if volume is not None:
                await self._create(volume)

    async def _create(self, volume: KubeObject) -> None:
        directory = self._root / volume["metadata"]["name"]
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o777)
        async with self._session.post("/api/v1/persistentvolumes", json=volume) as response:
            # A conflict: made before, and its claim is about to be bound.
            if response.status not in (HTTPStatus.CREATED, HTTPStatus.CONFLICT):
                sys.stderr.write(f"volume refused: {await response.text()}\n")

    async def _reclaim(self) -> None:
        for volume in self._volumes.objects:
            metadata, spec = volume["metadata"], volume["spec"]
            ours = (metadata.get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
            released = volume["status"].get("phase") == "Released"
            if ours and released and spec["persistentVolumeReclaimPolicy"] == "Delete":
                shutil.rmtree(spec["local"]["path"], ignore_errors=True)
                path = f"/api/v1/persistentvolumes/{metadata['name']}"
                async with self._session.delete(path) as response:
                    response.release()
