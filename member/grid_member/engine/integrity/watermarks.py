"""How far a member has read the logs that are on disks: what tells an emptied one from a new one.

A log that all servers lost begins anew under its name, and servers may elect who leads it: to them
nothing is missing. Each member that lives knows better. Its records are in every log that it has
begun with, and nobody but the servers that vote can lose them: as long as those all vote still, a
log, or its last snapshot, in which they are not is damaged. When servers were taken off since, as
for a rescue, a log may lack what only they had.

A member that knows nothing of a log that knows nobody asks the others before it takes it for new,
and so does one whose note is void as servers were taken off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import JETSTREAM
from grid_member.engine.integrity.read_progress import (
    ReadLog,
    encode_marks,
    fields_of,
    read_watermarks,
    watermarks_of,
)
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.io.files import replace_file
from grid_member.engine.io.store_errors import unusable_error
from grid_member.engine.nats.admin.peers import Peers, peer_id, peers
from grid_member.engine.nats.admin.questions import answer_each, ask_all
from grid_member.engine.nats.client.errors import NatsError, ShortError
from grid_member.engine.server.config import SYSTEM_ACCOUNT
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    import uuid
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.integrity.read_progress import Watermark
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.state.machine import State

Check: TypeAlias = "Callable[[str, State, Callable[[], State]], Awaitable[None]]"
"""Looks at what was read of a log: `Damage.check` of its stream."""
WATERMARK_FILE: Final = "reached.json"
NOTE_S: Final = 60.0
"""How often it is noted how far the logs are, at least."""
LOOK_S: Final = 5.0
"""How often it is asked who votes."""
BEGUN_S: Final = 0.2
"""How often it is looked whether all logs have a record of this start: then it is noted first."""
OTHER_MEMBERS_ANSWER_S: Final = 0.5
"""How long others may take to tell how far they have read."""
PATIENCE_S: Final = 10.0
"""How long, at one start, members are waited for that do not tell though their servers are there:
they may just be starting. Those of a former version never tell."""
LEAVE_S: Final = 0.5
"""How long a member that stops asks who votes."""
END_S: Final = 2.0
"""How long one that stops waits for its disk: its server is to be ended yet."""
SUBJECT: Final = b"grid.reached"
"""What they are asked with, in the account of the system."""
_log: Final = logging.getLogger("grid.engine.nats")


class Watermarks:
    """Looks at each log that is read, and notes how far they are while the member lives."""

    def __init__(self, directory: Path | None, *, alone: bool = False, lite: bool = False) -> None:
        """Know nothing yet but what the own server has noted: it must not have begun.

        Without a directory nothing is on disks. `alone` tells whether there is one server only,
        which votes with nobody: no group decides; `lite` whether the own server keeps nothing.
        """
        self._bare = directory is not None and not (alone or lite or _has_notes(directory))
        self._alone = alone
        self._path = None if directory is None else directory / CLUSTER / WATERMARK_FILE
        self._connection: tuple[NatsClient, MemberIdentity] | None = None
        self._answering: Subscription | None = None
        self._noting: asyncio.Task[None] | None = None
        self._watermarks: dict[str, Watermark] | None = None
        """By logs; None before they were read."""
        self._reading = asyncio.Lock()
        self._read: dict[str, ReadLog] = {}
        self._others: set[tuple[str, str]] = set()
        """Logs that are not those of the watermarks, as logged: names, and when they were made."""
        self._patient_until_s: float | None = None
        self._writing: asyncio.Future[None] | None = None
        self._failed = False
        """Whether the last note could not be written."""

    async def prepare(self, identity: MemberIdentity) -> None:
        """Read the watermarks, and note on disk what the own server lacks: before that one begins.

        It notes anew what the others know as soon as it does. A member that is killed then would
        not see at its next start that anything was gone.

        Raises:
            EngineError: what was noted cannot be read, or written.
        """
        if self._path is not None:
            await self._read_known(self._path, identity)

    def begin(self, system: NatsClient, identity: MemberIdentity) -> None:
        """Note from now on how far the logs are that were read, and tell it whoever asks.

        `system` is a connection in the account of the system.
        """
        if self._path is None:
            return
        self._connection = system, identity

        def answer(_: bytes) -> bytes | None:
            if self._watermarks is None:
                return None  # whoever asks waits for it
            own = peer_id(identity.server_name)
            return json.dumps({"server": own, "logs": fields_of(self._watermarks)}).encode()

        self._answering = answer_each(system, SUBJECT, answer)
        keeping = self._keep(system, identity, self._path)
        self._noting = asyncio.get_running_loop().create_task(keeping)

    async def end(self) -> None:
        """Note how far the logs are that are closed."""
        noting, self._noting = self._noting, None
        if noting is None or self._connection is None or self._path is None:
            return
        if self._answering is not None:
            self._answering.unsubscribe()
        await end_tasks(noting)
        system, identity = self._connection
        # When nobody tells any more, as all stop at once, those are it that were told last.
        with contextlib.suppress(NatsError, TimeoutError):
            voting = await asyncio.wait_for(self._voting(system, identity), LEAVE_S)
            self._note_votes(voting.ids)
        try:
            async with asyncio.timeout(END_S):
                if self._writing is not None:
                    await asyncio.wait([self._writing])  # a thread ends what it began
                await self._note(self._path, identity.uuid)
        except TimeoutError:
            _log.warning("%s is not written: its disk does not answer", self._path)

    def forget(self, stream: Stream) -> None:
        """Look no more after a log whose shard was given up: what was noted of it stays."""
        self._read.pop(stream.name, None)

    async def check(
        self, stream: Stream, created: str, read: State, current: Callable[[], State]
    ) -> None:
        """See that what was read of a log holds what this member has read of it before.

        Args:
            stream: the log's.
            created: when that was made, as servers told before it was read: what is read of one
                that is deleted meanwhile must not pass for what the next one held.
            read: what was read now.
            current: returns the state of its shard from when this returns on.

        Raises:
            ShortError: it lacks some of that.
            NatsError: the same, or nobody tells.
            EngineError: what was noted cannot be read.
        """
        if self._path is None or self._connection is None or not stream.durable:
            return
        system, identity = self._connection
        name, member = stream.name, identity.uuid
        noted = (await self._read_known(self._path, identity)).get(name)
        if noted is not None and not self._concerns(noted, name, created):
            noted = None
        former = self._read.get(name)
        if former is not None and former.created != created:
            former = None
        losses = _losses(read, member, noted, former)
        had = (former and former.former_voters) or (noted and noted.servers)
        if losses or had is None:
            had = await self._voters(system, identity, needed=bool(losses))
        for lost in losses:
            if lost.servers <= (had or frozenset()):
                raise ShortError(name, lost.sequence)
        if losses or (noted is None and not read.members):
            told = await self._ask_last(system, identity, name, created)
            if told > read.sequence:
                raise ShortError(name, told)
        if losses:
            _log.warning(
                "%s ends before record %d, which this member has read: servers that had it were "
                "taken off since",
                *(name, max(lost.sequence for lost in losses)),
            )
        self._read[name] = ReadLog(created, read, member, current, had)

    def _concerns(self, noted: Watermark, name: str, created: str) -> bool:
        """Tell whether a watermark is of the log that was made then; tell once that it is not."""
        if noted.created == created or noted.bare:
            return True
        if (name, created) not in self._others:
            level = logging.INFO if self._others else logging.ERROR  # the others are as well
            self._others.add((name, created))
            _log.log(
                level,
                "%s is not the log that this member has read up to record %d: it was deleted and "
                "made anew since, as by forceStart",
                *(name, noted.sequence),
            )
        return False

    async def _voters(
        self, system: NatsClient, identity: MemberIdentity, *, needed: bool
    ) -> frozenset[str] | None:
        """Return the servers that vote; None, or NatsError when it is needed: nobody tells."""
        try:
            return (await self._voting(system, identity)).ids
        except NatsError:
            if needed:
                raise
            return None

    async def _voting(self, system: NatsClient, identity: MemberIdentity) -> Peers:
        """Return the servers that vote; raises NatsError: nobody tells."""
        if self._alone:
            return Peers(frozenset({peer_id(identity.server_name)}), frozenset())
        try:
            return await peers(system)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NatsError(f"the servers do not tell who votes: {error!r}") from error

    async def _read_known(self, path: Path, identity: MemberIdentity) -> dict[str, Watermark]:
        async with self._reading:
            if self._watermarks is None:
                self._watermarks = await asyncio.to_thread(_read, path, identity, bare=self._bare)
        return self._watermarks

    async def _ask_last(
        self, system: NatsClient, identity: MemberIdentity, name: str, created: str
    ) -> int:
        """Return the last record of a log that was read by members that are there.

        Raises:
            NatsError: nobody tells who votes, or members that are starting do not tell yet.
        """
        voting, last = await self._voting(system, identity), 0
        waited = set(voting.ids)

        def take(payload: bytes) -> bool:
            nonlocal last
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                said = json.loads(payload)
                watermark = watermarks_of(said["logs"]).get(name)
                waited.discard(said["server"])
                if watermark and (watermark.created == created or watermark.bare):
                    last = max(last, watermark.sequence if watermark.servers <= voting.ids else 0)
            return not waited

        await ask_all(system, SUBJECT, b"", OTHER_MEMBERS_ANSWER_S, take)
        now_s = asyncio.get_running_loop().time()
        if self._patient_until_s is None:
            self._patient_until_s = now_s + PATIENCE_S
        starting = waited - voting.silent
        if starting and now_s < self._patient_until_s:
            raise NatsError(
                f"{len(starting)} of the members do not tell yet how far they have read {name}: it "
                "may be new, or lost"
            )
        return last

    async def _keep(self, system: NatsClient, identity: MemberIdentity, path: Path) -> None:
        with contextlib.suppress(EngineError):  # which whoever reads a log is told
            await self._read_known(path, identity)
        now_s, begun, due_s = asyncio.get_running_loop().time, False, -math.inf
        while True:
            await asyncio.sleep(LOOK_S if begun else BEGUN_S)
            if not (begun or self._is_begun):
                continue
            begun = True
            try:
                changed = self._note_votes((await self._voting(system, identity)).ids)
            except NatsError as error:
                _log.debug("it is not noted how far the logs are: %r", error)
                continue
            if changed or now_s() >= due_s:
                due_s = now_s() + NOTE_S  # also when it fails: a disk stays full for a while
                await self._note(path, identity.uuid)

    @property
    def _is_begun(self) -> bool:
        """Whether each log that was read has got a record of this start."""
        return bool(self._read) and all(log.is_begun for log in self._read.values())

    def _note_votes(self, servers: frozenset[str]) -> bool:
        """Hear who votes now; return whether a log is to be noted anew for that."""
        changed = False
        for log in self._read.values():
            changed = changed or log.servers != servers
            log.note_votes(servers)
        return changed

    async def _note(self, path: Path, member: uuid.UUID) -> None:
        """Note how far each log is that was read; that it fails is told once, until it works."""
        watermarks = dict(self._watermarks or {})
        for name, log in self._read.items():
            watermark, former = log.watermark, watermarks.get(name)
            if watermark is not None and _replaces(watermark, former):
                watermarks[name] = watermark
        if self._watermarks is None or watermarks == self._watermarks:
            return
        written = asyncio.to_thread(replace_file, path, encode_marks(watermarks, member))
        self._writing = asyncio.ensure_future(written)
        # Whoever waits for it may be cancelled before it fails.
        self._writing.add_done_callback(lambda one: one.cancelled() or one.exception())
        try:
            await asyncio.shield(self._writing)
        except OSError as error:
            if not self._failed:
                _log.warning("%s cannot be written: %s", path, error.strerror)
            self._failed = True
        else:
            self._failed, self._watermarks = False, watermarks


def _has_notes(directory: Path) -> bool:
    """Tell whether the own server has what the group that decides about streams has noted.

    Without that it knows of no stream, and takes what the others make, also anew.
    """
    account = directory / CLUSTER / JETSTREAM / JETSTREAM / SYSTEM_ACCOUNT
    return any(path.is_file() for path in (account / "_js_" / "_meta_").rglob("*"))


def _read(path: Path, identity: MemberIdentity, *, bare: bool) -> dict[str, Watermark]:
    """Return what was noted. That the server's notes are gone is noted with it first. Blocks."""
    found = read_watermarks(path, identity.uuid)
    if not bare or all(watermark.bare for watermark in found.values()):
        return found
    own = peer_id(identity.server_name)
    if any(own in watermark.servers for watermark in found.values() if not watermark.bare):
        _log.warning(  # of one that did not vote, as a lite member's, there were none
            "the notes of this member's nats-server on the cluster's logs are gone from %s",
            path.parent / JETSTREAM,
        )
    found = {name: watermark._replace(bare=True) for name, watermark in found.items()}
    try:
        replace_file(path, encode_marks(found, identity.uuid))
    except OSError as error:
        raise unusable_error("the file", path, error) from error
    return found


def _losses(
    read: State, member: uuid.UUID, noted: Watermark | None, former: ReadLog | None
) -> list[Watermark]:
    """Return what was known of a log before, on disk and in memory, that is not in it."""
    losses = [] if noted is None or noted.held_by(read, member) else [noted]
    lacking = None if former is None else former.lacks(read)
    return losses if lacking is None else [*losses, lacking]


def _replaces(watermark: Watermark, former: Watermark | None) -> bool:
    """Return whether a watermark may take the place of the former one: none that is short does."""
    if (
        former is None
        or former.created != watermark.created
        or not former.servers <= watermark.servers
    ):
        return True
    return former.own <= watermark.own and former.sequence <= watermark.sequence
