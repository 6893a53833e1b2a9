"""Telling all members which logs in memory to leave, and hearing what each of them holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grid_member.engine.lost_memory.survivors import decode_report, is_followed, start_obstacle
from grid_member.engine.nats.admin.questions import answer_each, ask_all
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from grid_member.engine.lost_memory.logs import LogVersion
    from grid_member.engine.lost_memory.survivors import MemoryReport
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient

SUBJECT: Final = b"grid.memory"
"""What members are asked with, in the account of the system."""
ANSWER_TO_NEWCOMER_S: Final = 0.3
"""How long members may take to report to one that starts; none has to answer."""
PATIENCE_S: Final = 10.0
"""How long a start waits for members that do not report, while no member holds a log."""
Reports: TypeAlias = "Mapping[str, MemoryReport]"
"""By the ids of the members' servers."""
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)


class Roundup:
    """The questions of one member to all, and its answers to theirs."""

    def __init__(
        self,
        system: NatsClient,
        leave: Callable[[str, str], None],
        report: Callable[[], MemoryReport | None],
    ) -> None:
        """Answer from now on.

        Args:
            system: a connection in the account of the system.
            leave: is told the name of a log that is to be left, and when its stream was made.
            report: returns what this member tells of itself, None before it can.
        """
        self.stopped_servers: set[str] = set()
        """The servers of members that told that they stop."""
        self._system = system
        self._leave = leave
        self._report = report
        self._subscription = answer_each(system, SUBJECT, self._answer)

    def end(self, server: str) -> None:
        """Answer no more, and tell that the member with that server stops."""
        self._subscription.unsubscribe()
        with contextlib.suppress(NatsError):
            self._system.publish(SUBJECT, json.dumps({"gone": server}).encode())

    async def ask(
        self,
        left: Mapping[str, Iterable[str]],
        within_s: float,
        enough: Callable[[Reports], bool] = lambda _: False,
    ) -> dict[str, MemoryReport]:
        """Return the reports of all that answer in time, by their servers.

        Args:
            left: when the streams were made that they are to leave, by the names of the logs.
            within_s: how long they are waited for.
            enough: tells whether no further reports are waited for.
        """
        own = self._report()
        reports = {} if own is None else {own.server: own}

        def take(payload: bytes) -> bool:
            with contextlib.suppress(*_MALFORMED):
                told = decode_report(payload)
                reports[told.server] = told
            return enough(reports)

        said = {"leave": {name: sorted(made) for name, made in left.items()}}
        await ask_all(self._system, SUBJECT, json.dumps(said).encode(), within_s, take)
        return reports

    def _answer(self, said: bytes) -> bytes | None:
        """Leave what is to be left first, then report."""
        with contextlib.suppress(*_MALFORMED):
            told = json.loads(said)
            if "gone" in told:
                self.stopped_servers.add(str(told["gone"]))
            for name, made in told.get("leave", {}).items():
                for created in made:
                    self._leave(str(name), str(created))
        own = self._report()
        return None if own is None else own.encode()


class Connections(NamedTuple):
    """What a member talks to the servers and to the other members over, once it has a server."""

    client: NatsClient
    """In the account of the data."""
    system: NatsClient
    """In the account of the system."""
    server: str
    """The name of the own server."""
    roundup: Roundup


class Newcomer:
    """What a member that has not read its logs yet asks before it makes or takes one."""

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
            ANSWER_TO_NEWCOMER_S,
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
            ANSWER_TO_NEWCOMER_S,
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
