"""Whatever becomes of records and of the log: who asked for something is answered, once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicated import reload, replicated_shard
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.state.operations import MemberGone, QueueOffer, QueueTake, Record, SystemPut
from tests.unit.engine.cluster.proposals import OTHER, OWN, HandLog, put
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.state.operations import Operation

NO_QUORUM = Refused(Reason.UNAVAILABLE, "no quorum")
TOO_LARGE = Refused(Reason.UNAVAILABLE, "too large")
DAMAGED = Refused(Reason.UNAVAILABLE, "damaged")
STEPS = 250
PATIENCE_S = 0.05


class WildLog(HandLog):
    """A log that may turn out to be damaged, as the real one does."""

    receiver: ReplicatedShard

    def append(self, record: Record) -> None:
        if self.damaged:
            asyncio.get_running_loop().call_soon(self.receiver.take_unknown, [record], DAMAGED)
        else:
            super().append(record)

    def fail(self, error: EngineError) -> None:
        super().fail(error)
        self.damaged, self.refusal = True, DAMAGED
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: self.receiver.take_unknown(self.withdraw(), DAMAGED))

    def lose_all(self) -> None:
        """Begin anew, as a stream in memory whose servers all ended at once."""
        self.kept.clear()
        self._sequence = 0


class Asked:
    """A shard, what is asked of it, and how often each of it was answered."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.log = WildLog()
        self.shard = ReplicatedShard(self.log, OWN, 1, lambda shard, names: None)
        self.log.receiver = self.shard
        self.shard.replay()
        self.shard.start(asyncio.get_running_loop())
        self.answers: Counter[int] = Counter()
        self.asked = 0
        self.over: list[Record] = []
        """What was sent, came back or was given up, and may come again."""
        self.others = 0

    @property
    def reading_anew(self) -> bool:
        return self.shard._reloading is not None

    def answer(self) -> Callable[[object], None]:
        number = self.asked
        self.asked += 1

        def answered(outcome: object) -> None:
            self.answers[number] += 1

        return answered

    def some(self) -> list[Record]:
        """Take some of what is on its way out of it."""
        sent = self.log.on_their_way
        chosen = self.chance.sample(sent, self.chance.randint(0, min(len(sent), 3)))
        for record in chosen:
            sent.remove(record)
        self.over += chosen
        return chosen

    def gone(self) -> Record:
        """Return what another member sends that takes this one for gone."""
        self.others += 1
        end = MemberGone(OWN, self.shard._incarnation)
        return Record(OTHER, 1, self.others, (end,))

    # What happens

    def ask(self) -> None:
        operations: list[Operation] = [put("k"), QueueOffer("q", b"v", None, 9), QueueTake("q")]
        self.shard.propose(self.chance.choice(operations), self.answer(), 1)

    def ask_of_the_cluster(self) -> None:
        self.shard.propose_system(SystemPut("k", b"v", 0), self.answer(), 1)

    def read(self) -> None:
        self.shard.read_when_current(self.answer())

    def come_back(self) -> None:
        if not self.reading_anew:
            self.log.refusal = None
            self.shard.take_committed(self.log.committed(*self.some()))

    def come_again(self) -> None:
        if self.over and not self.reading_anew:
            self.shard.take_committed(self.log.committed(self.chance.choice(self.over)))

    def give_up(self) -> None:
        self.log.refusal = NO_QUORUM
        self.shard.take_unknown(self.some(), NO_QUORUM)

    def reject(self) -> None:
        sent = [record for record in self.log.on_their_way if record.operations][:1]
        for record in sent:
            self.log.on_their_way.remove(record)
        asyncio.get_running_loop().call_soon(self.shard.take_rejected, sent, TOO_LARGE)

    def end_incarnation(self) -> None:
        if not self.reading_anew:
            self.shard.take_committed(self.log.committed(*self.some(), self.gone(), *self.some()))

    def lose(self) -> None:
        """Have records come back that are not applied, and read the log anew."""
        if not self.reading_anew:
            self.log.committed(*self.some())
            if self.chance.random() < 0.3:
                self.log.lose_all()
            self.log.unreadable = [NatsError("away")] * self.chance.randint(0, 2)
            self.shard.reload()

    def hold(self) -> None:
        if self.shard.held_records is None:
            self.shard.held_records = []
        elif self.chance.random() < 0.5:
            self.shard.release()
        else:
            self.shard.refuse_held()

    def crowd(self) -> None:
        self.log.crowded = not self.log.crowded
        if not self.log.crowded:
            self.shard.send_waiting()

    async def end(self) -> None:
        """Let all that waits come back, as far as the log takes anything."""
        await condition(lambda: not self.reading_anew or self.log.damaged)
        self.log.crowded = False
        self.shard.release()
        if not self.log.damaged:
            self.log.refusal = None

        def all_came_back() -> bool:
            self.shard.send_waiting()
            if self.log.on_their_way:
                self.shard.take_committed(self.log.committed(*self.log.on_their_way))
            return not self.shard.busy

        await condition(all_came_back)
        await self.shard.close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "RELOAD_S", 0.001)
    monkeypatch.setattr(replicated_shard, "DELIVERY_RETRY_S", 0.001)
    monkeypatch.setattr(replicated_shard, "PROBE_S", 0.001)
    monkeypatch.setattr(replicated_shard, "GIVE_UP_S", PATIENCE_S)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_everything_that_is_asked_is_answered_once(seed: int, damaged: bool) -> None:
    asked = Asked(random.Random(seed))
    often = [asked.ask, asked.ask_of_the_cluster, asked.read, asked.come_back, asked.come_back]
    seldom = [asked.come_again, asked.give_up, asked.reject, asked.end_incarnation, asked.lose,
              asked.hold, asked.crowd]  # fmt: skip
    for _ in range(STEPS):
        asked.chance.choice(often if asked.chance.random() < 0.8 else seldom)()
        if asked.chance.random() < 0.5:
            await asyncio.sleep(0)
    if damaged:
        await condition(lambda: not asked.reading_anew)
        asked.log.committed(*asked.some())
        asked.log.unreadable = [EngineError("damaged")]
        asked.shard.reload()
        await condition(lambda: asked.log.damaged)
    await asked.end()
    assert asked.asked > STEPS // 3
    assert asked.answers == Counter(range(asked.asked))
    assert (asked.shard._waiting, asked.shard._waiting_bytes) == (0, 0)


async def test_what_was_rejected_as_the_life_ended_is_answered() -> None:
    asked = Asked(random.Random(1))
    asked.shard.take_committed(asked.log.committed(*asked.log.on_their_way))
    asked.ask()
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(asked.shard.take_rejected, asked.log.withdraw(), TOO_LARGE)
    asked.shard.take_committed(asked.log.committed(asked.gone()))
    assert asked.answers == {0: 1}
    await asked.end()
    assert asked.answers == {0: 1}


async def test_a_former_life_s_record_answers_nothing_of_the_present_one() -> None:
    asked = Asked(random.Random(1))
    asked.shard.take_committed(asked.log.committed(*asked.log.on_their_way))
    former = Record(OWN, asked.shard._incarnation, 2, (put("k"),))
    asked.shard.take_committed(asked.log.committed(asked.gone()))
    asked.ask()
    await asyncio.sleep(0)
    assert [one.counter for one in asked.log.on_their_way] == [1, 2]
    asked.shard.take_rejected([former], TOO_LARGE)
    asked.shard.take_unknown([former], NO_QUORUM)
    assert not asked.answers
    await asked.end()
    assert asked.answers == {0: 1}
