"""Several members that leave when they are told to, and the controllers of their pods.

They speak as members do, over HTTP on a loopback address each, and are no processes: what an
operator does to several of them is counted here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.unit.operator.crash.pods import SET
from tests.unit.waiting import LOOK_PERIOD_S

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from tests.unit.operator.fake_api import FakeApi

CORE = "/api/v1/namespaces/grids"
MANAGEMENT = "/grid/rest/management/cluster"
LOOKS_TO_LEAVE = 5
JOINED, LEAVING, LEFT, PARKED = "joined", "leaving", "left", "parked"


@dataclass(slots=True)
class Leaver:
    """One member."""

    ordinal: int
    state: str = JOINED
    looks: int = 0
    """Of the controllers, since it was told to leave."""
    told: dict[str, str] = field(default_factory=dict)
    """The id of the operation that a call began, by the call's key."""

    @property
    def counts(self) -> bool:
        return self.state in (JOINED, LEAVING)


class Leavers:
    """The members of one cluster, and their StatefulSet's controller."""

    def __init__(self, api: FakeApi, port: int) -> None:
        self.begun: list[str] = []
        """Who began to leave, each time."""
        self.lost: list[str] = []
        """Whose pod was taken away although it had not left."""
        self.pods_made: list[str] = []
        self.members: dict[str, Leaver] = {}
        self._api, self._port = api, port
        self._servers: dict[str, AsyncExitStack] = {}
        self._operations: dict[str, dict[str, Any]] = {}
        self._task = asyncio.create_task(self._run(), name="leavers")

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for server in self._servers.values():
            await server.aclose()

    def log(self) -> list[dict[str, Any]]:
        """Return nothing: what was done is counted."""
        return []

    def claims(self) -> set[str]:
        place = f"{CORE}/persistentvolumeclaims/"
        return {path.removeprefix(place) for path in self._api.objects if path.startswith(place)}

    # The controller

    async def _run(self) -> None:
        while True:
            stateful_set = self._api.objects.get(SET)
            if stateful_set is not None:
                await self._sync(stateful_set)
            for member in self.members.values():
                if member.state == LEAVING:
                    member.looks += 1
                    self._get_on(member)
            await asyncio.sleep(LOOK_PERIOD_S)

    def _get_on(self, member: Leaver) -> None:
        operation = self._operations[next(reversed(member.told.values()))]
        operation["progress"] = min(100, 20 * member.looks)
        if member.looks >= LOOKS_TO_LEAVE:
            member.state, operation["stage"] = LEFT, "FINISHED"

    async def _sync(self, stateful_set: KubeObject) -> None:
        text = json.dumps(stateful_set["spec"]["template"], sort_keys=True)
        revision = hashlib.sha256(text.encode()).hexdigest()[:10]
        status = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "updateRevision": revision,
        }
        if stateful_set.get("status") != status:
            self._api.put(SET, {**stateful_set, "status": status})
        wanted = [f"demo-{n}" for n in range(stateful_set["spec"]["replicas"])]
        for name in [name for name in self.members if name not in wanted]:
            await self._take_away(name, stateful_set)
        for name in wanted:
            pod = self._api.objects.get(f"{CORE}/pods/{name}")
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                self._api.remove(f"{CORE}/pods/{name}")
            elif pod is None:
                await self._make(name, stateful_set, revision)
            else:
                self._set_ready(pod)

    async def _take_away(self, name: str, stateful_set: KubeObject) -> None:
        if self.members.pop(name).state != LEFT:
            self.lost.append(name)
        path = f"{CORE}/persistentvolumeclaims/data-{name}"
        goes = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"]
        if goes == "Delete":
            # The pod becomes its owner, and it goes with the pod.
            claim, owner = self._api.objects[path], [{"kind": "Pod", "name": name, "uid": name}]
            owned = {**claim["metadata"], "ownerReferences": owner}
            self._api.put(path, {**claim, "metadata": owned})
        self._api.remove(f"{CORE}/pods/{name}")
        await self._servers.pop(name).aclose()
        if goes == "Delete":
            self._api.remove(path)

    async def _make(self, name: str, stateful_set: KubeObject, revision: str) -> None:
        """Make a pod; a member that was there before begins again."""
        ordinal = int(name.rpartition("-")[2])
        if name not in self.members:
            self.members[name] = Leaver(ordinal)
            await self._serve(name)
        elif self.members[name].state == LEFT:
            self.lost.append(f"{name} on what it had before it left")
        self.members[name].state = JOINED
        self.pods_made.append(name)
        template = stateful_set["spec"]["template"]
        labels = template["metadata"]["labels"]
        owner = {"kind": "StatefulSet", "name": "demo", "uid": stateful_set["metadata"]["uid"]}
        meta = {"namespace": "grids", "labels": {**labels, "controller-revision-hash": revision}}
        claim = {"metadata": {**meta, "name": f"data-{name}"}, "spec": {}}
        path = f"{CORE}/persistentvolumeclaims/data-{name}"
        if path not in self._api.objects:
            kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            self._api.put(path, {**kind, **claim})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **meta,
                "name": name,
                "uid": str(uuid.uuid4()),
                "ownerReferences": [owner],
            },
            "spec": template["spec"],
            "status": {"podIP": self._address(ordinal)},
        }
        self._set_ready(self._api.put(f"{CORE}/pods/{name}", pod))

    def _set_ready(self, pod: KubeObject) -> None:
        ready = str(self.members[pod["metadata"]["name"]].counts)
        conditions = [{"type": "Ready", "status": ready}]
        if pod["status"].get("conditions") != conditions:
            changed = {**pod, "status": {**pod["status"], "conditions": conditions}}
            self._api.put(f"{CORE}/pods/{pod['metadata']['name']}", changed)

    def _address(self, ordinal: int) -> str:
        return f"127.0.0.{2 + ordinal}"

    # What members answer

    async def _serve(self, name: str) -> None:
        app, member = web.Application(), self.members[name]

        async def answered(request: web.Request) -> web.Response:
            if request.method == "POST":
                return self._shut_down(member, request)
            return self._shown(member, request.path)

        app.router.add_route("*", "/{path:.*}", answered)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, self._address(member.ordinal), self._port).start()
        self._servers[name] = AsyncExitStack()
        self._servers[name].push_async_callback(runner.cleanup)

    def _shown(self, member: Leaver, path: str) -> web.Response:
        shown = {
            "/grid/health": self._health,
            "/grid/health/ready": self._ready,
            "/grid/rest/cluster": self._cluster,
            f"{MANAGEMENT}/version": self._version,
            f"{MANAGEMENT}/operations": self._told,
        }
        return shown[path](member) if path in shown else web.Response(status=404)

    def _health(self, member: Leaver) -> web.Response:
        together = [m for m in self.members.values() if m.counts]
        moving = sum(m.state == LEAVING for m in together)
        return web.json_response(
            {
                "nodeState": "ACTIVE" if member.counts else "PASSIVE",
                "clusterState": "ACTIVE",
                "clusterSafe": not moving and not self._away(),
                "migrationQueueSize": moving,
                "clusterSize": len(together),
            }
        )

    def _away(self) -> bool:
        """Return whether a member that counts has no pod now."""
        pods = (f"{CORE}/pods/{name}" for name, m in self.members.items() if m.state != LEFT)
        return not all(pod in self._api.objects for pod in pods)

    def _ready(self, member: Leaver) -> web.Response:
        return web.Response(status=200 if member.counts else 503)

    def _cluster(self, member: Leaver) -> web.Response:
        if not member.counts:
            return web.Response(status=503, headers={"X-Grid-Error": "parked"})
        own = {"uuid": f"u{member.ordinal}", "address": "a:1", "memberVersion": "0.2.0"}
        return web.json_response({"members": [{**own, "localMember": True}]})

    def _version(self, _: Leaver) -> web.Response:
        return web.json_response({"version": "0.1"})

    def _told(self, _: Leaver) -> web.Response:
        return web.json_response(list(self._operations.values()))

    def _shut_down(self, member: Leaver, request: web.Request) -> web.Response:
        if request.headers.get("X-Grid-Leave") != "forever":
            member.state = PARKED
            return web.json_response({"status": "success"})
        key = request.headers["Idempotency-Key"]
        if key not in member.told:
            self.begun.append(f"demo-{member.ordinal}")
            begun = f"leaves-{len(self._operations)}"
            member.told[key], member.state = begun, LEAVING
            self._operations[begun] = {
                "id": begun,
                "kind": "migration",
                "stage": "IN_PROGRESS",
                "progress": 0,
                "error": None,
            }
        headers = {"X-Grid-Operation": member.told[key]}
        return web.json_response({"status": "success"}, headers=headers)
