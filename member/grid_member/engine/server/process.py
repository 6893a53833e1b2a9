"""The nats-server of this member: found, started, watched, started again, stopped.

                       ┌────────────── ended, backoff ──────────────┐
    start() ─▶ launch ─▶ listening: `client_address` is there ─▶ ended: `failure` says why
                                       │ stop(): SIGTERM, SIGKILL
                                       ▼
                                  no server, no files

The server dies with the thread that called `start`, so with the process of the member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.admission import AdmissionReason, await_admission, watch_strangers
from grid_member.engine.bootstrap.identity import JETSTREAM, route_password
from grid_member.engine.bootstrap.incarnation import TwinError
from grid_member.engine.bootstrap.staggered_start import await_start
from grid_member.engine.io.ending import do_unless_ended, end_tasks
from grid_member.engine.nats.client.errors import describe_unexpected
from grid_member.engine.server.binary import find_server
from grid_member.engine.server.config import (
    SYSTEM_ACCOUNT,
    ServerPlaces,
    client_address,
    remove_ports,
    server_config,
    server_environment,
)
from grid_member.engine.server.held_back import ServerHold
from grid_member.engine.server.output import ServerLog, explanation, is_full
from grid_member.engine.server.runtime import directory_error, make_runtime
from grid_member.engine.server.tls_files import Lifetimes, file_signatures, renewals
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.bootstrap.incarnation import Incarnation
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.server.runtime import Runtime

START_S: Final = 3.0
"""How long a start that fails is tried again: what was there before may be ending."""
FIRST_BACKOFF_S: Final = 0.1
LAST_BACKOFF_S: Final = 5.0
STEADY_S: Final = 30.0
"""A server that lived for so long is started again without delay."""
TROUBLE_S: Final = 60.0
"""How long what ended a server is believed to be so still, once another one listens."""
STOP_S: Final = 10.0
"""How long the server may take to hand over what it leads and to end."""
_PORTS_POLL_S: Final = 0.02
_READ_BYTES: Final = 64 * 1024
_TOKEN_BYTES: Final = 24
_CONFIG: Final = "nats.conf"
_LAUNCH: Final = Path(__file__).with_name("launch.py")
_log: Final = logging.getLogger("grid.engine.nats")


class NatsServer:
    """A child process; one of these is one start of the member.

    Args:
        settings: How the members find and know each other.
        identity: Who this one is.
        waiting: Is told why no server is started yet.
        incarnation: This process, where another one may be the same member.
        twin: Is told when an older one was found after a server was started.
        is_gone: Tells whether the directory is not there any more, so that no server is started on
            what is in its place. May block.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        identity: MemberIdentity,
        waiting: Callable[[str], None] = lambda _: None,
        incarnation: Incarnation | None = None,
        twin: Callable[[TwinError], None] = lambda _: None,
        is_gone: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        """What the server knows its member by; for this start alone."""
        self.client_address: tuple[str, int] | None = None
        """Where clients connect to; None while no server runs."""
        self.failure: str | None = None
        """Why no server runs and what to do; None: one runs, or was not started yet."""
        self.process_id: int | None = None
        self.held_back = ServerHold()
        self._admission_reason = AdmissionReason.OWN
        """Why it was started; for its own cluster, too, when that came later."""
        self._yields = asyncio.Event()
        """Whether it was ended because another cluster came, and is not to be started yet."""
        self._gave_way = False
        """Whether that has happened before."""
        self._trusted = False
        """Whether somebody said that this member goes on."""
        self._watching: asyncio.Task[None] | None = None
        self._full: str | None = None
        """What to do about the disk, if the last server ended for it."""
        self._ended_s = 0.0
        self._settings = settings
        self._identity = identity
        self._waiting = waiting
        self._incarnation, self._twin, self._is_gone = incarnation, twin, is_gone
        self._clock = clock
        self._lifetimes = Lifetimes(settings.tls)
        self._log = ServerLog(_log, (self.token, route_password(settings)))
        self._runtime: Runtime | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._looking: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def full(self) -> str | None:
        """What to do about the disk that is full; None: as far as is known it is not."""
        lately = self.failure is not None or self._clock() - self._ended_s < TROUBLE_S
        return self._full if lately else None

    @property
    def apart(self) -> str | None:
        """Why this server and those of others do not take each other; None: nothing is known."""
        known = self._lifetimes.over, self._log.apart(self._clock())
        return "; ".join(filter(None, known)) or None

    async def start(self) -> None:
        """Return when the server takes clients; it may wait for the others still.

        Raises:
            EngineError: there is no such program, or it does not run; nothing is left of it.
        """
        binary = await asyncio.to_thread(find_server, self._settings.server)
        try:
            runtime = await self._prepare()
            self._looking = asyncio.ensure_future(self._lifetimes.watch())
            await self._await_others(runtime)
            self._keeping = asyncio.get_running_loop().create_task(self._keep(binary, runtime))
            until = self._clock() + START_S
            while self.client_address is None:
                self._changed.clear()
                await self._changed.wait()
                if self.failure is not None and self._clock() >= until:
                    raise EngineError(self.failure)
        except BaseException:
            await self.stop()
            raise

    def note_join(self) -> None:
        """Hear that the member is among its own: its server gives way to nobody any more."""
        self._admission_reason = AdmissionReason.OWN
        if self._watching is not None:
            self._watching.cancel()

    def trust(self) -> None:
        """Hear that those who are there go on: no member that merely waits is waited for."""
        self._trusted = True
        self.note_join()

    def kill(self) -> None:
        """End the server now and for good; it hands over nothing."""
        self._stopping.set()
        if self.process_id is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process_id, signal.SIGKILL)

    async def stop(self) -> None:
        """End the server, hand over what it leads first, and remove its files."""
        self._stopping.set()
        await end_tasks(self._looking)
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            await keeping
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await asyncio.to_thread(runtime.remove)

    async def _prepare(self) -> Path:
        """Return the server's directory with what it reads at its start."""
        making = asyncio.ensure_future(asyncio.to_thread(make_runtime))
        try:
            try:
                self._runtime = await asyncio.shield(making)
            except asyncio.CancelledError:
                making.add_done_callback(_remove_made)  # a thread ends what it began
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await asyncio.shield(making)
                raise
            self._write_config(self._runtime.path)
        except OSError as error:
            raise directory_error(error) from error
        return self._runtime.path

    def _write_config(self, runtime: Path) -> None:
        places = ServerPlaces(runtime, self._store(runtime), self.token)
        text = server_config(self._settings, self._identity.server_name, places)
        config_fd = os.open(runtime / _CONFIG, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(config_fd, "w", encoding="ascii") as file:
            file.write(text)

    def _store(self, runtime: Path) -> Path:
        directory = self._settings.directory
        return (runtime if directory is None else directory / CLUSTER) / JETSTREAM

    async def _await_others(self, runtime: Path) -> None:
        """Return when it is time to start."""
        if self._identity.cluster:
            own = self._identity.cluster
            self._admission_reason = await await_admission(
                *(self._settings, own, self._waiting, lambda: self._trusted),
                gave_way=self._gave_way,
                incarnation=self._incarnation,
            )
        elif self._is_new(runtime):
            await await_start(self._settings)

    def _is_new(self, runtime: Path) -> bool:
        """Whether the server is to vote and has never done so."""
        kept = self._store(runtime) / JETSTREAM / SYSTEM_ACCOUNT
        return not self._settings.lite and not kept.exists()

    async def _keep(self, binary: Path, runtime: Path) -> None:
        """Have a server until `stop`."""
        delay_s = FIRST_BACKOFF_S
        while not self._stopping.is_set():
            if self._yields.is_set():
                await self._rejoin(runtime)
                continue
            if await asyncio.to_thread(self._is_gone):
                # When it stays away, the member ends this.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), FIRST_BACKOFF_S)
                continue
            began = self._clock()
            try:
                ended = f"nats-server ended with status {await self._live(binary, runtime)}"
            except OSError as error:
                ended = f"nats-server could not be run ({error.strerror or error})"
            except Exception as error:
                ended = f"nats-server could not be watched ({describe_unexpected(error)})"
            if self._stopping.is_set():
                return
            if self._clock() - began >= STEADY_S:
                delay_s = FIRST_BACKOFF_S
            if self._yields.is_set() or self.held_back.released:
                continue
            self._tell_end(ended)
            self._changed.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            delay_s = min(2 * delay_s, LAST_BACKOFF_S)

    async def _rejoin(self, runtime: Path) -> None:
        """Return when it is time to start a server after one that gave way."""
        try:
            await do_unless_ended(self._stopping, self._await_others(runtime))
        except EngineError as error:
            if isinstance(error, TwinError):  # else the member stops
                self._twin(error)
        self._yields.clear()

    async def _live(self, binary: Path, runtime: Path) -> int:
        """Run a server to its end; return its status."""
        self._log.begin()
        remove_ports(runtime)
        config, store = runtime / _CONFIG, self._store(runtime)
        self.held_back.prepare(config, store, again=bool(self._ended_s))
        tls = self._settings.tls
        seen = () if tls is None else await asyncio.to_thread(file_signatures, tls)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", _LAUNCH, str(os.getpid())),
            *(binary, "-c", config),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=server_environment(),
        )
        self.process_id = child.pid
        self._watching = asyncio.ensure_future(self._give_way(child))
        tasks = [
            asyncio.ensure_future(self._read(child)),
            asyncio.ensure_future(self._end(child)),
            self._watching,
            asyncio.ensure_future(self._find_ports(runtime)),
            asyncio.ensure_future(self.held_back.await_release(child.kill)),
        ]
        if tls is not None:
            hangup = partial(child.send_signal, signal.SIGHUP)
            tasks.append(asyncio.ensure_future(renewals(tls, seen, hangup)))
        try:
            return await child.wait()
        finally:
            self.process_id = None
            self.client_address = None
            if child.returncode is None:
                child.kill()
            # The pipe ends with the process: there is no other that has it.
            await tasks[0]
            await end_tasks(*tasks[1:])

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        """Take the log of a server to its end."""
        output = child.stderr
        data = b"."
        while output is not None and data:
            data = await output.read(_READ_BYTES)
            self._log.feed(data, self._clock())
            if self._log.crippled and child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        """End a server when that is asked for."""
        await self._stopping.wait()
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
            await asyncio.sleep(STOP_S)
            _log.warning("nats-server did not end within %.0f s and is killed", STOP_S)
            child.kill()

    async def _give_way(self, child: asyncio.subprocess.Process) -> None:
        """End a server that was started alone when a member of another cluster comes."""
        if self._admission_reason is AdmissionReason.OWN:
            return
        cluster = self._identity.cluster
        try:
            strange = await watch_strangers(
                self._settings, cluster, self._admission_reason, self._incarnation
            )
        except TwinError as error:
            self._twin(error)
            return
        if strange is None:
            self._admission_reason = AdmissionReason.OWN
            return
        self._waiting(strange)
        self._yields.set()
        self._gave_way = True
        with contextlib.suppress(ProcessLookupError):
            child.kill()

    async def _find_ports(self, runtime: Path) -> None:
        """Note where the server takes clients as soon as it does."""
        while True:
            address = client_address(runtime)
            if address is not None:
                self.client_address, self.failure = address, None
                self._changed.set()
                return
            await asyncio.sleep(_PORTS_POLL_S)

    def _tell_end(self, ended: str) -> None:
        why, last = explanation(self._log.disk_alarms, self._settings), ""
        if why is None:
            complaints = self._log.disk_alarms
            why = f"{ended}: {complaints[-1]}" if complaints else ended
            last = "\n" + "\n".join(self._log.last)
        self.failure = why
        self._full = why if is_full(self._log.disk_alarms) else None
        self._ended_s = self._clock()
        _log.error("%s and is started again: %s%s", ended, why, last)


def _remove_made(making: asyncio.Future[Runtime]) -> None:
    if making.exception() is None:
        making.result().remove()
