"""What one of several members stands on: its directory, and that no other process is the member.

Whichever goes, the member's server is killed at once and never started again: it would confirm what
no disk has, or share the vote of another one. An older twin ends the process. Without its directory
the member stays and says why it takes nothing; it is started again when the directory is back.

Servers of one name refuse each other, so two processes of one member that met only after both had
begun never hear of each other by themselves: every other member hears both and tells the younger
one. One process after another is no pair: a former one is not heard again behind its successor.

    grid.living       every process, every `BEAT_S`, to all
    grid.twin.TOKEN   the older process, to the younger one, which ends
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import JETSTREAM
from grid_member.engine.bootstrap.incarnation import decode_incarnation, own_incarnation, twin_error
from grid_member.engine.bootstrap.member_probe import answer_with
from grid_member.engine.io.directory_lock import LOCK
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.io.ground import Ground
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.bootstrap.incarnation import Incarnation, TwinError
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.wire import Message

LOOK_S: Final = 1.0
BEAT_S: Final = 1.0
SILENT_S: Final = 10.0
"""What was not heard of for so long is forgotten."""
SURE_BEATS: Final = 2
"""As often is a process heard behind the first word of another one before both live."""
TOLD_S: Final = 30.0
"""How long `cluster-safe` names a copy that was refused: a supervisor starts it again meanwhile."""
LIVING: Final = b"grid.living"
_log: Final = logging.getLogger("grid.engine.nats")
_engine_log: Final = logging.getLogger("grid.engine")


class TwinDetector:
    """What a member hears of processes, and which of them are the same member."""

    def __init__(self) -> None:
        self._incarnations: dict[str, dict[str, tuple[Incarnation, float]]] = {}
        """By member and token: the process, and when it was heard last."""
        self._between: dict[tuple[str, str], int] = {}
        """By two tokens: how often the one was heard since the other one was first."""

    def hear(
        self, incarnation: Incarnation, now_s: float
    ) -> tuple[Incarnation, Incarnation] | None:
        """Take a heartbeat; return the older and the younger twin when both live."""
        incarnations = self._incarnations.setdefault(incarnation.member, {})
        for token in [
            token for token, (_, at_s) in incarnations.items() if now_s - at_s > SILENT_S
        ]:
            self._forget(incarnations, token)
        new = incarnation.token not in incarnations
        incarnations[incarnation.token] = incarnation, now_s
        for token, (other, _) in incarnations.items():
            if token == incarnation.token:
                continue
            if new:
                self._between[token, incarnation.token] = 0
                continue
            pair = incarnation.token, token
            if pair in self._between:
                self._between[pair] += 1
            if max(self._between.get(pair, 0), self._between.get(pair[::-1], 0)) >= SURE_BEATS:
                return (
                    (other, incarnation) if incarnation.yields_to(other) else (incarnation, other)
                )
        return None

    def _forget(self, incarnations: dict[str, tuple[Incarnation, float]], token: str) -> None:
        del incarnations[token]
        self._between = {pair: n for pair, n in self._between.items() if token not in pair}


class Footing:
    """Watches the directory, and tells processes of twins, from `begin` to `end`."""

    def __init__(
        self, settings: ClusterSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Say nothing yet."""
        self.ground: Ground | None = None
        """None before the begin, and where nothing is kept."""
        self._settings = settings
        self._clock = clock
        self._detector = TwinDetector()
        self._own: Incarnation | None = None
        self._ends: Callable[[EngineError], None] = lambda _: None
        self._client: NatsClient | None = None
        self._looking: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._error: EngineError | None = None
        self._last_conflict = ("", -math.inf)

    def begin(self, identity: MemberIdentity, ends: Callable[[EngineError], None]) -> Incarnation:
        """Return this process; ends is called when it has to end what it does as the member."""
        directory = self._settings.directory
        if directory is not None:
            own = directory / CLUSTER
            self.ground = Ground(
                directory, [directory / LOCK, own, own / JETSTREAM], of_several=True
            )
            self._looking = asyncio.get_running_loop().create_task(self._look())
        self._ends = ends
        self._own = own_incarnation(self._settings, identity, wall_clock_ms)
        return self._own

    def is_gone(self) -> bool:
        """Tell whether the directory is not there any more. Blocks, as the disk may."""
        return self.ground is not None and (self.ground.check_write() or self.ground.look())

    @property
    def conflict(self) -> str | None:
        """Which two processes were the same member lately; None: of none that is known."""
        said, at_s = self._last_conflict
        return said if self._clock() - at_s < TOLD_S else None

    def listen(self, client: NatsClient, cluster: Callable[[], str]) -> None:
        """Answer others, and send heartbeats, over a client that connects now or later."""
        if self._own is not None:
            self._client = client
            answer_with(client, cluster, self._own, self._note)
            client.subscribe(LIVING, self._living)
            client.subscribe(_ends(self._own), self._twin)
            self._beating = asyncio.get_running_loop().create_task(self._beat(client, self._own))

    async def end(self) -> None:
        """Watch no more, and send no heartbeat."""
        tasks, self._looking, self._beating = (self._looking, self._beating), None, None
        await end_tasks(*tasks)

    def note_end(self, error: TwinError) -> None:
        """Hear why this process has to end."""
        if self._error is None:
            _log.error("%s", error)
            self._fail(error)
            if self._settings.on_replaced is not None:
                self._settings.on_replaced(error)

    def _fail(self, error: EngineError) -> None:
        self._error = error
        self._ends(error)

    def refuse(self) -> None:
        """End a start when this process is not to be the member.

        Raises:
            EngineError: it is not.
        """
        if self._error is not None:
            raise self._error

    async def _look(self) -> None:
        while not await asyncio.to_thread(self.is_gone):  # noqa: ASYNC110 - paths tell of no change
            await asyncio.sleep(LOOK_S)
        if self.ground is not None and self.ground.loss is not None:
            _engine_log.error("%s", self.ground.loss)
            self._fail(EngineError(self.ground.loss))

    async def _beat(self, client: NatsClient, own: Incarnation) -> None:
        while True:
            client.publish(LIVING, own.payload)
            await asyncio.sleep(BEAT_S)

    def _living(self, messages: Sequence[Message]) -> None:
        for message in messages:
            incarnation = decode_incarnation(message.payload)
            twins = None if incarnation is None else self._detector.hear(incarnation, self._clock())
            if twins is None or self._client is None:
                continue
            older, younger = twins
            self._note(older, younger)
            self._client.publish(_ends(younger), older.payload)

    def _note(self, older: Incarnation, younger: Incarnation) -> None:
        said = (
            f"two processes are the member {older.name}: the one at {younger.address}, with its "
            f"data in {younger.directory}, was started with a copy of the data of the one at "
            f"{older.address}, and ends"
        )
        if said != self.conflict:
            _log.error("%s", said)
        self._last_conflict = said, self._clock()

    def _twin(self, messages: Sequence[Message]) -> None:
        own = self._own
        for message in messages:
            incarnation = decode_incarnation(message.payload)
            if own is None or incarnation is None:
                continue
            if incarnation.is_twin_of(own) and own.yields_to(incarnation):
                self.note_end(twin_error(own, incarnation, incarnation.address))


def _ends(incarnation: Incarnation) -> bytes:
    """Return the subject at which a process hears that it is the younger of two."""
    return b"grid.twin." + incarnation.token.encode()
