"""Who waits for records of a shard of a cluster, and how all of them are answered: once each.

A record that was sent comes back, or nobody can tell what becomes of it. Whatever it is, what waits
for it is taken off first and answered then.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from grid_member.engine.leasehold import Leasehold
from grid_member.engine.local.system import always, nothing
from grid_member.engine.shard.shard import _InFlightRecord
from grid_member.engine.shard.splitting import SplittingShard

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from grid_member.engine.api import EngineError, Refused
    from grid_member.engine.log.log import Clock
    from grid_member.engine.replicated.replicated_shard import ReadCallback
    from grid_member.engine.replicated.shared_log import SharedLog
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Record


class InFlightShard(SplittingShard, metaclass=abc.ABCMeta):
    """A shard on whose records reads wait as well."""

    def __init__(
        self,
        log: SharedLog,
        member: bytes,
        clock: Clock,
        on_arrival: Callable[[Shard, set[str]], None],
    ) -> None:
        """Make a shard as `Shard` does; nobody waits yet."""
        super().__init__(log, member, clock, on_arrival)
        self._shared = log
        """`_log`, as what it is here."""
        self._readers: list[ReadCallback] = []
        """Of this tick, or of several while the log is crowded."""
        self._reading: dict[int, list[ReadCallback]] = {}
        """By the counter of the record that they wait for."""
        self.leasehold = Leasehold()
        """Until when what is taken here may be handed out."""
        self.readable: Callable[[], Awaitable[None]] = always
        """Returns when it makes sense to read the log; raises NatsError."""
        self.on_begin: Callable[[], None] = nothing
        """Is called when the shard takes records from now on."""
        self._refuses: Callable[[], None] = nothing
        """Is called when the log refuses records, after everything that waited was answered."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a new incarnation, whose first record brings taken items back."""
        super().start(loop)
        self.on_begin()

    def lend(self, until_s: float, refuses: Callable[[], None]) -> None:
        """Have a lease until then; refuses is called whenever the log refuses records."""
        self.leasehold.hold(until_s)
        self._refuses = refuses

    def halt(self) -> None:
        """Take and send nothing until the log was read anew: all members leave it."""
        self._shared.halt()
        self.reload()

    @abc.abstractmethod
    def reload(self) -> None:
        """Read the log from its beginning, before any read."""

    @property
    def confirmed_s(self) -> float:
        """When the last own record that came back was sent first, by the loop's clock."""
        return self._shared.confirmed_s

    @property
    def shard(self) -> int:
        """The shard's number."""
        return self._shared.shard

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends."""
        return self._shared.in_contact

    @property
    def answering(self) -> bool:
        """Whether what is proposed or read waits for a quorum, and is not refused at once."""
        return self._shared.refusal is None

    @property
    def refusal(self) -> Refused | None:
        """Why what is proposed or read is refused at once; None when it waits for a quorum."""
        return self._shared.refusal

    def _look_for_lease(self) -> None:
        self.leasehold.look(refused=self._shared.refusal is not None)

    def fail(self, error: EngineError) -> None:
        """Take nothing any more."""
        self._shared.fail(error)

    def _tell(self, readers: Iterable[ReadCallback], refused: Refused | None) -> None:
        """Call readers; what one of them raises is not the others' business, nor the state's."""
        for reader in readers:
            try:
                reader(refused)
            except Exception as error:
                self._report(error)

    def _refuse_waiting(self, refused: Refused) -> None:
        """Answer what was never sent."""
        in_flight_record = _InFlightRecord(self._answers, self._size_bytes)
        self._operations, self._answers, self._size_bytes = [], [], 0
        system, self._system = self._system, []
        readers, self._readers = self._readers, []
        self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
        waiting = _InFlightRecord(
            [answer for _, answer, _ in system], sum(size for _, _, size in system)
        )
        self._answer(waiting, [refused] * len(waiting.answers))
        self._tell(readers, refused)
        self._refuses()

    def _refuse(self, counters: Iterable[int], refused: Refused) -> int:
        """Answer what was sent, and who reads behind it; return how many operations that were."""
        count = 0
        for counter in counters:
            in_flight_record = self._in_flight.pop(counter, None)
            if in_flight_record is not None:
                count += len(in_flight_record.answers)
                self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
            self._tell(self._reading.pop(counter, ()), refused)
        return count

    def _give_up(self, in_flight: Mapping[int, _InFlightRecord], refused: Refused) -> None:
        """Answer in-flight records that still wait; another incarnation's have equal counters."""
        self._refuse(
            [one for one in in_flight if self._in_flight.get(one) is in_flight[one]], refused
        )
        self._check_settled()

    def _carries(self, counter: int) -> bool:
        return self._shared.carries(counter)

    def _own_records(self, records: Sequence[Record]) -> list[Record]:
        return [record for record in records if record.incarnation == self._incarnation]
