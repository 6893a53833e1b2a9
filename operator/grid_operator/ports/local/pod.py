"""One pod of the local mode: a member process on a loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.ports.local.program import LocalHost, ProcessSpec, Program

LOG_LINE_LIMIT_BYTES: Final = 64 * 1024
PROBE_TIMEOUT_S: Final = 2.0
PROBE_PERIOD_UNTIL_READY_S: Final = 0.1
RESTART_DELAY_FIRST_S: Final = 0.2
RESTART_DELAY_MAX_S: Final = 10.0
STABLE_AFTER_S: Final = 10.0


async def start_program(program: Program) -> asyncio.subprocess.Process:
    """Start a program whose output can be read, and which dies with this process."""
    program.write_files()
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "grid_operator.ports.local.child",
        str(os.getpid()),
        *program.argv,
        env=dict(program.env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=LOG_LINE_LIMIT_BYTES,
        start_new_session=True,  # a terminal's Ctrl-C is for gridctl, which stops its members
    )


async def read_lines(output: asyncio.StreamReader | None, told: Callable[[str], None]) -> None:
    """Give every line of a program's output, to its end."""
    if output is None:
        return
    while True:
        try:
            line = await output.readuntil()
        except asyncio.IncompleteReadError as end:
            line = end.partial
        except asyncio.LimitOverrunError as overrun:
            line = await output.readexactly(overrun.consumed)
        if not line:
            return
        told(line.decode(errors="replace").rstrip("\n"))


class PodProcess:
    """Keeps the process of one pod running until it is stopped, and says whether it is ready."""

    def __init__(
        self,
        name: str,
        spec: ProcessSpec,
        host: LocalHost,
        session: aiohttp.ClientSession,
        on_change: Callable[[], None],
    ) -> None:
        self.ready = False
        self.restarts = 0
        self.last_exit: str = ""
        self._name = name
        self._spec = spec
        self._host = host
        self._session = session
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._keep_running(), name=f"pod {name}")

    @property
    def pid(self) -> int | None:
        """The process id, None between two processes."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def stop(self, *, with_all: bool = False) -> None:
        """Stop the process: SIGTERM, and SIGKILL after the grace period. Idempotent.

        A ready member that stops with all others gets SIGINT: none is there that takes over while
        it drains.
        """
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT if with_all and self.ready else signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), self._spec.grace_s)
            except TimeoutError:
                process.kill()
        elif not self._task.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._set_ready(False)

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s = RESTART_DELAY_FIRST_S
        while not self._stopping.is_set():
            began = loop.time()
            await self._run_once()
            self.ready = False
            self._on_change()
            if self._stopping.is_set():
                return
            delay_s = RESTART_DELAY_FIRST_S if loop.time() - began > STABLE_AFTER_S else delay_s
            self._host.print_log(
                self._name, f"ended ({self.last_exit}); starts again in {delay_s:g} s"
            )
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RESTART_DELAY_MAX_S)
            self.restarts += 1

    async def _run_once(self) -> None:
        self._process = await start_program(self._spec.program)
        self._on_change()
        if self._stopping.is_set():
            self._process.terminate()
        probing = asyncio.create_task(self._probe(), name=f"probe {self._name}")
        try:
            await read_lines(
                self._process.stdout, lambda line: self._host.print_log(self._name, line)
            )
            code = await self._process.wait()
        except asyncio.CancelledError:
            self._process.kill()
            await self._process.wait()
            raise
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        self.last_exit = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._process = None

    async def _probe(self) -> None:
        while True:
            self._set_ready(await self._answers_ready())
            await asyncio.sleep(
                self._spec.probe_period_s if self.ready else PROBE_PERIOD_UNTIL_READY_S
            )

    async def _answers_ready(self) -> bool:
        try:
            timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            # As the kubelet, it does not look whose certificate it is.
            async with self._session.get(
                self._spec.probe_url, timeout=timeout, allow_redirects=False, ssl=False
            ) as response:
                return response.status < 400
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._on_change()
