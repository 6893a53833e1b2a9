"""The slow-down: how it grows, whom it concerns, and how much it remembers."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from grid_member.security.remotes import unmap
from grid_member.security.throttle import (
    FORGET_AFTER_S,
    FREE_FAILURES,
    MAX_ADDRESSES,
    MAX_WAIT_S,
    REMEMBER_USER_S,
    Throttle,
    UserKey,
    network_of,
    wait_after,
)

ADDRESS = "10.0.0.7"
OTHER = "10.0.0.8"
ADA = UserKey("members", "ada")
BOB = UserKey("members", "bob")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> Throttle:
    return Throttle(clock)


@pytest.mark.parametrize(
    ("failures", "wait_s"),
    [(0, 0), (1, 0), (9, 0), (10, 1), (11, 2), (12, 4), (13, 8), (15, 32), (16, 60), (17, 60)],
)
def test_the_wait_doubles_up_to_its_cap(failures: int, wait_s: float) -> None:
    assert wait_after(failures) == wait_s
    assert wait_after(10**9) == MAX_WAIT_S


def test_an_address_waits_and_may_try_again_afterwards(throttle: Throttle, clock: Clock) -> None:
    for _ in range(FREE_FAILURES):
        throttle.note_failure(ADDRESS)
        assert throttle.wait_s(ADDRESS) == 0
    throttle.note_failure(ADDRESS)
    assert throttle.wait_s(ADDRESS) == 1
    clock.now_s += 0.75
    assert throttle.wait_s(ADDRESS) == 0.25
    clock.now_s += 0.25
    assert throttle.wait_s(ADDRESS) == 0
    throttle.note_failure(ADDRESS)
    assert throttle.wait_s(ADDRESS) == 2


def test_an_attempt_during_the_wait_does_not_prolong_it(throttle: Throttle, clock: Clock) -> None:
    for _ in range(FREE_FAILURES + 1):
        throttle.note_failure(ADDRESS)
    assert [throttle.note_refusal(ADDRESS) for _ in range(3)] == [1, 2, 3]
    assert throttle.wait_s(ADDRESS) == 1
    clock.now_s += 1
    throttle.note_failure(ADDRESS)
    assert throttle.note_refusal(ADDRESS) == 1


def test_success_and_quiet_forget(throttle: Throttle, clock: Clock) -> None:
    for _ in range(20):
        throttle.note_failure(ADDRESS)
    throttle.note_success(ADDRESS, ADA)
    assert throttle.wait_s(ADDRESS) == 0
    assert len(throttle) == 0
    for _ in range(20):
        throttle.note_failure(ADDRESS)
    clock.now_s += FORGET_AFTER_S
    assert throttle.note_failure(ADDRESS).failures == 1


def test_a_user_who_was_in_before_does_not_end_the_wait_of_others(
    throttle: Throttle, clock: Clock
) -> None:
    throttle.note_success(ADDRESS, ADA)
    for _ in range(FREE_FAILURES + 1):
        throttle.note_failure(ADDRESS)
    clock.now_s += 1
    throttle.note_success(ADDRESS, ADA)
    assert throttle.note_failure(ADDRESS).failures == FREE_FAILURES + 2
    throttle.note_success(ADDRESS, BOB)
    assert throttle.wait_s(ADDRESS) == 0


def test_only_a_user_who_was_in_from_there_gets_through_a_wait(throttle: Throttle) -> None:
    throttle.note_success(ADDRESS, ADA)
    assert throttle.check(ADDRESS, ADA, right=True)
    assert not throttle.check(ADDRESS, BOB, right=True)
    assert not throttle.check(OTHER, ADA, right=True)
    assert not throttle.check(ADDRESS, None, right=False)


def test_guesses_at_such_a_user_slow_that_user_down(throttle: Throttle, clock: Clock) -> None:
    throttle.note_success(ADDRESS, ADA)
    throttle.note_success(ADDRESS, BOB)
    for _ in range(FREE_FAILURES):
        assert not throttle.check(ADDRESS, ADA, right=False)
        assert throttle.check(ADDRESS, ADA, right=True)
    assert not throttle.check(ADDRESS, ADA, right=False)
    assert not throttle.check(ADDRESS, ADA, right=True)
    assert throttle.check(ADDRESS, BOB, right=True)
    clock.now_s += 1
    assert throttle.check(ADDRESS, ADA, right=True)
    # A success of the user gives whoever guesses no new attempts.
    throttle.note_success(ADDRESS, ADA)
    assert not throttle.check(ADDRESS, ADA, right=False)
    clock.now_s += 1
    assert not throttle.check(ADDRESS, ADA, right=True)
    clock.now_s += 1
    assert throttle.check(ADDRESS, ADA, right=True)


def test_a_user_is_forgotten_after_a_day(throttle: Throttle, clock: Clock) -> None:
    throttle.note_success(ADDRESS, ADA)
    clock.now_s += REMEMBER_USER_S - 1
    assert throttle.check(ADDRESS, ADA, right=True)
    throttle.note_success(ADDRESS, ADA)
    clock.now_s += REMEMBER_USER_S
    assert not throttle.check(ADDRESS, ADA, right=True)


def test_the_users_remembered_are_bounded(clock: Clock) -> None:
    throttle = Throttle(clock, 2)
    for address in (ADDRESS, OTHER, ADDRESS, "10.0.0.9"):
        throttle.note_success(address, ADA)
    known = [throttle.check(a, ADA, right=True) for a in (ADDRESS, OTHER, "10.0.0.9")]
    assert known == [True, False, True]


def test_other_addresses_do_not_wait(throttle: Throttle) -> None:
    for _ in range(20):
        throttle.note_failure(ADDRESS)
    assert throttle.wait_s(OTHER) == 0
    throttle.note_success(OTHER, ADA)
    assert throttle.wait_s(ADDRESS) == MAX_WAIT_S


def test_memory_is_bounded_and_the_oldest_is_forgotten(throttle: Throttle) -> None:
    for n in range(MAX_ADDRESSES + 1):
        for _ in range(FREE_FAILURES + 1):
            throttle.note_failure(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(throttle) == MAX_ADDRESSES
    assert throttle.wait_s("10.0.0.0") == 0
    assert throttle.wait_s("10.0.0.1") == 1


def test_who_failed_last_is_remembered_longest(clock: Clock) -> None:
    throttle = Throttle(clock, 2)
    for address in (ADDRESS, OTHER, ADDRESS, "10.0.0.9"):
        throttle.note_failure(address)
    assert throttle.note_failure(ADDRESS).failures == 3


def test_what_is_too_old_is_dropped(throttle: Throttle, clock: Clock) -> None:
    for n in range(100):
        throttle.note_failure(f"10.0.0.{n}")
    clock.now_s += FORGET_AFTER_S
    throttle.note_failure("10.0.1.1")
    assert len(throttle) == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:0:1::5", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::5", "2001:db8:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        (None, "unknown"),
        ("", "unknown"),
        ("/run/socket", "unknown"),
    ],
)
def test_addresses_of_one_machine_are_one(address: str | None, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:0:10.0.0.7", "::ffff:0:10.0.0.7"),
        ("::ffff:a:b", "::ffff:a:b"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
        (None, None),
    ],
)
def test_an_ipv4_address_is_shown_as_one(address: str | None, shown: str | None) -> None:
    assert unmap(address) == shown


ADDRESSES = [f"10.0.0.{n}" for n in range(6)]


class ThrottleMachine(RuleBasedStateMachine):
    """Against a model that keeps the times of all failures of the newest few addresses."""

    LIMIT = 4

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.throttle = Throttle(self.clock, self.LIMIT)
        self.failures: dict[str, list[float]] = {}
        self.known: dict[tuple[str, UserKey], float] = {}

    @rule(address=st.sampled_from(ADDRESSES))
    def fail(self, address: str) -> None:
        now_s = self.clock.now_s
        times = self.failures.pop(address, [])
        recent = bool(times) and now_s - times[-1] < FORGET_AFTER_S
        self.failures[address] = [*(times if recent else []), now_s]
        if len(self.failures) > self.LIMIT:
            del self.failures[min(self.failures, key=lambda a: self.failures[a][-1])]
        self.throttle.note_failure(address)

    @rule(address=st.sampled_from(ADDRESSES), who=st.sampled_from([ADA, BOB]))
    def succeed(self, address: str, who: UserKey) -> None:
        now_s = self.clock.now_s
        last_s = self.known.pop((address, who), None)
        self.known[address, who] = now_s
        if len(self.known) > self.LIMIT:
            del self.known[next(iter(self.known))]
        if last_s is None or now_s - last_s >= REMEMBER_USER_S:
            self.failures.pop(address, None)
        self.throttle.note_success(address, who)

    @rule(address=st.sampled_from(ADDRESSES))
    def refuse(self, address: str) -> None:
        self.throttle.note_refusal(address)

    @rule(seconds=st.sampled_from([0.5, 1.0, 30.0, 61.0, FORGET_AFTER_S, REMEMBER_USER_S]))
    def pass_time(self, seconds: float) -> None:
        self.clock.now_s += seconds

    @invariant()
    def every_address_waits_as_the_model_says(self) -> None:
        for address in ADDRESSES:
            times = self.failures.get(address, [])
            free_at_s = times[-1] + wait_after(len(times)) if times else 0.0
            wait_s = max(0.0, free_at_s - self.clock.now_s)
            assert self.throttle.wait_s(address) == wait_s
        assert len(self.throttle) <= self.LIMIT

    @invariant()
    def every_user_passes_as_the_model_says(self) -> None:
        now_s = self.clock.now_s
        for address in ADDRESSES:
            for who in (ADA, BOB):
                last_s = self.known.get((address, who))
                recent = last_s is not None and now_s - last_s < REMEMBER_USER_S
                assert self.throttle.check(address, who, right=True) is recent


TestThrottleMachine = ThrottleMachine.TestCase
