"""One cluster of the crash tests."""

from __future__ import annotations

import base64
import collections
import json
import os
import random
import shutil
import signal
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from tests.unit.engine.backed_up import damage_log
from tests.unit.operator.crash.pods import JOB, POD, SECRET, SET, Node
from tests.unit.operator.crash.scenarios import PERSISTENCE
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.unit.operator.crash.processes import Forker
    from tests.unit.operator.crash.scenarios import Scenario

CLUSTER = "/apis/gridcluster.io/v1alpha1/namespaces/grids/gridclusters/demo"
MANAGEMENT = "/grid/rest/management/cluster"
KILLED = -int(signal.SIGKILL)
ITEMS = 20


class World:
    """One cluster: its API server, its node and its operators."""

    def __init__(self, api: FakeApi, node: Node, operators: Forker, place: Path, port: int) -> None:
        self.api, self.node = api, node
        self.place = place
        self._operators, self._port = operators, port
        self.serves_all = False
        """Whether operators have rights in all namespaces."""
        self.clock_speed = 20
        """Backoffs and limits are of seconds; the operators' two clocks run that fast."""
        self._epoch_s = time.time()
        self._count = 0
        self._kubeconfig = api.kubeconfig(place / "kubeconfig")

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.api.objects.get(CLUSTER, {}).get("status", {})
        return status

    def operator(self, crash: str = "", number: int = signal.SIGKILL) -> int:
        """Start an operator process and return its id; at the moment it sends itself the signal."""
        self._count += 1
        file = self.place / f"operator-{self._count}.json"
        options = {
            "kubeconfig": str(self._kubeconfig),
            "member_port": self._port,
            "epoch_s": self._epoch_s,
            "crash": crash,
            "signal": int(number),
            "serves_all": self.serves_all,
            "clock_speed": self.clock_speed,
        }
        file.write_text(json.dumps(options))
        log = self.place / f"operator-{self._count}.log"
        identity: int = self._operators.ask("start", str(file), str(log))
        return identity

    def ended(self, operator: int) -> int | None:
        code: int | None = self._operators.ask("ended", operator)
        return code

    @asynccontextmanager
    async def operating(self) -> AsyncIterator[None]:
        """Have an operator at work while the block runs."""
        operator = self.operator()
        try:
            yield
            assert self.ended(operator) is None, self.told()
        finally:
            self._operators.ask("kill", operator)

    def requests(self) -> int:
        """Return how many requests the API server has answered."""
        return self.api.requests

    def told(self) -> str:
        """Return what the operators and the members said, and where things are."""
        files = [*self.place.glob("operator-*.log"), *self.place.glob("pod-*/log")]
        logs = [p.read_text() for p in sorted(files)]
        return "\n".join([*logs, json.dumps(self.status, indent=1)])

    async def until(self, condition: Callable[[], bool]) -> None:
        async def holds() -> bool:
            return condition()

        try:
            await eventually(holds, patience_s=25)
        except TimeoutError:
            raise AssertionError(self.told()) from None

    def is_so(self, condition: str) -> bool:
        found = {c["type"]: c["status"] for c in self.status.get("conditions", ())}
        return found.get(condition) == "True"

    def kinds(self) -> list[tuple[str, str]]:
        found = self.status.get("lastOperations", ())
        return [(o["kind"], o["outcome"]) for o in reversed(found)]

    def wish(self, spec: dict[str, Any], annotations: dict[str, str]) -> None:
        """Edit the GridCluster as a user would, or make it."""
        live = self.api.objects.get(CLUSTER) or cluster_object()
        meta = live["metadata"]
        wanted = {f"gridcluster.io/{name}": value for name, value in annotations.items()}
        changed = {**meta, "annotations": {**meta.get("annotations", {}), **wanted}}
        self.api.put(CLUSTER, {**live, "metadata": changed, "spec": {**live["spec"], **spec}})

    def carried_out(self) -> dict[str, int]:
        """Return how often the members did what they were told, by the call's last word."""
        done = (
            entry["endpoint"].rpartition("/")[2]
            for entry in self.node.log()
            if entry["message"] == "management call"
            and entry["outcome"] == "done"
            and not entry.get("repeated")
        )
        return dict(collections.Counter(done))

    async def ask(self, scenario: Scenario) -> None:
        """Utter the scenario's wish, and what follows it."""
        self.wish(scenario.wish, scenario.annotations)
        if scenario.then:
            await self.until(lambda: self.status.get("operation", {}).get("step") == "AwaitFinish")
            self.wish({}, scenario.then)

    async def fill(self) -> None:
        """Put items into the member."""
        for number in range(ITEMS):
            assert await self._queue("POST", "", b"item %d" % number) == 200

    async def items(self) -> int:
        """Return how many items the member has, taking them out."""
        count = 0
        while await self._queue("DELETE", "/0") == 200:
            count += 1
        return count

    async def _queue(self, method: str, more: str, body: bytes | None = None) -> int:
        auth = aiohttp.encode_basic_auth(*self._credentials())
        url = f"http://127.0.0.1:{self._port}/grid/rest/queues/default{more}"
        headers = {"Authorization": auth}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body, headers=headers) as response,
        ):
            return response.status

    async def vanish(self) -> None:
        """Have the cluster gone with its volume; its backups stay."""
        for path in (CLUSTER, SET):
            self.api.remove(path)
        await self.node.forget()
        self.api.objects = {p: o for p, o in self.api.objects.items() if o["kind"] == "Namespace"}
        shutil.rmtree(self.place / "data")

    async def damage(self) -> None:
        """Kill the member, damage its data, and return when it waits for what to do."""
        await self.fill()
        assert self.node.pid is not None
        os.kill(self.node.pid, signal.SIGSTOP)
        damage_log(self.place / "data/store/shard-0", b"item 12")
        os.kill(self.node.pid, signal.SIGKILL)
        waits = "the store is damaged: the member waits for forceStart or partialStart"
        await self.until(lambda: any(e["message"] == waits for e in self.node.log()))

    def _credentials(self) -> tuple[str, str]:
        data = self.api.objects[SECRET]["data"]
        user, password = (base64.b64decode(data[k]).decode() for k in ("username", "password"))
        return user, password


@asynccontextmanager
async def world(members: Forker, operators: Forker, place: Path) -> AsyncIterator[World]:
    api, (port,) = FakeApi(), free_ports(1)
    await api.start()
    cluster = cluster_object(persistence=PERSISTENCE)
    api.objects[CLUSTER] = cluster
    api.objects["/api/v1/namespaces/grids"] = {"kind": "Namespace", "metadata": {"name": "grids"}}
    node = Node(api, members, place, port)
    try:
        yield World(api, node, operators, place, port)
    finally:
        await node.stop()
        await api.stop()


async def settled(made: World, scenario: Scenario) -> None:
    """Bring the world to where the scenario begins."""
    async with made.operating():
        await made.until(lambda: made.is_so("Ready") and "operation" not in made.status)
        if scenario.stopped:
            made.wish({"runState": "Stopped"}, {})
            await made.until(lambda: made.kinds() == [("Stop", "Succeeded")])
            await made.until(lambda: POD not in made.api.objects)
        if scenario.restored:
            await made.fill()
            made.wish({}, {"backup": "b-0"})
            await made.until(lambda: made.kinds() == [("Backup", "Succeeded")])
    if scenario.restored:
        await made.vanish()
    if scenario.damaged:
        await made.damage()
    if scenario.then:
        (made.place / "hold").touch()


async def fulfilled(made: World, scenario: Scenario) -> None:
    """Have an operator at work until the wish is fulfilled."""
    kinds = [(kind, scenario.outcome) for kind in scenario.kinds]
    async with made.operating():
        await made.until(lambda: made.kinds() == kinds and "operation" not in made.status)
        stopped = made.status.get("stopped") is True
        await made.until(lambda: stopped or made.is_so("Ready"))


def check(made: World, scenario: Scenario) -> None:
    """Fail unless everything was done exactly once."""
    calls = {k: v for k, v in made.carried_out().items() if k in scenario.calls}
    assert calls == scenario.calls, made.told()
    assert len(made.node.pods_made) == scenario.pods
    stopped = made.status.get("stopped") is True
    assert (made.api.objects[SET]["spec"]["replicas"] == 0) is stopped
    if "backup" in scenario.calls:
        kept = ["backup-1"] if scenario.outcome == "Succeeded" else []
        assert sorted(os.listdir(made.place / "backup")) == kept


async def check_restored(made: World) -> None:
    """Fail unless the data came from the backup, by one Job that is gone."""
    assert len(made.node.restores) == 1
    assert "restored " in made.node.restores[0]
    assert JOB not in made.api.objects
    assert made.status["restoredFrom"] == "demo-backup/demo-0/newest"
    async with made.operating():
        assert await made.items() == ITEMS


class Storm:
    """Fails requests at random, seeded; with every other of them an answer is lost."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._rng = random.Random(status)
        self.failed = 0

    def __call__(self) -> tuple[bool, web.Response] | None:
        if self._rng.random() > 1 / 6:
            return None
        self.failed += 1
        body = {"kind": "Status", "message": "a storm", "reason": "Storm"}
        # A conflict is never the answer to what was carried out.
        carried_out = self._status != 409 and self.failed % 2 == 0
        return carried_out, web.json_response(body, status=self._status)


def is_stopped(pid: int) -> bool:
    """Return whether the process stands still; see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
