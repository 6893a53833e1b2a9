"""Whom silence says something about."""

from __future__ import annotations

from grid_member.cluster.membership.failure_detector import (
    LEASE_S,
    RENEW_S,
    STEADY_GAP_S,
    FailureDetector,
)
from grid_member.cluster.membership.member_table import Lease

OTHER = Lease("life", 1)


class Heard:
    """A pulse and its clock; this member renews its lease as it should, unless it does not."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.pulse = FailureDetector(lambda: self.now_s)

    def go_on(self, seconds: float, *, renewing: bool = True) -> None:
        for _ in range(round(seconds / RENEW_S)):
            self.now_s += RENEW_S
            if renewing:
                self.pulse.note_own_renewal()


def test_who_gives_no_sign_for_the_time_of_a_lease_is_silent() -> None:
    heard = Heard()
    heard.pulse.note_own_renewal()
    heard.pulse.look({"a": OTHER})
    heard.go_on(LEASE_S - RENEW_S)
    assert not heard.pulse.silent_members()
    heard.go_on(RENEW_S)
    assert heard.pulse.silent_members() == {"a": OTHER}


def test_a_sign_of_life_ends_a_silence() -> None:
    heard = Heard()
    heard.pulse.note_own_renewal()
    heard.pulse.look({"a": OTHER})
    heard.go_on(LEASE_S)
    for sign in (Lease("life", 2), Lease("other", 2)):
        heard.pulse.look({"a": sign})
        assert not heard.pulse.silent_members()
        heard.go_on(LEASE_S)
        assert heard.pulse.silent_members()


def test_without_own_signs_nobody_else_is_silent() -> None:
    heard = Heard()
    heard.pulse.look({"a": OTHER})
    heard.go_on(10 * LEASE_S, renewing=False)
    assert not heard.pulse.silent_members()
    heard.pulse.note_own_renewal()
    heard.go_on(LEASE_S)
    assert heard.pulse.silent_members()
    heard.go_on(STEADY_GAP_S + RENEW_S, renewing=False)
    assert not heard.pulse.silent_members()


def test_after_a_time_without_own_signs_the_others_have_a_whole_lease() -> None:
    heard = Heard()
    heard.pulse.note_own_renewal()
    heard.pulse.look({"a": OTHER})
    heard.go_on(STEADY_GAP_S + RENEW_S, renewing=False)
    heard.pulse.note_own_renewal()
    assert not heard.pulse.silent_members()
    heard.go_on(LEASE_S - RENEW_S)
    assert not heard.pulse.silent_members()
    heard.go_on(RENEW_S)
    assert heard.pulse.silent_members()


def test_a_lease_that_ends_is_told_once() -> None:
    heard = Heard()
    heard.pulse.look({"a": OTHER, "b": OTHER})
    heard.go_on(LEASE_S)
    assert heard.pulse.look({"b": OTHER}) == {"a"}
    assert heard.pulse.look({"b": OTHER}) == set()


def test_a_lease_that_ended_just_when_a_sign_came_is_not_told() -> None:
    heard = Heard()
    heard.pulse.look({"a": OTHER})
    assert heard.pulse.look({}) == set()
    heard.pulse.look({"a": Lease("life", 2)})
    heard.go_on(LEASE_S)
    assert heard.pulse.look({}) == {"a"}
