"""The clock that a log has its times of: whoever it jumps for is told, and nobody else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.jetstream.clock_skew import JUMP_S, ClockSkew
from grid_member.engine.leasehold import steady_s
from tests.unit.engine.jetstream.test_log import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR_S = 3600


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said of the clock."""
    return [message for message in caplog.messages if "clock of shard" in message]


class Turned(Stream):
    """A stream whose times are those of a clock that the test turns."""

    def __init__(self) -> None:
        self.turned_s = 0
        super().__init__(time_of=lambda _: int((time.time() + self.turned_s) * 1000))
        self._counter = 0

    def write(self, count: int = 1) -> None:
        """Let that many records of this member go through the stream, one batch each."""
        for _ in range(count):
            self._counter += 1
            self.append(self._counter)
            self.take(*self.taken())


@pytest.fixture
async def turned() -> AsyncIterator[Turned]:
    made = Turned()
    yield made
    await made.close()


async def test_each_jump_of_the_clock_is_told_once(
    turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    turned.write(3)
    assert told(caplog) == []
    turned.turned_s = HOUR_S
    turned.write(3)
    (ahead,) = told(caplog)
    assert "shard 0" in ahead
    assert "3600 s ahead" in ahead
    assert "check the clocks of the machines" in ahead
    turned.turned_s = 0
    turned.write(3)
    (_, back) = told(caplog)
    assert "shard 0" in back
    assert "back by 3600 s" in back
    assert "check the clocks of the machines" in back


async def test_a_log_that_is_read_anew_is_compared_further_on(
    turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    turned.write()
    turned.log.resume()
    turned.turned_s = -HOUR_S
    turned.write(2)
    (back,) = told(caplog)
    assert "back by 3600 s" in back


async def test_records_of_others_and_late_ones_say_nothing_of_the_clock(
    turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    turned.write()
    turned.append(2)
    (late,) = turned.taken()
    turned.log.withdraw()  # it was given up, and is in the log all the same
    turned.turned_s = -HOUR_S
    turned.take(late)
    assert told(caplog) == []


class Watched:
    """A pace, and the clocks that it goes by."""

    def __init__(self) -> None:
        self.pace = ClockSkew()
        self.now_s = 100.0
        self.slept_s = 0.0
        self.ahead_s = 1_700_000_000.0

    def jump_s(self, *, took_s: float = 0.01, delayed_s: float = 0.0) -> int:
        """Return what a record shows that was stored at once, and fed some time later."""
        sent_s, stored_ms = self.now_s, int((self.now_s + self.slept_s + self.ahead_s) * 1000)
        self.now_s += took_s + delayed_s
        return self.pace.jump_s(stored_ms, sent_s, self.now_s, self.slept_s)


def test_the_first_record_says_nothing() -> None:
    assert Watched().jump_s() == 0


@pytest.mark.parametrize("jump_s", [-86_400, -60, -JUMP_S - 1, JUMP_S + 1, 60, 86_400])
def test_a_jump_is_seen_once_with_its_length(jump_s: int) -> None:
    watched = Watched()
    watched.jump_s()
    watched.now_s += 5000  # nothing is written, for long
    watched.ahead_s += jump_s
    assert abs(watched.jump_s() - jump_s) <= 1
    assert watched.jump_s() == 0


def test_small_steps_are_none_and_do_not_add_up() -> None:
    watched = Watched()
    for _ in range(100):
        watched.ahead_s += JUMP_S - 1
        assert watched.jump_s() == 0


def test_what_is_fed_late_is_no_jump() -> None:
    """As to a member that was stopped, or cut off, with records on their way."""
    watched = Watched()
    watched.jump_s()
    assert watched.jump_s(delayed_s=600) == 0
    assert watched.jump_s() == 0
    watched.now_s += 600
    assert watched.jump_s() == 0


def test_a_jump_is_seen_behind_what_was_fed_late() -> None:
    watched = Watched()
    watched.jump_s()
    watched.jump_s(delayed_s=600)
    watched.ahead_s += 60
    assert watched.jump_s() == 60


def test_a_machine_that_slept_is_no_jump() -> None:
    watched = Watched()
    watched.jump_s()
    sent_s, stored_ms = watched.now_s, int((watched.now_s + watched.ahead_s) * 1000)
    watched.slept_s += 3600  # with a record on its way
    watched.now_s += 1
    assert watched.pace.jump_s(stored_ms, sent_s, watched.now_s, watched.slept_s) == 0
    assert watched.jump_s() == 0
    watched.ahead_s -= 60
    assert watched.jump_s() == -60


def test_the_clocks_of_this_machine_are_of_one_kind() -> None:
    assert steady_s() - time.monotonic() > -1
