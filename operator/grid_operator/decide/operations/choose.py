"""Which operation begins when none is under way.

    recover ▸ Restore ▸ Stop, Start ▸ Shrink ▸ Restart ▸ ChangeState ▸ WanPublisher, WanState ▸
    ApplyLive ▸ Backup

What is asked for and cannot be done in this state of the cluster is refused at once: a request
that waited would come true when nobody expects it any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import ProgressingReason, timestamp
from grid_operator.api.phase import is_restoring
from grid_operator.api.status import BackupStatus, OperationOutcome
from grid_operator.decide import annotation_requests as asked
from grid_operator.decide.children.departure import going, is_terminating
from grid_operator.decide.operations import (
    apply_live,
    backup,
    change_state,
    recover,
    restart,
    restore,
    shrink,
    start,
    stop,
    wan_state,
)
from grid_operator.decide.pods import pod_name
from grid_operator.decide.roll import claim_obstacle, disruption_obstacle, is_lost
from grid_operator.decide.schedule import look, next_time
from grid_operator.decide.situation import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.persistence import BackupSchedule
    from grid_operator.api.status import GridClusterStatus, OperationStatus
    from grid_operator.decide.annotation_requests import Requests
    from grid_operator.decide.situation import Situation

RETRY_AFTER_S: Final = 60.0
"""Before an operation that failed and that the spec still asks for begins again."""
MAX_REPEATS: Final = 3
"""Ends of one operation within that time; one more waits."""


@dataclass(slots=True)
class Choice:
    """What begins now, and what waits; filled by one policy after the other."""

    status: GridClusterStatus
    """With requests that are refused, and times of the schedule that are dealt with."""
    operation: OperationStatus | None = None
    reason: ProgressingReason | None = None
    """Why something that the spec asks for does not begin yet."""
    waiting: str = ""
    until: list[datetime] = field(default_factory=list)
    pending: dict[str, str] = field(default_factory=dict)
    """Requests that wait, by annotation, and what for."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Reason and message of Events."""

    def change(self, **changes: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def begin(self, operation: OperationStatus, request: tuple[str, str] | None = None) -> None:
        """Begin the operation, and note that a request is carried out by it."""
        self.operation = operation
        self.change(operation=operation)
        if request is not None:
            handled = asked.with_handled(self.status, *request, asked.ACCEPTED)
            self.change(handled_requests=handled)

    def refuse(self, name: str, request: str, message: str) -> None:
        """Note that a request is not carried out, now or later."""
        handled = asked.with_handled(self.status, name, request, asked.REFUSED, message)
        self.change(handled_requests=handled)

    def wait(self, reason: ProgressingReason, text: str, until: datetime | None = None) -> None:
        """Note why something does not begin; the first reason is the one that is told."""
        if self.reason is None:
            self.reason, self.waiting = reason, text
        if until is not None:
            self.until.append(until)


def choose(situation: Situation, requests: Requests) -> Choice:
    """Return what begins, of all that the spec and the requests ask for."""
    choice = Choice(situation.status)
    for policy in _POLICIES:
        policy(situation, requests, choice)
        if choice.operation is not None:
            break
    return choice


def _recover(situation: Situation, requests: Requests, choice: Choice) -> None:
    for name in (asked.PARTIAL_START, asked.FORCE_START):
        request = requests.ids.get(name)
        if request is None or choice.operation is not None:
            continue
        found = recover.wanted(situation, asked.KINDS[name], request)
        obstacle = recover.serving(situation)
        if obstacle is not None:
            choice.refuse(name, request, obstacle)
        elif found is not None:
            choice.begin(found, (name, request))
        elif _is_down(situation) or not situation.member_problems():
            choice.refuse(name, request, "no member waits to be told what to do about its data")
        else:
            choice.pending[name] = f"{request} waits: {'; '.join(situation.member_problems())}"


def _restore(situation: Situation, _: Requests, choice: Choice) -> None:
    if restore.found_done(situation):
        choice.change(restored_from=restore.source_text(situation.spec))
        return
    if situation.status.importing and situation.joined():
        # Nobody joins before all of it is there.
        choice.change(importing=None)
    found = restore.wanted(situation)
    if found is not None:
        _begin_or_retry(situation, choice, found, restore.RETRY_AFTER_S)


def _run_state(situation: Situation, _: Requests, choice: Choice) -> None:
    if is_restoring(situation.cluster):
        return
    stopping = stop.wanted(situation)
    obstacle = _stop_obstacle(situation) if stopping is not None else None
    if obstacle is not None:
        choice.wait(ProgressingReason.WAITING_FOR_SAFETY, obstacle)
        return
    if stopping is not None:
        choice.begin(stopping)
        return
    starting = start.wanted(situation)
    if starting is not None and starting.operation is not None:
        choice.begin(starting.operation)
        choice.change(**starting.changes)


def _stop_obstacle(situation: Situation) -> str | None:
    """Return why no pod may go: its data would go with it."""
    obstacles = (claim_obstacle(situation.observed, pod) for pod in situation.pods)
    return next((text for text in obstacles if text is not None), None)


def _shrink(situation: Situation, _: Requests, choice: Choice) -> None:
    found = None if _is_down(situation) else shrink.wanted(situation)
    if found is None:
        return
    why = shrink.obstacle(situation, found)
    if why is None:
        _begin_or_retry(situation, choice, found)
    else:
        text = f"{found.target} is to leave, and it is not safe now: {why}"
        choice.wait(ProgressingReason.WAITING_FOR_SAFETY, text)


def _restart(situation: Situation, requests: Requests, choice: Choice) -> None:
    request = requests.ids.get(asked.RESTART)
    if _is_down(situation):
        if request is not None:
            choice.refuse(asked.RESTART, request, _down_text(situation))
        return
    roll = situation.roll
    found = restart.wanted(situation)
    if found is not None:
        choice.begin(found)
    elif roll.reason is not None:
        choice.wait(roll.reason, roll.waiting)
    elif request is not None:
        obstacle = _restart_obstacle(situation)
        found = restart.wanted(situation, request) if obstacle is None else None
        if found is not None:
            choice.begin(found, (asked.RESTART, request))
        else:
            choice.pending[asked.RESTART] = f"{request} waits until it is safe: {obstacle}"
    if request is not None and choice.operation is None and roll.reason is not None:
        choice.pending[asked.RESTART] = f"{request} waits: {roll.waiting}"


def _restart_obstacle(situation: Situation) -> str | None:
    leaving = [pod for pod in situation.pods if is_terminating(pod)]
    if leaving:
        return f"pod {pod_name(leaving[0])} {going(leaving[0], situation.now)}"
    if not situation.pods:
        return "there is no member pod yet"
    kept = _stop_obstacle(situation)
    if kept is not None:
        return kept
    if is_lost(situation.observed, situation.pods[-1]):
        # The first to be replaced serves nobody: nothing is taken from anybody.
        return None
    return disruption_obstacle(situation.observed)


def _change_state(situation: Situation, _: Requests, choice: Choice) -> None:
    state = situation.spec.cluster_state
    applied = situation.status.applied_cluster_state
    if state is None:
        if applied is not None:
            choice.change(applied_cluster_state=None)
        return
    if _is_down(situation):
        return
    if applied != state.value and change_state.is_reached(situation, state.value):
        choice.change(applied_cluster_state=state.value)
        return
    found = change_state.wanted(situation)
    if found is not None:
        _begin_or_retry(situation, choice, found)


def _wan(situation: Situation, _: Requests, choice: Choice) -> None:
    if _is_down(situation):
        return
    # A publisher or state that members refuse holds up no other one.
    for found in wan_state.wanted_with_publishers(situation):
        if choice.operation is None:
            _begin_or_retry(situation, choice, found)


def _apply_live(situation: Situation, _: Requests, choice: Choice) -> None:
    found = None if _is_down(situation) else apply_live.wanted(situation)
    if found is None:
        return
    lacking = apply_live.lacking_replications(situation, found)
    if not lacking:
        _begin_or_retry(situation, choice, found)
        return
    text = (
        f"{found.target} is given its new maps when it shows a publisher of replication "
        f"{', '.join(lacking)}, which they refer to"
    )
    choice.wait(ProgressingReason.WAITING_FOR_MEMBERS, text)


def _backup(situation: Situation, requests: Requests, choice: Choice) -> None:
    interrupt = requests.ids.get(asked.BACKUP_INTERRUPT)
    if interrupt is not None:
        choice.refuse(asked.BACKUP_INTERRUPT, interrupt, "no backup is being made")
    request = requests.ids.get(asked.BACKUP)
    if request is not None:
        _requested_backup(situation, choice, request)
    if choice.operation is None:
        _scheduled_backup(situation, choice)


def _requested_backup(situation: Situation, choice: Choice, request: str) -> None:
    if situation.spec.persistence.backup is None:
        text = "there is nowhere to keep it: set spec.persistence.backup"
        choice.refuse(asked.BACKUP, request, text)
    elif _is_down(situation):
        choice.refuse(asked.BACKUP, request, _down_text(situation))
    else:
        found = backup.wanted(situation, request)
        if found is not None:
            choice.begin(found, (asked.BACKUP, request))
        else:
            choice.pending[asked.BACKUP] = f"{request} waits: {situation.no_member_text()}"


def _scheduled_backup(situation: Situation, choice: Choice) -> None:
    schedule = schedule_of(situation)
    known = choice.status.backup or BackupStatus()
    if schedule is None:
        if known.next_scheduled_time is not None:
            choice.change(backup=known.model_copy(update={"next_scheduled_time": None}))
        return
    now = situation.now
    due = look(schedule, known.last_scheduled_time, known.next_scheduled_time, now)
    changes: dict[str, str | None] = {"next_scheduled_time": due.next_time}
    if due.skipped is not None:
        changes["last_scheduled_time"] = due.skipped
        late = f"the backup of {due.skipped} is left out: it could not begin in time"
        choice.notes.append(("BackupSkipped", late))
    found = None
    if due.run is not None and not _is_down(situation):
        found = backup.wanted(situation, due.run)
    if found is not None and due.run is not None:
        after = next_time(schedule, max(now, moment(due.run) or now))
        changes["last_scheduled_time"] = due.run
        changes["next_scheduled_time"] = timestamp(after) if after is not None else None
    updated = known.model_copy(update=changes)
    if updated != known:
        choice.change(backup=updated)
    if found is not None:
        choice.begin(found)
    planned = moment(updated.next_scheduled_time)
    if planned is not None and planned > now:
        choice.until.append(planned)


def schedule_of(situation: Situation) -> BackupSchedule | None:
    """Return the schedule of backups, None when there is none."""
    kept = situation.spec.persistence.backup
    return kept.schedule if kept is not None else None


def _begin_or_retry(
    situation: Situation, choice: Choice, found: OperationStatus, after_s: float = RETRY_AFTER_S
) -> None:
    """Begin it, unless the same has just failed with the same spec."""
    failed = next(
        (
            finished
            for finished in situation.status.last_operations
            if (finished.kind, finished.target) == (found.kind, found.target)
        ),
        None,
    )
    unchanged = situation.status.observed_generation == situation.cluster.metadata.generation
    ended = moment(failed.finished) if failed is not None else None
    if failed is None or ended is None or not unchanged:
        choice.begin(found)
        return
    again = ended + timedelta(seconds=after_s)
    is_early = ended <= situation.now < again
    if failed.outcome is not OperationOutcome.FAILED or not is_early:
        _begin_or_rest(situation, choice, found)
        return
    text = f"{found.kind.value} of {found.target} failed and begins again at {timestamp(again)}: "
    choice.wait(ProgressingReason.RETRYING, text + failed.message, again)


def _begin_or_rest(situation: Situation, choice: Choice, found: OperationStatus) -> None:
    """Begin it, unless somebody undoes it again and again: then once in a while."""
    now = situation.now
    ends = [
        ended
        for finished in situation.status.last_operations
        if (finished.kind, finished.target) == (found.kind, found.target)
        and (ended := moment(finished.finished)) is not None
        and ended <= now < ended + timedelta(seconds=RETRY_AFTER_S)
    ]
    if len(ends) < MAX_REPEATS:
        choice.begin(found)
        return
    again = ends[-1] + timedelta(seconds=RETRY_AFTER_S)
    text = (
        f"{found.kind.value} of {found.target} ended {len(ends)} times within "
        f"{RETRY_AFTER_S:g} s and is wanted again: look who undoes it; it begins again at "
        f"{timestamp(again)}"
    )
    choice.wait(ProgressingReason.RETRYING, text, again)


def _is_down(situation: Situation) -> bool:
    """Return whether no members are wanted now."""
    status = situation.status
    return bool(status.stopped) or situation.stop_wanted or is_restoring(situation.cluster)


def _down_text(situation: Situation) -> str:
    if is_restoring(situation.cluster):
        return "the cluster is being restored: there is no member yet"
    return "there are no members: spec.runState is Stopped"


_POLICIES: Final[tuple[Callable[[Situation, Requests, Choice], None], ...]] = (
    _recover,
    _restore,
    _run_state,
    _shrink,
    _restart,
    _change_state,
    _wan,
    _apply_live,
    _backup,
)
