"""The operator as a process of its own, which can kill itself at any line of an operation.

It has read the code and is forked for each operator that the test starts (see `nursery.py` of the
conformance tests, whose orders it takes). The file of a start order holds JSON: kubeconfig,
member_port, epoch_s, clock_speed, serves_all, `crash`, the moment at which it ends, `STEP:MOMENT`,
and `signal`, what it sends itself then, SIGKILL or SIGSTOP:

    before, sent, answered, patched   around the call of the step
    undone, done                      around the first object that the step applies or deletes
    entered                           when the status that enters the step is written
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from grid_operator.ports.clock import steady_s
from grid_operator.ports.errors import OperatorError
from grid_operator.ports.kubernetes.client import KubeClient
from grid_operator.ports.kubernetes.rest import KubeRest
from grid_operator.ports.members.client import MemberClient
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject, ObjectRef
    from grid_operator.decide.calls import CallOutcome, MemberCall
    from grid_operator.ports.api import MemberAccess

KEY = ClusterKey("grids", "demo")
PAUSE_S = 0.02


class Crash:
    """The moment at which this process kills, or stops, itself."""

    def __init__(self, wanted: str, number: int) -> None:
        self._step, _, self._moment = wanted.partition(":")
        self._signal = number
        self.step = ""
        """The step that the API server holds."""
        self.called = False

    def at(self, moment: str, step: str | None = None) -> None:
        if (self._step, self._moment) == (self.step if step is None else step, moment):
            os.kill(os.getpid(), self._signal)

    def arm_response(self) -> None:
        """Die when a request is out, in place of reading its answer."""
        crash, start = self, aiohttp.ClientResponse.start

        async def dying_start(response: aiohttp.ClientResponse, connection: Any) -> Any:
            if response.method == "POST":
                while response._writer is not None:  # noqa: ASYNC110 - aiohttp has no event for it
                    await asyncio.sleep(0)
                crash.at("sent")
            return await start(response, connection)

        aiohttp.ClientResponse.start = dying_start  # type: ignore[method-assign, assignment]


class CrashingKube(KubeClient):
    """The port, with the crash around what it changes."""

    def __init__(self, rest: KubeRest, crash: Crash) -> None:
        super().__init__(rest, "operator-0")
        self._crash = crash

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        cluster = await super().fetch_cluster(namespace, name)
        self._crash.step = _step(cluster or {})
        return cluster

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        self._crash.at("undone")
        applied = await super().apply(obj, dry_run=dry_run)
        self._crash.at("done")
        return applied

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        self._crash.at("undone")
        await super().delete(ref, uid)
        self._crash.at("done")

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> KubeObject:
        written = await super().apply_status(cluster, status)
        if self._crash.called:
            self._crash.called = False
            self._crash.at("patched")
        entered = _step(written)
        if entered != self._crash.step:
            self._crash.at("entered", entered or "End")
        return written


class CrashingMembers(MemberClient):
    """The port, with the crash around calls."""

    def __init__(self, port: int, crash: Crash) -> None:
        super().__init__(port)
        self._crash = crash

    async def call(
        self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
    ) -> CallOutcome | None:
        self._crash.at("before")
        outcome = await super().call(call, access, may_send)
        self._crash.at("answered")
        self._crash.called = True
        return outcome


def _step(cluster: KubeObject) -> str:
    operation = cluster.get("status", {}).get("operation") or {}
    return str(operation.get("step", ""))


async def operate(options: dict[str, Any]) -> None:
    crash = Crash(options["crash"], options["signal"])
    crash.arm_response()
    epoch_s: float = options["epoch_s"]
    speed: int = options["clock_speed"]

    def now() -> datetime:
        return datetime.fromtimestamp(epoch_s, UTC) + timedelta(
            seconds=(time.time() - epoch_s) * speed
        )

    where = Surroundings(
        "grid-system",
        serves_all=options["serves_all"],
        now=now,
        steady_s=lambda: steady_s() * speed,
    )
    rest = await KubeRest.connect(options["kubeconfig"])
    async with CrashingMembers(options["member_port"], crash) as members:
        reconciler = Reconciler(CrashingKube(rest, crash), members, where)
        while True:
            try:
                delay_s = await reconciler.reconcile(KEY)
            except OperatorError as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                delay_s = PAUSE_S
            await asyncio.sleep(min(delay_s or 0.0, PAUSE_S))


def run(arguments: list[str]) -> int:
    asyncio.run(operate(json.loads(Path(arguments[1]).read_text())))
    return 0


def main() -> None:
    """Take orders as the nursery of members does."""
    path = Path(__file__).parents[2] / "member" / "conformance" / "nursery.py"
    spec = importlib.util.spec_from_file_location("nursery", path)
    assert spec is not None
    assert spec.loader is not None
    nursery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nursery)
    vars(nursery)["run"] = run
    nursery.main()


if __name__ == "__main__":
    main()
