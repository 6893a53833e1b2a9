"""What a member does about a store that is damaged: it waits to be told, and goes on or gives up.

    OPENING ── opened ──▶ RUNNING
       │  ▲──────────── done ────────────┐
       └─ damaged ──▶ WAITING ── forceStart, partialStart ──▶ WIPING, SALVAGING
                         ▲ │ └─ time is over, stop ──▶ ENDED        │
                         │ └────────────────────────────────────────┘
                         └──────────────── failed ──────────────────┘

While it waits REST answers and the member is not ready. What no recovery may touch, a foreign,
newer or locked store, ends the start at once. `step` is the whole logic; `StoreRecovery` in
`store_recovery` performs it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

PARTIAL_POLICIES: Final = frozenset(
    {"PARTIAL_RECOVERY_MOST_RECENT", "PARTIAL_RECOVERY_MOST_COMPLETE"}
)
"""One member has one copy of its data, so both mean the same: what can be read of that."""
_LOADING: Final = (
    "the data is being loaded: it cannot be told yet whether it is damaged, ask again in 5 s"
)
HEALTHY: Final = "the store is healthy and in use"
UNDER_WAY: Final = "another recovery is under way"
STOPPING: Final = "the member is stopping"
NOT_PARTIAL: Final = (
    "persistence.cluster-data-recovery-policy is FULL_RECOVERY_ONLY: set "
    "PARTIAL_RECOVERY_MOST_RECENT or PARTIAL_RECOVERY_MOST_COMPLETE"
)


class RecoveryStage(enum.Enum):
    """How far a start is."""

    OPENING = "opening"
    WAITING = "waiting"
    SALVAGING = "salvaging"
    WIPING = "wiping"
    RUNNING = "running"
    ENDED = "ended"


_WORKING: Final = frozenset({RecoveryStage.SALVAGING, RecoveryStage.WIPING})


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """A start, as `step` knows it."""

    partial: bool
    """Whether the policy allows to start from what is left."""
    stage: RecoveryStage = RecoveryStage.OPENING
    problem: str = ""
    """Why the store cannot be opened."""
    request: int | None = None
    """The call that a recovery is under way for."""
    has_clock: bool = False
    """Whether the time has begun to run, and whether it is over."""
    is_late: bool = False
    stopping: bool = False


# Events


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """The store is open and replayed, or cannot be opened."""

    problem: str | None = None
    """Why it cannot be opened."""
    damaged: bool = False
    """Whether a recovery may help."""


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """A caller wants the stored data deleted, or the start to go on with what is left."""

    call: int
    forced: bool
    """Whether the data is to be deleted."""


@dataclass(frozen=True, slots=True)
class RecoveryEnd:
    """There is another store in the place of the damaged one, or that is as it was."""

    problem: str | None = None
    """Why the store is as it was."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """Nobody said in time what to do."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    """The member is to stop."""


Event: TypeAlias = OpenEnd | RecoveryRequest | RecoveryEnd | DeadlinePassed | StopRequest


# Effects


class RecoveryAction(enum.Enum):
    """What the driver does; it posts an event when `OPEN`, `SALVAGE` or `WIPE` is over."""

    OPEN = "open the store and replay it"
    SALVAGE = "make a store of what is left"
    WIPE = "delete the store"
    START_CLOCK = "let the time run"
    GIVE_UP = "end the start with the error"
    LEAVE = "end the start without one"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """Answer a call: problem None is success."""

    call: int
    problem: str | None


Effect: TypeAlias = RecoveryAction | CallAnswer
Step: TypeAlias = tuple[RecoveryState, tuple[Effect, ...]]


def step(state: RecoveryState, event: Event) -> Step:
    """Return the next state and what to do, in that order."""
    match event:
        case RecoveryRequest():
            return _take_request(state, event)
        case DeadlinePassed():
            return _finish(replace(state, is_late=True), RecoveryAction.GIVE_UP)
        case StopRequest():
            return _finish(replace(state, stopping=True), RecoveryAction.LEAVE)
        case OpenEnd() if state.stage is RecoveryStage.OPENING:
            return _finish_opening(state, event)
        case RecoveryEnd() if state.stage in _WORKING:
            return _finish_work(state, event.problem)
    return state, ()


def _finish(state: RecoveryState, end: RecoveryAction) -> Step:
    """End a start that waits; what is under way is finished first."""
    if state.stage is RecoveryStage.WAITING:
        return replace(state, stage=RecoveryStage.ENDED), (end,)
    return state, ()


def _take_request(state: RecoveryState, event: RecoveryRequest) -> Step:
    refused = {
        RecoveryStage.OPENING: _LOADING,
        RecoveryStage.RUNNING: HEALTHY,
        RecoveryStage.SALVAGING: UNDER_WAY,
        RecoveryStage.WIPING: UNDER_WAY,
        RecoveryStage.ENDED: STOPPING,
    }.get(state.stage)
    if refused is None and not event.forced and not state.partial:
        refused = NOT_PARTIAL
    if refused is not None:
        return state, (CallAnswer(event.call, refused),)
    stage = RecoveryStage.WIPING if event.forced else RecoveryStage.SALVAGING
    begun = replace(state, stage=stage, request=event.call)
    return begun, (RecoveryAction.WIPE if event.forced else RecoveryAction.SALVAGE,)


def _finish_opening(state: RecoveryState, event: OpenEnd) -> Step:
    if event.problem is None:
        return replace(state, stage=RecoveryStage.RUNNING, problem=""), ()
    failed = replace(state, problem=event.problem)
    if event.damaged and not (state.is_late or state.stopping):
        clock = () if state.has_clock else (RecoveryAction.START_CLOCK,)
        return replace(failed, stage=RecoveryStage.WAITING, has_clock=True), clock
    end = RecoveryAction.LEAVE if state.stopping else RecoveryAction.GIVE_UP
    return replace(failed, stage=RecoveryStage.ENDED), (end,)


def _finish_work(state: RecoveryState, problem: str | None) -> Step:
    replies = () if state.request is None else (CallAnswer(state.request, problem),)
    rested = replace(state, request=None)
    if state.stopping:
        return replace(rested, stage=RecoveryStage.ENDED), (*replies, RecoveryAction.LEAVE)
    if problem is None:
        return replace(rested, stage=RecoveryStage.OPENING), (*replies, RecoveryAction.OPEN)
    if state.is_late:
        return replace(rested, stage=RecoveryStage.ENDED), (*replies, RecoveryAction.GIVE_UP)
    return replace(rested, stage=RecoveryStage.WAITING), replies
