from __future__ import annotations

import pytest

from grid_member.engine.bootstrap.admission import (
    ALONE_S,
    TURN_S,
    AdmissionDecision,
    AdmissionReason,
    AdmissionWait,
)
from grid_member.engine.bootstrap.member_probe import Occupant

LOT, OTHER = "ab" * 8, "1" * 16


def blocked(lot: str | None) -> AdmissionDecision:
    return AdmissionDecision(False, ("a1", Occupant(lot, OTHER)))


WAIT = AdmissionDecision(False)
RUNS, OTHER_WAITS = blocked(None), blocked(LOT)
TICK_S = 0.5


def test_who_is_alone_waits_a_while_from_the_last_stranger_on() -> None:
    patience = AdmissionWait(LOT, False, 0.0)
    assert patience.reason(WAIT, ALONE_S - 1) is None
    assert patience.reason(RUNS, ALONE_S) is None
    assert patience.reason(WAIT, 2 * ALONE_S - 1) is None
    assert patience.reason(WAIT, 2 * ALONE_S) is AdmissionReason.ALONE


def test_a_stranger_that_runs_is_never_met() -> None:
    patience = AdmissionWait(LOT, False, 0.0)
    assert patience.reason(RUNS, 1000 * TURN_S) is None
    # Turns count from the moment at which it waits as well.
    assert patience.reason(OTHER_WAITS, 1001 * TURN_S) is None


@pytest.mark.parametrize("gave_way", [(False, False), (True, False), (False, True), (True, True)])
def test_of_two_that_see_each_other_wait_one_starts_well_before_the_other(
    gave_way: tuple[bool, bool],
) -> None:
    lots = ("aa" * 8, "bb" * 8)
    starts_s = []
    for number in (0, 1):
        patience = AdmissionWait(lots[number], gave_way[number], 0.0)
        seen, now_s = blocked(lots[1 - number]), 0.0
        while patience.reason(seen, now_s) is None:
            now_s += TICK_S
            assert now_s < 5 * TURN_S
        starts_s.append(now_s)
    assert abs(starts_s[0] - starts_s[1]) >= TURN_S
    if gave_way == (True, False):
        assert starts_s[0] > starts_s[1]
    else:
        assert starts_s[0] < starts_s[1]
