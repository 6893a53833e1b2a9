"""When a log is replaced by a snapshot, and by whom: any member may, one normally does.

Each member counts what it was fed. When that is much more than what lives it asks the servers how
large the log is, for another member may have been faster. Whose server leads the log goes first;
the others only when it does not within a while. Whether the snapshot is there still is looked at,
too, also while nothing is written: who knows the state writes the snapshot that was lost, or of
which only one before is left.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.jetstream.snapshots import (
    OtherLogError,
    OvertakenError,
    SnapshotWriter,
    StoredSnapshots,
    look_at,
    purge,
)
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from grid_member.engine.jetstream.snapshots import SnapshotEnd
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.snapshot import Snapshot

SLACK_BYTES = 64 * 1024 * 1024
"""A log that is smaller is left alone, whatever lives. Not final, which compiled modules would have
by value: the bench runs members to which another one is given."""
GARBAGE: Final = 2
"""How many times as large as what lives a log may become."""
RECORD_BYTES: Final = 64
"""What a record takes in a stream beside its payload, about."""
RETRY_S: Final = 2.0
"""Seconds until a look or a snapshot that failed is tried again."""
BUSY_S: Final = 12.0
"""How long a snapshot may rest before another one is begun: a bit more than an acknowledgement."""
CHECK_S: Final = 15.0
"""Seconds between two looks at a snapshot that is not to be replaced."""
OTHERS_S: Final = 20.0
"""How much later those members try whose servers do not lead the log."""
_log: Final = logging.getLogger("grid.engine.nats")


class Compactor:
    """Keeps one log about as small as its state. For the thread of the event loop."""

    def __init__(
        self, client: NatsClient, stream: str, own_server: Callable[[], str | None]
    ) -> None:
        """Begin nothing; own_server names the member's own server, None: that is of no matter."""
        self.snapshots = 0
        """Snapshots that this member made."""
        self._client = client
        self._stream = stream
        self._own_server = own_server
        self._log_bytes = 0
        self._live_bytes = 0
        self._not_before_s = 0.0
        self._check_s = 0.0
        self._waited = False
        """Whether whoever leads the log was given its time."""
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._snapshots: StoredSnapshots | None = None
        """What a snapshot may be written behind, once it was found that one is due."""
        self._least = 0
        """Where a snapshot has to be taken at least: what is before it was purged."""
        self._seen: tuple[int, float] | None = None
        """The last message of the snapshots that was found, and when first."""
        self._other: SnapshotEnd | None = None
        """The last snapshot that was found to be of another log."""

    def count(self, log_bytes: int) -> None:
        """Hear how large the log is."""
        self._log_bytes = log_bytes

    def count_record(self, size_bytes: int) -> None:
        """Hear of a record's size."""
        self._log_bytes += size_bytes + RECORD_BYTES

    def wants(self, live_bytes: int) -> bool:
        """Tell whether a snapshot is to be stored now; go and find out whether one is due."""
        self._live_bytes = live_bytes
        if self._task is not None or self._closed:
            return False
        if self._snapshots is not None:
            return True
        large = self._log_bytes > self._limit_bytes
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._not_before_s and (large or now_s >= self._check_s):
            self._check_s = now_s + CHECK_S
            self._begin(self._look)
        return False

    def store(self, snapshot: Snapshot, log_ms: int | None = None) -> None:
        """Write the snapshot, which is wanted; log_ms is that of its `SnapshotEnd`."""
        held, self._snapshots = self._snapshots, None
        end = None if held is None or held.end == self._other else held.end
        old = end is not None and snapshot.sequence <= end.log
        if held is None or old or snapshot.sequence < self._least:
            self._rest(RETRY_S)  # this member does not know yet what the snapshot holds
            return
        before_bytes, self._log_bytes = self._log_bytes, 0
        self._begin(lambda: self._write(snapshot, log_ms, held, before_bytes))

    async def close(self) -> None:
        """End whatever is going on."""
        self._closed = True
        await end_tasks(self._task)

    @property
    def _limit_bytes(self) -> int:
        return max(SLACK_BYTES, GARBAGE * self._live_bytes)

    def _begin(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._try(work))
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            task.get_loop().call_exception_handler(
                {"message": "a snapshot was not written", "exception": error}
            )
            self._rest(RETRY_S)

    async def _try(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            await work()
        except OvertakenError as error:
            _log.debug("no snapshot of %s: %s", self._stream, error)
            self._rest(RETRY_S)
        except (EngineError, NatsError, KeyError, ValueError) as error:
            _log.info("no snapshot of %s: %s", self._stream, error)
            self._rest(RETRY_S)

    async def _look(self) -> None:
        """Find out whether a snapshot is due and this member is to make it."""
        info = await ask_successfully(self._client, f"STREAM.INFO.{self._stream}")
        held = await look_at(self._client, self._stream)
        # Asked for before the snapshot was: what comes meanwhile makes no log begin earlier.
        first, end = info["state"]["first_seq"], held.end
        lost = first > (0 if end is None else end.log) + 1
        other = False
        if end is not None and (first <= end.log or held.first < end.first):
            # Whoever made the snapshot has not come to this yet, or never will.
            other = not await self._purge(end)
            info = await ask_successfully(self._client, f"STREAM.INFO.{self._stream}")
        self._log_bytes = info["state"]["bytes"]
        self._least = info["state"]["first_seq"] - 1
        under_way = self._under_way(held)
        if lost:
            _log.error("the last snapshot of %s was lost by all servers", self._stream)
        if other or lost:
            if under_way:  # members that all write at once overtake each other for ever
                self._rest(BUSY_S)
            else:
                self._snapshots = held
        elif self._log_bytes <= self._limit_bytes:
            self._waited = False
        elif not self._waited and not self._leads(info):
            self._waited = True
            self._rest(OTHERS_S)
        elif under_way:
            self._rest(BUSY_S)
        else:
            self._snapshots = held

    async def _purge(self, end: SnapshotEnd) -> bool:
        """Purge what a snapshot replaces; return whether it is of the log that is there."""
        try:
            await purge(self._client, self._stream, end)
        except OtherLogError as error:
            if self._other != end:
                _log.error("%s, which is of another log: it is written anew", error)
            self._other = end
            return False
        return True

    def _under_way(self, held: StoredSnapshots) -> bool:
        """Tell whether somebody seems to write a snapshot behind the last one that is complete."""
        now_s = asyncio.get_running_loop().time()
        if self._seen is None or self._seen[0] != held.last:
            self._seen = held.last, now_s
        # Clocks of servers differ: what the one before stored may be in the future for long.
        quiet_s = max(held.quiet_s, now_s - self._seen[1])
        return quiet_s < BUSY_S and (held.end is None or held.last > held.end.place)

    def _leads(self, info: dict[str, dict[str, object]]) -> bool:
        own, leader = self._own_server(), info.get("cluster", {}).get("leader")
        return own is None or leader is None or own == leader

    async def _write(
        self, snapshot: Snapshot, log_ms: int | None, held: StoredSnapshots, before_bytes: int
    ) -> None:
        complete = False
        try:
            await SnapshotWriter(self._client, self._stream, held).write(snapshot, log_ms)
            complete = True
        finally:
            if not complete:
                self._log_bytes += before_bytes
        self.snapshots += 1
        self._waited = False
        _log.info("the log %s is replaced by a snapshot up to %d", self._stream, snapshot.sequence)

    def _rest(self, seconds: float) -> None:
        self._not_before_s = asyncio.get_running_loop().time() + seconds
