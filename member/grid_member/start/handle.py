"""One member's way from its configuration over a graceful stop to nothing left behind.

    start():  ports bound ──▶ REST answers, not ready ──▶ data replayed ──▶ ready
    stop():   not ready ──▶ polls end with 204 ──▶ drain ──▶ what was begun finishes ──▶ all closed

Whatever ends a start early, a taken port, a locked directory or a cancellation, runs the same stop.
A disk that answers nothing does not hold up a stop for ever: it is given up, with a `StopError`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from grid_member.cluster.member.member import Phase
from grid_member.config.model.cluster import MEMBERS_PORT_OFFSET
from grid_member.engine.io.ending import end_tasks
from grid_member.http.server.listener import Listeners
from grid_member.release import VERSION
from grid_member.security.tls import check_members_tls
from grid_member.start.address import shown_address, warn_unless_listed
from grid_member.start.member_wan import make_member_wan
from grid_member.start.parts import make_member
from grid_member.start.ports import GivenUpError, bind_in_time, claim_members_port, release
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from grid_member.config import Config
    from grid_member.start.ports import BoundListeners, Claim

STOP_GRACE_S: Final = 20.0
"""How long a graceful stop waits for answers under way; below Kubernetes' 30 s."""
HURRY_GRACE_S: Final = 0.05
"""The same after `hurry`; aiohttp takes 0 for no limit."""
DISK_GRACE_S: Final = 15.0
"""How long a graceful stop waits for the disk before it hurries.

Together with the other graces, and with the wait for WAN queues in memory, it stays below the 60 s
that Kubernetes gives a pod.
"""
BACKUP_GRACE_S: Final = 5.0
"""How long of that it waits for a backup that it interrupts: the volume of that may be stuck."""
HURRY_DISK_GRACE_S: Final = 2.0
"""The same after `hurry`; then the stop is given up."""
READY_LOOK_S: Final = 0.05
"""Between two looks whether a member that has joined can be used."""
_UNCONFIRMED: Final = (
    "the disk did not confirm the last commit in time and is waited for no more: what it did not "
    "confirm was never answered"
)
_NOT_STARTED: Final = "the start did not end in time and is waited for no more"
_log: Final = logging.getLogger("grid.member")


class StopError(Exception):
    """A stop was given up because the disk does not answer; nothing that was answered is lost.

    Ports are released. The data is not before the disk answers, or the process ends.
    """


async def start_member(config: Config) -> MemberHandle:
    """Start a member in the running event loop; return when it is ready.

    Several members may run in one loop, each on ports and in a directory of its own. A start that
    fails or is cancelled releases everything it took first.

    Raises:
        PortError: a port could not be taken.
        TlsError: the files of a TLS listener or of the members' TLS cannot be used.
        EngineError: the data could not be opened.
        ConfigError: what was added while the member ran before does not go with the configuration.
        StopError: a stop was requested meanwhile, and the disk does not answer.
    """
    member = MemberHandle(config)
    await member.start()
    return member


class MemberHandle:
    """A member in this event loop. `async with` stops it at the end of the block."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._claim: Claim | None = None
        self._make()
        self.rest_port: int | None = None
        self.management_port: int | None = None
        self.metrics_port: int | None = None
        self.wan_port: int | None = None
        """The ports of the listeners; None when one is off, or before it listens."""
        self._hurry_request = asyncio.Event()
        self._listening = asyncio.Event()
        self._give_up_request = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def _make(self) -> None:
        self._member = make_member(
            self._config,
            self._config.model.instance_name or f"grid-{socket.gethostname()}",
            _plain_version(VERSION),
        )
        self._wan = make_member_wan(self._member)
        self._listeners = Listeners(self._member, self._wan)

    @property
    def address(self) -> str:
        """The member's `host:port` in the cluster document."""
        return self._member.address

    @property
    def uuid(self) -> str:
        """The member's UUID; the same after a restart on the same directory."""
        return self._member.engine.member_uuid

    @property
    def ready(self) -> bool:
        """True while the member can be used."""
        return self._member.ready

    async def start(self) -> None:
        """Listen, replay the data, be ready; `start_member` does this.

        Returns early, with a member that is not ready, when a stop was requested meanwhile or the
        member is parked.

        Raises:
            PortError: a port could not be taken.
            TlsError: the files of a TLS listener or of the members' TLS cannot be used.
            EngineError: the data could not be opened.
            ConfigError: what was added before does not go with the configuration.
            StopError: a stop was requested, and the disk does not answer.
        """
        if self._starting is not None or self._stopping is not None:
            raise RuntimeError("a member starts once: make a new one")
        # A task of its own: a cancellation must find either nothing or a started member.
        self._starting = asyncio.create_task(self._start())
        try:
            await self._wait_either(self._give_up_request.wait(), self._starting)
            if self._starting.done():
                self._starting.result()
            else:
                await self.wait_stopped()
        except GivenUpError:
            await self.wait_stopped()
        except BaseException:
            self.request_stop(drain=False)
            await self.wait_stopped()
            raise

    @property
    def draining(self) -> bool:
        """True while a stop waits for load balancers to notice (`shutdown.drain-seconds`)."""
        return self._member.draining

    def request_stop(self, *, drain: bool = True) -> None:
        """Begin to stop; `wait_stopped` tells when that is done. Further calls change nothing.

        Args:
            drain: whether load balancers get the time to notice; False ends a drain, too.
        """
        self._member.request_stop(drain=drain)
        if not self.draining:
            self._begin_stop()

    def hurry(self) -> None:
        """Let the stop close connections without waiting for their answers, nor for the disk."""
        if self.draining:
            self.request_stop(drain=False)
        self._hurry_request.set()
        self._member.engine.hurry()

    async def stop(self) -> None:
        """Stop gracefully and return when ports and data are released.

        May be called again, at any time and by several at once: all wait for the one stop, which a
        cancelled caller does not interrupt.

        Raises:
            StopError: the disk does not answer, so the data is not released yet.
        """
        self.request_stop()
        await self.wait_stopped()

    async def wait_stopped(self) -> None:
        """Return when the member has stopped, whoever asked for that.

        Raises:
            StopError: the disk does not answer, so the data is not released yet.
            EngineError: the member ended by itself, as it could not go on.
        """
        await self._member.wait_for_stop()
        # Whoever was told first has made the task by the time this runs on.
        self._begin_stop()
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
        if self._member.failure is not None:
            raise self._member.failure

    async def __aenter__(self) -> MemberHandle:
        """Return the member as it is: `async with await start_member(config) as member`."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def _start(self) -> None:
        for note in self._member.config.notes:
            event(_log, logging.WARNING, note)
        try:
            await self._listen()
        finally:
            self._listening.set()
        if self._member.config.cluster is not None:
            warn_unless_listed(self._member.config.cluster)
        await self._member.join()
        if self._member.phase is not Phase.RUNNING:
            return
        self._watching = asyncio.create_task(self._watch())
        if self._wan is not None:
            self._wan.start()
        if not await self._usable():
            return
        config = self._member.config
        event(
            _log,
            logging.INFO,
            "ready",
            cluster=config.cluster_name,
            member=self._member.name,
            address=self.address,
            persistence=config.data_directory is not None,
        )

    async def _usable(self) -> bool:
        """Wait until the member can be used; tell whether it is, or is to stop.

        Of several members it has joined, and may wait for its copies of the data.
        """
        while not self._member.ready:
            if self._member.ending:
                return False
            await asyncio.sleep(READY_LOOK_S)
        return True

    async def _listen(self) -> None:
        await self._choose_members_port()
        config = self._member.config
        wanted = [
            listener for listener in (config.rest, config.management, config.metrics) if listener
        ]
        if self._wan is not None:
            self._wan.prepare()
            wanted += [config.wan_listener] if config.wan_listener else []
        for listener in wanted:
            self._listeners.prepare(listener)
        if config.cluster is not None and config.cluster.tls is not None:
            # Before the members' server, which would complain of them seconds later.
            check_members_tls(config.cluster.tls)
        bound = await bind_in_time(wanted, lambda: self._stopping is not None)
        ports = {id(listener): sockets[0].getsockname()[1] for listener, sockets in bound}
        self.rest_port = ports.get(id(config.rest))
        self._follow_rest_port(bound)
        self.management_port = ports.get(id(config.management))
        self.metrics_port = ports.get(id(config.metrics))
        self.wan_port = ports.get(id(config.wan_listener))
        # Before the first request can ask for it.
        first = self.rest_port or self.management_port or 0
        self._member.address = shown_address(config, first)
        for listener, sockets in bound:
            await self._listeners.open(listener, sockets)

    async def _choose_members_port(self) -> None:
        """Take another members' port of the list when nobody named one and it is taken."""
        cluster = self._config.model.cluster
        if cluster is None:
            return
        self._claim = await claim_members_port(cluster, lambda: self._stopping is not None)
        if self._stopping is not None:
            raise GivenUpError
        if self._claim is not None and self._claim.port != cluster.port:
            self._make_at(self._claim.port)

    def _make_at(self, port: int) -> None:
        """Make the member again, which has begun nothing yet, for another members' port."""
        self._config = self._config.with_members_port(port)
        self._make()

    def _follow_rest_port(self, bound: BoundListeners) -> None:
        """Take the members' port that follows from a REST port that was counted up."""
        cluster, rest_port = self._config.model.cluster, self.rest_port
        if cluster is None or rest_port is None or not cluster.by_rest_ports:
            return
        port = rest_port + MEMBERS_PORT_OFFSET
        if port == cluster.port:
            return
        if self._stopping is not None:
            release(bound)
            raise GivenUpError
        self._make_at(port)
        for listener, _ in bound:
            self._listeners.prepare(listener)

    async def _watch(self) -> None:
        await self._member.wait_for_stop()
        self._begin_stop()

    def _begin_stop(self) -> None:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        if self._starting is not None:
            await self._wait_either(self._listening.wait(), self._starting)
        event(_log, logging.INFO, "stopping")
        self._member.engine.end_waiting()
        if self._wan is not None:
            draining = asyncio.create_task(self._wan.drain())
            await self._wait_either(self._hurry_request.wait(), draining)
            draining.cancel()
            await self._wan.stop()
        # Left alone when it is given up: when the disk answers at last the data is released.
        engine = asyncio.create_task(self._stop_engine())
        await self._wait_either(self._hurry_request.wait(), engine, timeout_s=DISK_GRACE_S)
        if not engine.done():
            self.hurry()
        await self._close_listeners()
        await asyncio.wait({engine}, timeout=HURRY_DISK_GRACE_S)
        self._member.management.log_levels.reset()
        if not engine.done():
            ready = self._starting is None or self._starting.done()
            problem = _UNCONFIRMED if ready else _NOT_STARTED
            event(_log, logging.ERROR, problem)
            self._give_up_request.set()
            raise StopError(problem)
        await engine
        if self._claim is not None:
            self._claim.release()
        event(_log, logging.INFO, "stopped")

    async def _close_listeners(self) -> None:
        if not self._hurry_request.is_set():
            closing = asyncio.create_task(self._listeners.close(STOP_GRACE_S))
            await self._wait_either(self._hurry_request.wait(), closing)
            # Two closings at once would wait for each other's requests.
            await end_tasks(closing)
        if self._hurry_request.is_set():
            # Without its connections the engine has nothing left to wait for.
            await self._listeners.close(HURRY_GRACE_S)

    async def _wait_either(
        self,
        waiting: Coroutine[None, None, object],
        work: asyncio.Task[None],
        timeout_s: float | None = None,
    ) -> None:
        """Return when one of both is over, or the time; the work goes on."""
        other = asyncio.create_task(waiting)
        try:
            await asyncio.wait(
                {other, work}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            other.cancel()

    async def _start_ended(self) -> bool:
        """Wait for the start, should it still run; tell whether the engine has to be stopped."""
        if self._starting is None:
            return False
        await asyncio.wait({self._starting})
        return not self._starting.cancelled() and self._starting.exception() is None

    async def _stop_engine(self) -> None:
        if await self._start_ended():
            interrupt = self._member.management.persistence.backups.interrupt
            interrupting = asyncio.create_task(interrupt())
            await self._wait_either(
                self._hurry_request.wait(), interrupting, timeout_s=BACKUP_GRACE_S
            )
            if not interrupting.done():
                interrupting.cancel()
                event(_log, logging.WARNING, "the backup does not end and is waited for no more")
            await self._member.stop()


def _plain_version(full: str) -> str:
    parts = [
        "".join(c for c in part if c.isdigit()) or "0" for part in full.split("+")[0].split(".")
    ]
    return ".".join([*parts, "0", "0"][:3])
