"""When scheduled backups are due: time zones, missed times, clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_operator.api.conditions import timestamp
from grid_operator.api.persistence import BackupSchedule
from grid_operator.decide.schedule import Due, look, next_time
from grid_operator.decide.situation import moment


def schedule(cron: str, zone: str = "UTC", **more: Any) -> BackupSchedule:
    content = {"cron": cron, "timeZone": zone, **more}
    return BackupSchedule.model_validate(content, strict=False)


def at(text: str) -> datetime:
    found = moment(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("0 3 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z"),
        ("0 3 * * *", "UTC", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"),
        ("0 3 * * *", "Asia/Tokyo", "2026-01-01T00:00:00Z", "2026-01-01T18:00:00Z"),
        ("*/15 * * * *", "UTC", "2026-01-01T00:01:02Z", "2026-01-01T00:15:00Z"),
        # 02:30 does not exist on 29 March: it comes right after the hour that is left out.
        ("30 2 * * *", "Europe/Madrid", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("30 2 * * *", "Europe/Madrid", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"),
        # 02:30 comes twice on 25 October: the first is meant.
        ("30 2 * * *", "Europe/Madrid", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "Europe/Madrid", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        # The second 02:10 lies behind the only 02:30.
        ("30 2 * * *", "Europe/Madrid", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"),
        # Every hour is every hour, twice in the one that comes twice.
        ("0 * * * *", "Europe/Madrid", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
        ("0 * * * *", "Europe/Madrid", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"),
    ],
)
def test_next_time(cron: str, zone: str, after: str, expected: str) -> None:
    found = next_time(schedule(cron, zone), at(after))

    assert found is not None
    assert timestamp(found) == expected


def test_two_times_in_an_hour_that_is_left_out_are_one() -> None:
    plan = schedule("15,45 2 * * *", "Europe/Madrid")

    first = next_time(plan, at("2026-03-29T00:59:00Z"))
    assert first == at("2026-03-29T01:00:00Z")
    assert next_time(plan, first) == at("2026-03-30T00:15:00Z")


DAILY = schedule("0 3 * * *")
SKIPPING = schedule("0 3 * * *", missedRunPolicy="Skip")
BOUNDED = schedule("0 3 * * *", startingDeadlineSeconds=600)
LAST, NEXT = "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"


@pytest.mark.parametrize(
    ("plan", "last", "planned", "now", "expected"),
    [
        # Nothing is known yet: no time before the first look is due.
        (DAILY, None, None, "2026-01-01T12:00:00Z", Due(NEXT)),
        (DAILY, LAST, NEXT, "2026-01-02T02:59:59Z", Due(NEXT)),
        (DAILY, LAST, NEXT, NEXT, Due(NEXT, run=NEXT)),
        # Several were missed: one for all of them, named after the newest.
        (DAILY, LAST, NEXT, "2026-01-05T12:00:00Z", Due(NEXT, run="2026-01-05T03:00:00Z")),
        (SKIPPING, LAST, NEXT, "2026-01-02T03:00:30Z", Due(NEXT, run=NEXT)),
        (
            SKIPPING,
            LAST,
            NEXT,
            "2026-01-05T12:00:00Z",
            Due("2026-01-06T03:00:00Z", skipped="2026-01-05T03:00:00Z"),
        ),
        (BOUNDED, LAST, NEXT, "2026-01-02T03:09:00Z", Due(NEXT, run=NEXT)),
        (BOUNDED, LAST, NEXT, "2026-01-02T03:11:00Z", Due("2026-01-03T03:00:00Z", skipped=NEXT)),
        # The clock was set back over times that were dealt with.
        (DAILY, LAST, NEXT, "2025-12-30T00:00:00Z", Due(NEXT)),
        (DAILY, NEXT, NEXT, "2026-01-02T03:00:00Z", Due("2026-01-03T03:00:00Z")),
        # Another schedule was planned: its time says nothing about this one.
        (DAILY, LAST, "2026-01-01T04:30:00Z", "2026-01-01T05:00:00Z", Due(NEXT)),
        # A schedule that is denser now does not make up for what it did not ask for then.
        (schedule("0 * * * *"), LAST, NEXT, "2026-01-01T12:30:00Z", Due("2026-01-01T13:00:00Z")),
    ],
)
def test_what_is_due(
    plan: BackupSchedule, last: str | None, planned: str | None, now: str, expected: Due
) -> None:
    assert look(plan, last, planned, at(now)) == expected


def test_the_newest_of_very_many_missed_times_is_found() -> None:
    minutely = schedule("* * * * *")
    due = look(minutely, None, "2020-01-01T00:00:00Z", at("2026-01-01T00:00:30Z"))
    assert due.run == "2026-01-01T00:00:00Z"

    yearly = schedule("0 0 29 2 *")
    due = look(yearly, None, "2000-02-29T00:00:00Z", at("2026-01-01T00:00:30Z"))
    assert due.run == "2024-02-29T00:00:00Z"


STEPS = st.lists(
    st.one_of(st.integers(0, 5400), st.integers(-200_000, 200_000)), min_size=1, max_size=40
)
CRONS = st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 */6 * * *", "15 1-3 * * *"])
ZONES = st.sampled_from(["UTC", "Europe/Madrid", "America/New_York", "Australia/Lord_Howe"])
POLICIES = st.sampled_from(["RunOnce", "Skip"])


@given(CRONS, ZONES, POLICIES, STEPS, st.booleans())
def test_no_time_runs_twice_whatever_the_clock_does(
    cron: str, zone: str, policy: str, steps: list[int], autumn: bool
) -> None:
    plan = schedule(cron, zone, missedRunPolicy=policy)
    now = datetime(2026, 10 if autumn else 3, 24, tzinfo=UTC)
    last: str | None = None
    planned: str | None = None
    ran: list[str] = []
    for step in steps:
        now += timedelta(seconds=step)
        due = look(plan, last, planned, now)
        planned = due.next_time
        if due.skipped is not None:
            last = due.skipped
        if due.run is not None:
            ran.append(due.run)
            last = due.run
            after = next_time(plan, max(now, at(due.run)))
            planned = timestamp(after) if after is not None else None

    assert sorted(set(ran)) == ran
