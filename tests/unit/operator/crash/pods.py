"""The controllers of StatefulSets and Jobs and the kubelet of one node: pods are processes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.unit.waiting import LOOK_PERIOD_S

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject
    from tests.unit.operator.crash.processes import Forker
    from tests.unit.operator.fake_api import FakeApi

SET = "/apis/apps/v1/namespaces/grids/statefulsets/demo"
POD = "/api/v1/namespaces/grids/pods/demo-0"
JOB = "/apis/batch/v1/namespaces/grids/jobs/demo-restore"
SECRET = "/api/v1/namespaces/grids/secrets/demo-management"

CONFIGURATION = """grid:
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    management: {{enabled: true, port: {{port: {port}, auto-increment: false}}, realm: ops}}
  security:
    realms:
      - name: ops
        authentication: {{simple: {{users: [{{username: {user}, password: {password}}}]}}}}
  persistence:
    enabled: true
    base-dir: {place}/data
    backup-dir: {place}/backup
    cluster-data-recovery-policy: PARTIAL_RECOVERY_MOST_RECENT
  shutdown: {{parked-file: {pod}/parked}}
  map: {{default: {{}}}}
  queue: {{default: {{}}}}
  logging: {{format: json}}
"""


class Node:
    """Runs the one pod that the StatefulSet asks for."""

    def __init__(self, api: FakeApi, members: Forker, place: Path, port: int) -> None:
        self.pods_made: list[str] = []
        """uids"""
        self.restores: list[str] = []
        """What each restoring Job said."""
        self.pid: int | None = None
        self._api, self._members, self._place, self._port = api, members, place, port
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2))
        self._task = asyncio.create_task(self._run(), name="node")

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self.pid is not None:
            self._members.ask("kill", self.pid)
        await self._session.close()

    async def forget(self) -> None:
        """End the pod, whose StatefulSet is gone."""
        await self._end()
        self._api.remove(POD)

    def log(self) -> list[dict[str, Any]]:
        """Return what all members have logged."""
        files = sorted(self._place.glob("pod-*/log"))
        return [json.loads(line) for f in files for line in f.read_text().splitlines()]

    async def _run(self) -> None:
        while True:
            stateful_set = self._api.objects.get(SET)
            if stateful_set is not None:
                await self._sync(stateful_set)
            job = self._api.objects.get(JOB)
            if job is not None and "status" not in job:
                await self._restore(job)
            await asyncio.sleep(LOOK_PERIOD_S)

    async def _sync(self, stateful_set: KubeObject) -> None:
        text = json.dumps(stateful_set["spec"]["template"], sort_keys=True)
        revision = hashlib.sha256(text.encode()).hexdigest()[:10]
        self._report(stateful_set, revision)
        wanted = stateful_set["spec"]["replicas"] > 0
        pod = self._api.objects.get(POD)
        if pod is None:
            if wanted:
                self._make(stateful_set, revision)
            return
        if not wanted or "deletionTimestamp" in pod["metadata"]:
            await self._end()
            self._api.remove(POD)
            return
        if self.pid is not None and self._members.ask("ended", self.pid) is not None:
            self.pid = None  # the kubelet starts the container again
        if self.pid is None:
            self._start(pod["metadata"]["uid"])
        self._set_ready(pod, await self._answers_ready())

    async def _restore(self, job: KubeObject) -> None:
        """Run the Job's command where the member's volumes are."""
        verb, backups, *options, directory = job["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
        assert (verb, backups.rpartition("/")[2], options[-1]) == ("restore", "demo-0", "--into")
        assert directory.startswith("/")
        command = [verb, str(self._place / "backup"), *options, str(self._place / "data")]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "grid_member", *command), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said
        self.restores.append(said.decode())
        live = self._api.objects.get(JOB)
        if live is not None and live["metadata"]["uid"] == job["metadata"]["uid"]:
            conditions = [{"type": "Complete", "status": "True"}]
            self._api.put(JOB, {**live, "status": {"conditions": conditions}})

    def _report(self, stateful_set: KubeObject, revision: str) -> None:
        status = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "replicas": int(POD in self._api.objects),
            "currentRevision": revision,
            "updateRevision": revision,
        }
        if stateful_set.get("status") != status:
            self._api.put(SET, {**stateful_set, "status": status})

    def _make(self, stateful_set: KubeObject, revision: str) -> None:
        template = stateful_set["spec"]["template"]
        identity = str(uuid.uuid4())
        self.pods_made.append(identity)
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        owner = {"kind": "StatefulSet", "name": "demo", "uid": stateful_set["metadata"]["uid"]}
        meta = {"name": "demo-0", "namespace": "grids", "uid": identity, "labels": labels}
        self._api.put(
            POD,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**meta, "ownerReferences": [owner]},
                "spec": template["spec"],
                "status": {"podIP": "127.0.0.1"},
            },
        )

    def _start(self, identity: str) -> None:
        place = self._place / f"pod-{len(self.pods_made)}-{identity}"
        place.mkdir(exist_ok=True)
        data = self._api.objects[SECRET]["data"]
        user, password = (base64.b64decode(data[k]).decode() for k in ("username", "password"))
        text = CONFIGURATION.format(
            port=self._port, user=user, password=password, place=self._place, pod=place
        )
        file = place / "grid.yaml"
        file.write_text(text)
        self.pid = self._members.ask("start", str(file), str(place / "log"))

    async def _end(self) -> None:
        if self.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        while self._members.ask("ended", self.pid) is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(LOOK_PERIOD_S)
        self.pid = None

    async def _answers_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self._port}/grid/health/ready"
            async with self._session.get(url) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _set_ready(self, pod: KubeObject, ready: bool) -> None:
        live = self._api.objects.get(POD)
        conditions = [{"type": "Ready", "status": str(ready)}]
        if live is None or live["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if live["status"].get("conditions") != conditions:
            self._api.put(POD, {**live, "status": {**live["status"], "conditions": conditions}})
