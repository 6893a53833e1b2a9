"""How far a member has read the logs that are on disks: what tells an emptied one from a new one.

    DIRECTORY/cluster/reached.json    of each log its last record and this member's own last one

A log that all servers lost begins anew under its name, and servers may elect who leads it: to them
nothing is missing. Each member that lives knows better. Its records are in every log that it has
begun with, and nobody but the servers that vote can lose them: as long as those all vote still, a
log, or its last image, in which they are not is damaged. When servers were taken off since, as for
a rescue, a log may lack what only they had.

A member that has never read a log asks the others, before it takes one for new that knows nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from grid_member.engine.api import EngineError
from grid_member.engine.files import replace_file
from grid_member.engine.nats.errors import NatsError, ShortError
from grid_member.engine.nats.peers import peer_id, peers
from grid_member.engine.store import CLUSTER
from grid_member.engine.store_errors import damaged, newer, unusable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.streams import Stream
    from grid_member.engine.nats.wire import Message
    from grid_member.engine.state import State

Check: TypeAlias = "Callable[[Callable[[], State]], Awaitable[None]]"
"""Looks at a log that was read, given what returns its state."""
REACHED_FORMAT: Final = 1
"""Counts changes of the layout that an older program must not touch."""
REACHED_FILE: Final = "reached.json"
NOTE_S: Final = 60.0
"""How often it is noted how far the logs are."""
BEGUN_S: Final = 0.2
"""How often it is looked whether all logs have a record of this start: then it is noted first."""
RETRY_S: Final = 2.0
"""Until it is tried again when nobody tells which servers vote."""
ANSWER_S: Final = 0.5
"""How long others may take to tell how far they have read."""
SUBJECT: Final = b"grid.reached"
"""What they are asked with, in the account of the system."""
_log: Final = logging.getLogger("grid.engine.nats")


class Mark(NamedTuple):
    """How far a log was read."""

    own: tuple[int, int]
    """Incarnation and counter of this member's own last record."""
    sequence: int
    """Of the last record."""
    servers: frozenset[str]
    """The ids of those that voted."""


class _Log(NamedTuple):
    """A log that was read."""

    member: bytes
    state: Callable[[], State]
    own: tuple[int, int]
    """The member's last record in it then."""


class Reached:
    """Looks at each log that is read, and notes how far they are while the member lives."""

    def __init__(self, directory: Path | None, *, alone: bool = False) -> None:
        """Know nothing yet.

        Args:
            directory: of the member; without one nothing is on disks.
            alone: whether there is one server only, which votes with nobody.
        """
        self._alone = alone
        self._path = None if directory is None else directory / CLUSTER / REACHED_FILE
        self._system: NatsClient | None = None
        self._server = ""
        """The id of the own server."""
        self._noting: asyncio.Task[None] | None = None
        self._marks: dict[str, Mark] | None = None
        """By logs; None before they were read."""
        self._read: dict[str, _Log] = {}
        self._servers: frozenset[str] | None = None
        """Those that voted when somebody told last."""
        self._writing: asyncio.Future[None] | None = None

    def begin(self, system: NatsClient, own: str) -> None:
        """Note from now on how far the logs are that were read, and tell it whoever asks.

        Args:
            system: a connection in the account of the system.
            own: the name of the own server.
        """
        self._system, self._server = system, peer_id(own)
        if self._path is not None:
            system.subscribe(SUBJECT, self._answer)
            self._noting = asyncio.get_running_loop().create_task(self._keep(system))

    async def end(self) -> None:
        """Note how far the logs are that are closed."""
        noting, self._noting = self._noting, None
        if noting is None:
            return
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
        if self._writing is not None:
            await asyncio.wait([self._writing])  # a thread ends what it began
        if self._servers is not None:
            with contextlib.suppress(OSError):
                await self._note(self._servers)

    async def check(self, stream: Stream, member: bytes, state: Callable[[], State]) -> None:
        """See that a log that was read holds what this member has read in it before.

        Args:
            stream: the log's.
            member: this member's UUID, 16 bytes.
            state: returns what was read, and all that is applied later.

        Raises:
            ShortError: it lacks some of that.
            NatsError: the same, or nobody tells.
            EngineError: what was noted cannot be read.
        """
        system = self._system
        if self._path is None or system is None or not stream.durable:
            return
        known, own = (await self._known(self._path)).get(stream.name), _own(state(), member)
        if known is not None and own < known.own:
            if known.servers <= await self._voting(system):
                raise ShortError(stream.name, known.sequence)
            _log.warning(
                "%s ends before record %d, which this member has read: servers that had it were "
                "taken off since",
                *(stream.name, known.sequence),
            )
        if known is None and not state().members:
            told = await self._told(system, stream.name)
            if told > state().sequence:
                raise ShortError(stream.name, told)
        self._read[stream.name] = _Log(member, state, own)

    async def _voting(self, system: NatsClient) -> frozenset[str]:
        """Return the ids of the servers that vote; raises NatsError: nobody tells."""
        return frozenset({self._server}) if self._alone else (await peers(system)).ids

    async def _known(self, path: Path) -> dict[str, Mark]:
        if self._marks is None:
            self._marks = await asyncio.to_thread(_marks_in, path)
        return self._marks

    async def _told(self, system: NatsClient, name: str) -> int:
        """Return the last record of a log that was read by members that are there.

        Those that do not tell in time are left out. Raises NatsError: nobody tells who votes.
        """
        ids, last, complete = await self._voting(system), 0, asyncio.Event()
        waited = set(ids)

        def take(messages: Sequence[Message]) -> None:
            nonlocal last
            for message in messages:
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    said = json.loads(message.payload)
                    waited.discard(said["server"])
                    mark = _marks_of(said["logs"]).get(name)
                    if mark is not None and mark.servers <= ids:
                        last = max(last, mark.sequence)
            if not waited:
                complete.set()

        inbox = system.unused_inbox()
        subscription = system.subscribe(inbox, take)
        try:
            system.publish(SUBJECT, b"", inbox)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(complete.wait(), ANSWER_S)
        finally:
            subscription.unsubscribe()
        return last

    def _answer(self, messages: Sequence[Message]) -> None:
        said = json.dumps({"server": self._server, "logs": _fields(self._marks or {})}).encode()
        for message in messages:
            if message.reply and self._system is not None:
                self._system.publish(message.reply, said)

    async def _keep(self, system: NatsClient) -> None:
        if self._path is not None:
            with contextlib.suppress(EngineError):  # which whoever reads a log is told
                await self._known(self._path)
        pause_s = BEGUN_S
        while True:
            await asyncio.sleep(pause_s)
            if not self._begun:
                continue
            pause_s = NOTE_S
            try:
                self._servers = await self._voting(system)
                await self._note(self._servers)
            except OSError as error:
                _log.warning("%s cannot be written: %s", self._path, error.strerror)
            except (NatsError, ValueError, KeyError, TypeError, AttributeError) as error:
                _log.debug("it is not noted how far the logs are: %r", error)
                pause_s = RETRY_S

    @property
    def _begun(self) -> bool:
        """Whether each log that was read has got a record of this start."""
        logs = self._read.values()
        return bool(logs) and all(_own(log.state(), log.member) > log.own for log in logs)

    async def _note(self, servers: frozenset[str]) -> None:
        """Note how far each log is that was read; raises OSError."""
        marks = dict(self._marks or {})
        for name, log in self._read.items():
            state, former = log.state(), marks.get(name)
            mark = Mark(_own(state, log.member), state.sequence, servers)
            # One that lost records in place is to be found short at the next start, too.
            if former is None or former.own <= mark.own or not former.servers <= servers:
                marks[name] = mark
        if marks != self._marks and self._path is not None:
            written = asyncio.to_thread(replace_file, self._path, _packed(marks))
            self._writing = asyncio.ensure_future(written)
            await asyncio.shield(self._writing)
            self._marks = marks


def _own(state: State, member: bytes) -> tuple[int, int]:
    mark = state.members.get(member)
    return (0, 0) if mark is None else (mark.incarnation, mark.counter)


def _packed(marks: dict[str, Mark]) -> str:
    return json.dumps({"format": REACHED_FORMAT, "logs": _fields(marks)})


def _fields(marks: dict[str, Mark]) -> dict[str, Any]:
    return {
        name: {
            "incarnation": mark.own[0],
            "counter": mark.own[1],
            "sequence": mark.sequence,
            "servers": sorted(mark.servers),
        }
        for name, mark in marks.items()
    }


def _marks_in(path: Path) -> dict[str, Mark]:
    """Return what was noted, nothing when that is a former version's directory. Blocks."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unusable("the file", path, error) from error
    except ValueError:
        raise damaged(str(path), "it is not what a grid-member writes") from None
    try:
        if content["format"] != REACHED_FORMAT:
            raise newer(str(path), content["format"], REACHED_FORMAT)
        return _marks_of(content["logs"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged(str(path), "it is not what a grid-member writes") from None


def _marks_of(fields: dict[str, Any]) -> dict[str, Mark]:
    return {
        name: Mark(
            (int(one["incarnation"]), int(one["counter"])),
            int(one["sequence"]),
            frozenset(map(str, one["servers"])),
        )
        for name, one in fields.items()
    }
