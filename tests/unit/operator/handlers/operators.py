"""`grid-operator` as a process of its own, as its users run it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.operator.watch_api import WatchApi

ROOT = Path(__file__).parents[4]


class Operator:
    """One `grid-operator` process."""

    def __init__(
        self, process: asyncio.subprocess.Process, health_port: int, metrics_port: int
    ) -> None:
        self.process = process
        self.told = ""
        """What it wrote to standard error, once it has ended."""
        self._url = f"http://127.0.0.1:{health_port}/healthz"
        self._metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"

    async def health(self) -> dict[str, Any]:
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(self._url) as response:
                found: dict[str, Any] = await response.json()
                return found
        return {}

    async def metrics(self) -> str:
        """Return what it tells Prometheus; nothing while it does not listen yet."""
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(self._metrics_url) as told:
                return await told.text()
        return ""

    async def ended(self, limit_s: float) -> int:
        """Return the exit code of a process that has to end within a limit."""
        _, told = await asyncio.wait_for(self.process.communicate(), limit_s)
        self.told = told.decode()
        return await self.process.wait()

    async def leads(self) -> bool:
        return (await self.health()).get("leader") is True


@contextlib.asynccontextmanager
async def operator(
    api: WatchApi, place: Path, *namespaces: str, command: tuple[str, ...] = ("-m", "grid_operator")
) -> AsyncIterator[Operator]:
    """Run one for these namespaces; the first one is its own."""
    port, metrics_port = free_ports(2)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        *(argument for name in namespaces for argument in ("--namespace", name)),
        *("--kubeconfig", str(api.kubeconfig(place / "kubeconfig"))),
        *("--health-port", str(port), "--metrics-port", str(metrics_port)),
        env={**os.environ, "POD_NAMESPACE": namespaces[0]},
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Operator(process, port, metrics_port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
