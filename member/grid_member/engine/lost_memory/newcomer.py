"""What a member that starts asks the others before it makes or takes a log in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.lost_memory.survivors import is_followed, start_obstacle
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.lost_memory.logs import LogVersion
    from grid_member.engine.lost_memory.roundup import Roundup
    from grid_member.engine.lost_memory.survivors import MemoryReport
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient

ANSWER_S: Final = 0.3
"""How long the other members may take to report; none has to answer."""
PATIENCE_S: Final = 10.0
"""How long a start waits for members that do not report, while no member holds a log."""


class Newcomer:
    """A member that has not read its logs yet."""

    def __init__(self, client: NatsClient, roundup: Roundup, size: int) -> None:
        """Ask nothing yet; the list has that many members."""
        self._client = client
        self._roundup = roundup
        self._size = size
        self._read_logs: set[str] = set()
        """Logs that a member told that it holds."""
        self._patient_until_s: float | None = None

    async def creation_obstacle(self, stream: Stream) -> str | None:
        """Return why this member is not to make a stream; None: no member writes its log back.

        One that does would have to delete first what others make meanwhile. Snapshots are missing
        alone beside a log that goes on: then whoever comes first makes their stream.
        """
        log = stream.log.name

        def is_kept(reports: Iterable[MemoryReport]) -> bool:
            held = (one.holdings[log] for one in reports if log in one.holdings)
            return any(one.left or not stream.is_snapshot_stream for one in held)

        reports = await self._roundup.ask(
            {},
            ANSWER_S,
            lambda told: len(told) >= self._size or is_kept(told.values()),
        )
        if is_kept(reports.values()):
            return f"{stream.name} is to be written back by a member that holds the log"
        return None

    async def check(self, name: str, log: LogVersion) -> None:
        """See that no other member has more than a log which this one has read.

        Raises:
            NatsError: one has, or the members do not tell yet.
        """
        now_s, as_read = asyncio.get_running_loop().time(), (log.created, log.generation)
        reports = await self._roundup.ask(
            {},
            ANSWER_S,
            lambda told: is_followed(name, log.created, told.values()) or len(told) >= self._size,
        )
        if self._patient_until_s is None:
            self._patient_until_s = now_s + PATIENCE_S
        info = await ask_successfully(self._client, f"STREAM.INFO.{name}")
        if any(name in one.holdings for one in reports.values()):
            self._read_logs.add(name)
        # Those of a former version never report; one that was heard of does.
        late = now_s >= self._patient_until_s and name not in self._read_logs
        all_told = len(reports) >= self._size or late
        last = int(info["state"]["last_seq"])
        obstacle = start_obstacle(name, as_read, last, reports.values(), all_told=all_told)
        if obstacle is not None:
            raise NatsError(obstacle)
