"""Logs in memory that servers lost: what this member tells of them, and does about them.

    following ─▶ it lacks something, or another member says so ─▶ left: nothing is taken or sent
    ─▶ all members report ─▶ one of them writes it back ─▶ read anew, in a later generation

See ADR 0048. Which state counts is decided in `survivors`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.jetstream.mismatch import give_up_lost
from grid_member.engine.jetstream.snapshots import OvertakenError
from grid_member.engine.local.system import ignore
from grid_member.engine.lost_memory.logs import MemoryLogs, log_now
from grid_member.engine.lost_memory.own_copies import Leaders, has_complete_copies, leader_of
from grid_member.engine.lost_memory.roundup import Connections, Newcomer, Roundup
from grid_member.engine.lost_memory.survivors import (
    LogAction,
    MemoryReport,
    decide,
    describe_decisions,
    is_everything_lost,
    is_lost,
    is_lost_for_good,
    is_majority,
    is_majority_gone,
    is_roundup_complete,
    missing,
)
from grid_member.engine.lost_memory.write_back import write_back
from grid_member.engine.nats.admin.peer_removal import lead_without_lost
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.server_records import own_record
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError, describe_unexpected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.lost_memory.logs import MemoryShard
    from grid_member.engine.nats.admin.server_records import ServerRecord
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.blocking import BlockingClient
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.machine import State

LOOK_S: Final = 0.25
"""How often it is looked whether something is to be done."""
REPORTING_MEMBERS_ANSWER_S: Final = 1.0
"""How long others may take to report: those that do not are missing."""
FIRST_LOOK_S: Final = 0.5
"""How often it is looked whether the own copies are complete, until they are."""
LATE_LOOK_S: Final = 3.0
"""How often it is looked whether logs are still the same that confirm nothing."""
QUIET_S: Final = 3.0
"""A log that confirms nothing for so long may have been made anew."""
UNFIT_LOOKS: Final = 15
"""Trials to read a log that this member follows, of which none found a snapshot that fits."""
READ_S: Final = 10.0
"""How long a log that was written back may take to be read, before it counts as lost again. Twice
as long each time, up to eight times: on a busy machine it would be replaced while it is read."""
ABSENT_S: Final = 3.0
"""How long members have after a server was started again until they count as out of sight."""
COLLECT_S: Final = 10.0
"""How long the rest of the list has to come, once most are there in the places of others."""
_log: Final = logging.getLogger("grid.engine.nats")


class LostMemory:
    """Looks after the logs of one member of a cluster that keeps everything in memory."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Look after nothing yet."""
        self.guards = settings.directory is None and not settings.alone
        """Whether there is anything to look after: logs on disks are not."""
        self.report: str | None = None
        """What is waited for, and what to do; None: nothing."""
        self._settings = settings
        self._copies = min(settings.copies, len(settings.members))
        self._connection: Connections | None = None
        self._newcomer: Newcomer | None = None
        self._running: asyncio.Task[None] | None = None
        self._own = ""
        """The id of the own server."""
        self._place: ServerRecord | None = None
        self._whole = self._held = False
        """`_held`: the own server keeps no streams yet."""
        self._most_since_s: float | None = None
        """Since when most of the list report while it is held back."""
        self._look_s = 0.0
        self._logs = MemoryLogs()
        self._unheld: set[str] = set()
        """Logs that no member holds, as far as members told."""
        self._unfit, self._written = Counter[str](), Counter[str]()
        self._not_before_s: dict[str, float] = {}
        """When a log may be written back once more, by its name."""
        self._leaders = Leaders()

    def begin(self, client: NatsClient, system: NatsClient, server_name: str) -> None:
        """Report to whoever asks, and do what is to be done, from now on."""
        if self.guards:
            self._own = peer_id(server_name)
            roundup = Roundup(system, self._logs.leave, self._report)
            self._connection = Connections(client, system, server_name, roundup)
            self._newcomer = Newcomer(client, roundup, len(self._settings.members))
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Do nothing more, and tell the others that what this member holds is gone with it."""
        running, self._running = self._running, None
        if running is None or self._connection is None:
            return
        await end_tasks(running)
        self._connection.roundup.end(self._own)

    def attach(self, stream: Stream, shard: MemoryShard) -> None:
        """Look after a shard with data from when its log is read."""
        if self.guards:
            self._logs.shards[stream.name] = stream, shard

    def forget(self, stream: Stream) -> None:
        """Look no more after a shard that was given up."""
        self._logs.forget(stream.name)

    def give_up(self, client: BlockingClient, stream: str) -> None:
        """Begin a log anew that lacks something only if nobody holds it. Blocks, on a thread."""
        if not self.guards or stream in self._unheld:
            give_up_lost(client, stream)
            return
        self._unfit[stream] += 1
        raise OvertakenError(f"{stream} lacks what is before its begin, or its end")

    def note_start(self, stream: Stream) -> None:
        """Hear that a shard takes records from now on: it may have to leave the log at once."""
        if stream.name in self._logs.shards and self._logs.has_left(stream.name):
            self._logs.shards[stream.name][1].halt()

    async def readable(self, stream: Stream) -> None:
        """Return when it makes sense to read a log.

        Raises:
            NatsError: it is one that all leave, or nobody leads it.
        """
        name, connection = stream.name, self._connection
        if not self.guards or connection is None:
            return
        if name not in self._logs.logs:
            if self._unfit[name]:
                reports = await connection.roundup.ask({}, REPORTING_MEMBERS_ANSWER_S)
                held = any(name in one.holdings for one in reports.values())
                (self._unheld.discard if held else self._unheld.add)(name)
            return
        self._unheld.discard(name)
        if self._logs.has_left(name):
            self._logs.check_later(name, await log_now(connection.client, name))
        elif self._unfit[name] >= UNFIT_LOOKS:
            self._logs.condemn(name, "its image does not fit")

    async def check(
        self, stream: Stream, created: str, read: State, current: Callable[[], State]
    ) -> None:
        """See that a log that was read has all that living members hold of it.

        Raises:
            NatsError: it has not, or nobody tells.
        """
        name, connection, logs = stream.name, self._connection, self._logs
        if not self.guards or connection is None or name not in logs.shards:
            return
        log = await log_now(connection.client, name)
        if log.created != created:
            raise NatsError(f"{name} became another log while it was read")
        if name in logs.logs:
            logs.check(name, log, read)
        elif self._newcomer is not None:
            await self._newcomer.check(name, log)
        logs.follow(name, log, current)
        for forgotten in (self._unfit, self._not_before_s, self._written):
            forgotten.pop(name, None)
        self._leaders.forget(name)

    async def creation_obstacle(self, stream: Stream) -> str | None:
        """Return why this member is not to make a stream that is not there; None: it may."""
        log = stream.log.name
        goes_on = log in self._logs.logs and not self._logs.has_left(log)
        if self._newcomer is None or goes_on:
            return None
        return await self._newcomer.creation_obstacle(stream)

    @property
    def holding(self) -> Callable[[], Awaitable[bool]] | None:
        """What a server is held back by that is started again; None: nothing."""
        return self._hold if self.guards and not self._settings.lite else None

    async def _hold(self) -> bool:
        """Return when a server that lost what it had may keep logs again: never while it ends.

        Returns:
            Whether the server begins as a new one does, without knowing which servers vote.
        """
        forgets: bool | None = None
        died_s, self._most_since_s = asyncio.get_running_loop().time(), None
        self._whole, self._held = False, True
        while forgets is None and self._connection is not None:
            try:
                forgets = await self._may_release(died_s)
            except NatsError as error:
                _log.debug("nothing is known of the logs: %s", error)
            except Exception as error:
                _log.error("the logs cannot be looked at: %s", describe_unexpected(error))
            if forgets is None:
                await asyncio.sleep(LOOK_S)
        self._held = False
        return bool(forgets)

    async def _may_release(self, died_s: float) -> bool | None:
        """Return whether a server that may keep logs again forgets who votes; None: not yet.

        Servers that know nothing elect a leader only when all of the list are there, so the member
        waits for them: `COLLECT_S` from when most are there.
        """
        connection, size = self._connection, len(self._settings.members)
        reports = await self._round()
        if connection is None or self._running is None or not await self._sound(died_s, reports):
            return None
        if not is_everything_lost(reports.values()):
            return False
        left = self._logs.condemnations
        reports = await connection.roundup.ask(
            left, REPORTING_MEMBERS_ANSWER_S, lambda told: len(told) >= size
        )
        told = reports.values()
        if len(told) >= size and is_everything_lost(told):
            return True
        if not is_majority(told, size):
            return None
        now_s = asyncio.get_running_loop().time()
        self._most_since_s = self._most_since_s or now_s
        return False if now_s - self._most_since_s > COLLECT_S else None

    async def _sound(self, died_s: float, reports: Mapping[str, MemoryReport]) -> bool:
        """Tell whether each log goes on without the own server, or is left by all."""
        absent = missing(reports.values())
        lost = is_lost(reports.values(), self._copies)
        left = self._logs.left
        doubtful = [
            name
            for name in self._logs.logs
            if name not in left and not await self._is_alive(name, died_s, reports, lost=lost)
        ]
        if not self._logs.logs:
            held = (one for report in reports.values() for one in report.holdings.values())
            return not lost or all(one.left for one in held)
        late = asyncio.get_running_loop().time() - died_s > ABSENT_S
        for name in doubtful if lost and (late or not absent) else ():
            self._logs.condemn(name, "too many servers were started again")
        verdicts = (decide(name, self._own, reports.values()) for name in left)
        return not doubtful and all(
            one.act in {LogAction.READ, LogAction.WRITE} for one in verdicts
        )

    async def _is_alive(
        self, name: str, died_s: float, reports: Mapping[str, MemoryReport], *, lost: bool
    ) -> bool:
        """Tell whether the copies of a log without the own server are all that is needed.

        So it is when its leader is complete, and has led since before that server ended. Or when
        the copies confirmed a record since, and are enough.
        """
        shard, connection = self._logs.shards[name][1], self._connection
        if shard.confirmed_s > died_s and not lost:
            return True
        shard.read_when_current(ignore)
        if connection is None:
            return False
        with contextlib.suppress(NatsError, KeyError, TypeError, ValueError):
            leader, led_s = leader_of(
                await ask_successfully(connection.client, f"STREAM.INFO.{name}")
            )
            whole = leader in reports and reports[leader].whole
            return whole and led_s > asyncio.get_running_loop().time() - died_s + 1
        return False

    async def _run(self) -> None:
        self._place = await asyncio.to_thread(own_record, self._settings)
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if left := self._logs.left:
                    await self._mend(left)
                else:
                    self.report = None
                    await self._look()
            except (NatsError, KeyError) as error:
                _log.debug("a log that was lost is not written back yet: %s", error)
            except Exception as error:
                _log.error(
                    "a log that was lost is not written back: %s", describe_unexpected(error)
                )

    async def _mend(self, left: Sequence[str]) -> None:
        """Do what this member is to do about the logs that it has left."""
        reports = await self._round()
        verdicts = {name: decide(name, self._own, reports.values()) for name in left}
        told = describe_decisions(verdicts)
        if told != self.report:
            _log.warning("%s", told)
        self.report = told
        due = {name: one for name, one in verdicts.items() if one.act is LogAction.WRITE}
        if due and not self._held:
            await self._rescue(reports)
        writing = (self._write(name, one.generation + 1) for name, one in due.items())
        errors = list(filter(None, await asyncio.gather(*writing, return_exceptions=True)))
        for error in sorted(errors, key=lambda one: isinstance(one, NatsError)):
            raise error

    async def _rescue(self, reports: Mapping[str, MemoryReport]) -> None:
        """Have servers lead without those of members that are gone, which were most of them."""
        connection, size = self._connection, len(self._settings.members)
        if connection is not None and is_majority_gone(reports.values(), size):
            servers = connection.system, connection.client
            await lead_without_lost(*servers, list(self._logs.shards), size)

    async def _write(self, name: str, generation: int) -> None:
        """Write a log back, unless there is one that some member may follow: that is left first."""
        (stream, shard), log = self._logs.shards[name], self._logs.logs[name].log
        connection, now_s = self._connection, asyncio.get_running_loop().time()
        if connection is None or self._held or now_s < self._not_before_s.get(name, 0.0):
            return
        there = await self._leaders.creation_time(connection.client, name)
        if there is None and not self._leaders.is_leaderless(name):
            return  # else it is taken to be the one left
        if there and there not in self._logs.condemnations[name]:
            self._logs.leave(name, there)
            return
        snapshot, self._not_before_s[name] = shard.state.snapshot(), now_s
        await write_back(
            connection.client, self._settings, stream, snapshot, log.metadata, generation
        )
        read_s = READ_S * 2 ** min(self._written[name], 3)
        self._not_before_s[name] = asyncio.get_running_loop().time() + read_s
        self._written[name] += 1
        _log.warning(
            "the log %s, which servers lost, is written back as of record %d",
            name,
            snapshot.sequence,
        )

    async def _look(self) -> None:
        """See whether the own copies are complete, and whether logs are still there."""
        now_s, connection = asyncio.get_running_loop().time(), self._connection
        logs = self._logs
        if self._held or now_s < self._look_s or connection is None or not logs.shards:
            return
        self._look_s = now_s + (LATE_LOOK_S if self._whole else FIRST_LOOK_S)
        await self._look_at(
            connection,
            [one for one in logs.logs if now_s - logs.shards[one][1].confirmed_s >= QUIET_S],
        )
        if not self._whole:
            streams = [stream for stream, _ in logs.shards.values()]
            names = [one.name for stream in streams for one in (stream, stream.snapshots)]
            self._whole = await has_complete_copies(
                connection.client, connection.system, connection.server, names
            )

    async def _look_at(self, connection: Connections, quiet: Sequence[str]) -> None:
        """See whether logs that confirm nothing are still there, with enough copies to go on."""
        logs, leaders = self._logs, self._leaders
        former = {name: logs.logs[name].log.created for name in quiet}
        found = await asyncio.gather(
            *(leaders.creation_time(connection.client, name) for name in quiet)
        )
        for name, created in zip(quiet, found, strict=True):
            if created is not None and created != former[name] == logs.logs[name].log.created:
                logs.condemn(name, "it was deleted, or made anew")
        missed = [name for name in quiet if leaders.is_leaderless(name)]
        reports = await self._round() if missed else {}
        if is_lost_for_good(reports.values(), self._copies, len(self._settings.members)):
            for name in missed:
                logs.condemn(name, "too many members ended that had copies of it")

    async def _round(self) -> dict[str, MemoryReport]:
        """Have all members leave what is left, and return what they tell."""
        if self._connection is None:
            return {}
        return await self._connection.roundup.ask(
            self._logs.condemnations, REPORTING_MEMBERS_ANSWER_S, is_roundup_complete
        )

    def _report(self) -> MemoryReport | None:
        """Return what this member tells of itself now."""
        if self._place is None or self._connection is None:
            return None
        gone = frozenset(self._connection.roundup.stopped_servers)
        held = self._logs.holdings(), self._logs.servers(), gone
        return MemoryReport(self._own, self._place, self._whole, *held)
