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


class Stage(enum.Enum):
    """How far a start is."""

    OPENING = "opening"
    WAITING = "waiting"
    SALVAGING = "salvaging"
    WIPING = "wiping"
    RUNNING = "running"
    ENDED = "ended"


_WORKING: Final = frozenset({Stage.SALVAGING, Stage.WIPING})


@dataclass(frozen=True, slots=True)
class State:
    """A start, as `step` knows it."""

    partial: bool
    """Whether the policy allows to start from what is left."""
    stage: Stage = Stage.OPENING
    problem: str = ""
    """Why the store cannot be opened."""
    asked: int | None = None
    """The call that a recovery is under way for."""
    timed: bool = False
    """Whether the time has begun to run, and whether it is over."""
    late: bool = False
    stopping: bool = False


# Events


@dataclass(frozen=True, slots=True)
class Opened:
    """The store is open and replayed."""


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The store cannot be opened."""

    problem: str
    damaged: bool
    """Whether a recovery may help."""


@dataclass(frozen=True, slots=True)
class ForceAsked:
    """Somebody wants the stored data deleted."""

    call: int


@dataclass(frozen=True, slots=True)
class PartialAsked:
    """Somebody wants to go on with what is left."""

    call: int


@dataclass(frozen=True, slots=True)
class RecoveryDone:
    """There is another store in the place of the damaged one."""


@dataclass(frozen=True, slots=True)
class RecoveryFailed:
    """The damaged store is as it was."""

    problem: str


@dataclass(frozen=True, slots=True)
class TimeOver:
    """Nobody said in time what to do."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The member is to stop."""


Event: TypeAlias = (
    Opened
    | OpenFailed
    | ForceAsked
    | PartialAsked
    | RecoveryDone
    | RecoveryFailed
    | TimeOver
    | StopAsked
)


# Effects


class Do(enum.Enum):
    """What the driver does; it posts an event when `OPEN`, `SALVAGE` or `WIPE` is over."""

    OPEN = "open the store and replay it"
    SALVAGE = "make a store of what is left"
    WIPE = "delete the store"
    START_CLOCK = "let the time run"
    GIVE_UP = "end the start with the error"
    LEAVE = "end the start without one"


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a call: problem None is success."""

    call: int
    problem: str | None


Effect: TypeAlias = Do | Reply
Step: TypeAlias = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event) -> Step:
    """Return the next state and what to do, in that order."""
    match event:
        case ForceAsked() | PartialAsked():
            return _asked(state, event)
        case TimeOver():
            return _over(replace(state, late=True), Do.GIVE_UP)
        case StopAsked():
            return _over(replace(state, stopping=True), Do.LEAVE)
        case _ if state.stage is Stage.OPENING:
            return _opening(state, event)
        case RecoveryDone() | RecoveryFailed() if state.stage in _WORKING:
            return _worked(state, event)
    return state, ()


def _over(state: State, end: Do) -> Step:
    """End a start that waits; what is under way is finished first."""
    if state.stage is Stage.WAITING:
        return replace(state, stage=Stage.ENDED), (end,)
    return state, ()


def _asked(state: State, event: ForceAsked | PartialAsked) -> Step:
    refused = {
        Stage.OPENING: _LOADING,
        Stage.RUNNING: HEALTHY,
        Stage.SALVAGING: UNDER_WAY,
        Stage.WIPING: UNDER_WAY,
        Stage.ENDED: STOPPING,
    }.get(state.stage)
    forced = isinstance(event, ForceAsked)
    if refused is None and not forced and not state.partial:
        refused = NOT_PARTIAL
    if refused is not None:
        return state, (Reply(event.call, refused),)
    stage = Stage.WIPING if forced else Stage.SALVAGING
    begun = replace(state, stage=stage, asked=event.call)
    return begun, (Do.WIPE if forced else Do.SALVAGE,)


def _opening(state: State, event: Event) -> Step:
    match event:
        case Opened():
            return replace(state, stage=Stage.RUNNING, problem=""), ()
        case OpenFailed(problem, True) if not (state.late or state.stopping):
            clock = () if state.timed else (Do.START_CLOCK,)
            return replace(state, stage=Stage.WAITING, problem=problem, timed=True), clock
        case OpenFailed(problem, _):
            ended = replace(state, stage=Stage.ENDED, problem=problem)
            return ended, (Do.LEAVE if state.stopping else Do.GIVE_UP,)
    return state, ()


def _worked(state: State, event: RecoveryDone | RecoveryFailed) -> Step:
    problem = event.problem if isinstance(event, RecoveryFailed) else None
    replies = () if state.asked is None else (Reply(state.asked, problem),)
    rested = replace(state, asked=None)
    if state.stopping:
        return replace(rested, stage=Stage.ENDED), (*replies, Do.LEAVE)
    if problem is None:
        return replace(rested, stage=Stage.OPENING), (*replies, Do.OPEN)
    if state.late:
        return replace(rested, stage=Stage.ENDED), (*replies, Do.GIVE_UP)
    return replace(rested, stage=Stage.WAITING), replies
