"""When scheduled backups are due, whatever the clock and the time zone do.

Times are those that cron would give in the time zone: one in the hour that a change of the clock
leaves out comes right after it, one in the hour that comes twice comes once. All are compared and
written in UTC. A time is never due twice: what is due is always later than the newest that was
dealt with, also when the operator's clock was set back since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from grid_operator.api.conditions import timestamp
from grid_operator.api.persistence import MissedRunPolicy
from grid_operator.decide.situation import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.persistence import BackupSchedule

LATE_S: Final = 60.0
"""A run that did not begin by then is a missed one."""
_LOOKED_AT: Final = 8
"""Times among which the longest interval is: those of a week, where there is one each day."""
_WINDOWS: Final = tuple(timedelta(hours=h) for h in (1, 24, 24 * 32, 24 * 367, 24 * 366 * 50))
"""How far back the newest time is looked for: the narrowest with one in it has few of them."""


@dataclass(frozen=True, slots=True)
class Due:
    """What a schedule says at one moment."""

    next_time: str | None = None
    """The time that is due, or the one that is due next."""
    run: str | None = None
    """The time whose backup should begin now."""
    skipped: str | None = None
    """The newest time that is not made up for."""


def look(schedule: BackupSchedule, last: str | None, planned: str | None, now: datetime) -> Due:
    """Return what is due.

    Args:
        schedule: One that `validate` accepts.
        last: The newest scheduled time that was dealt with.
        planned: The time that was told as the next; none before the first look.
        now: Time of the operator's clock.
    """
    dealt = moment(last)
    base = now if dealt is None else max(now, dealt)
    due = moment(planned)
    stale = due is None or (dealt is not None and due <= dealt)
    if stale or due is None or due > now or not _is_time(schedule, due):
        # Not due, or planned by another schedule: its times before now are nobody's.
        return Due(_text(next_time(schedule, base)))
    newest = _newest(schedule, due, now)
    late_s = (now - newest).total_seconds()
    if late_s > _tolerance_s(schedule):
        return Due(_text(next_time(schedule, now)), skipped=timestamp(newest))
    return Due(timestamp(due), run=timestamp(newest))


def next_time(schedule: BackupSchedule, after: datetime) -> datetime | None:
    """Return the first scheduled time later than this, None when there is none."""
    return next(_times(schedule, after), None)


def longest_interval(schedule: BackupSchedule, after: datetime) -> timedelta:
    """Return the longest time between two of the scheduled times that come next; 0 when none do."""
    times = list(islice(_times(schedule, after), _LOOKED_AT))
    return max((later - time for time, later in pairwise(times)), default=timedelta())


def _times(schedule: BackupSchedule, after: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(schedule.time_zone)
    newest = after
    for local in CronSim(schedule.cron, after.astimezone(zone)):
        found = local.astimezone(UTC)
        # In an hour that comes twice cron looks back, and in one that is left out it repeats.
        if found > newest:
            newest = found
            yield found


def _is_time(schedule: BackupSchedule, time: datetime) -> bool:
    return next_time(schedule, time - timedelta(seconds=1)) == time


def _newest(schedule: BackupSchedule, due: datetime, now: datetime) -> datetime:
    """Return the newest scheduled time that is not later than now; `due` is one."""
    for window in _WINDOWS:
        found = due
        for time in _times(schedule, max(due, now - window)):
            if time > now:
                break
            found = time
        if found > due or now - window <= due:
            return found
    return due


def _tolerance_s(schedule: BackupSchedule) -> float:
    deadline = schedule.starting_deadline_seconds
    limit = float("inf") if deadline is None else float(deadline)
    skips = schedule.missed_run_policy is MissedRunPolicy.SKIP
    return min(limit, LATE_S) if skips else limit


def _text(time: datetime | None) -> str | None:
    return None if time is None else timestamp(time)
