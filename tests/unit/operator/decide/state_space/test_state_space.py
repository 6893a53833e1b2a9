"""`decide` in every state that a small world can come into.

Each exploration begins with a cluster that is well, or new, and some changes that users may still
make and things that may still go wrong, in any order and at any moment, the operator's own end
among them. `exploring.py` has what must hold in each state, and from each on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.decide import decide
from grid_operator.decide.calls import Endpoint
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.exploring import BrokenError, Decide, Explorer
from tests.unit.operator.decide.state_space.journeys import settled
from tests.unit.operator.decide.state_space.waiting import judged
from tests.unit.operator.decide.state_space.world import Spec, TwiceError, World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from grid_operator.decide.model import Decision, Desired, Observed
    from tests.unit.operator.decide.state_space.moves import Edit

RUN_STATES = (moves.STOP, moves.RUN)
PAUSES = (moves.PAUSE, moves.RESUME)
GIVE_UP = (Endpoint.FORCE_START, Endpoint.PARTIAL_START)


@pytest.mark.parametrize(
    ("start", "edits", "budget"),
    [
        pytest.param(World(), (*RUN_STATES, moves.ROLL), (1, 1), id="new"),
        pytest.param(settled(), (*RUN_STATES, moves.ROLL), (2, 1), id="stop and roll"),
        pytest.param(settled(), (*RUN_STATES, *PAUSES, moves.ROLL), (3, 0), id="stop and pause"),
        pytest.param(
            settled(),
            (moves.FREEZE, moves.CORRECT, moves.STOP),
            (2, 1),
            id="cluster state",
        ),
        pytest.param(
            settled(Spec(cluster_state="Active", drift_policy="Correct")),
            (moves.FREEZE, moves.LEAVE, moves.STOP),
            (1, 1),
            id="drift corrected",
        ),
        pytest.param(settled(), (moves.RESTART, moves.ROLL), (2, 1), id="restart"),
        pytest.param(settled(), (moves.ROLL, moves.ROLL_BACK), (2, 1), id="roll back"),
        pytest.param(
            settled(),
            (moves.BACKUP, moves.INTERRUPT, moves.STOP),
            (2, 1),
            id="backup",
        ),
        pytest.param(
            settled(),
            (moves.RESTART, moves.RESTART_AGAIN, moves.BACKUP, moves.BACKUP_AGAIN),
            (2, 0),
            id="two requests",
        ),
        pytest.param(
            settled(),
            (moves.FORCE, moves.FORCE_AGAIN, moves.FORCE_WRONGLY, moves.PARTIAL),
            (2, 1),
            id="recover",
        ),
        pytest.param(settled(), (moves.FORCE, moves.ROLL, moves.STOP), (2, 1), id="recover or not"),
        pytest.param(settled(), (moves.GIVE, moves.ROLL), (2, 1), id="live changes"),
        pytest.param(
            settled(may_hold=True),
            (moves.delete, moves.end_namespace, moves.PAUSE, moves.BACKUP),
            (2, 1),
            id="deletion",
        ),
        pytest.param(
            settled(Spec(sidecar=True)),
            (moves.STOP, moves.ROLL, moves.RESTART),
            (1, 2),
            id="sidecar",
        ),
        pytest.param(
            World(spec=Spec(restores=True)),
            (moves.STOP, moves.PAUSE, moves.ROLL),
            (1, 1),
            id="restore",
        ),
    ],
)
def test_every_state(
    start: World, edits: Sequence[Edit], budget: tuple[int, int], kstatus: Path
) -> None:
    changes, faults = budget

    explorer = Explorer(edits)
    states = explorer.explore(replace(start, edits=changes, faults=faults))

    assert states > 300
    shown = list(explorer.statuses.values())
    found = judged(kstatus, (one.cluster for one in shown))
    wrong = [
        (one, judgement)
        for one, judgement in zip(shown, found, strict=True)
        if judgement != one.wanted
    ]
    assert wrong == []


def harmless(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Decide as `decide`, and let nobody give up data."""
    decision = decide(observed, desired, now)
    if decision.call is not None and decision.call.endpoint in GIVE_UP:
        raise BrokenError(f"data is given up: {decision.call.key}")
    return decision


def test_nothing_gives_up_data_that_does_not_name_this_cluster() -> None:
    damaged = settled().with_disk(damaged=True).with_pod(process="damaged")
    edits = (moves.FORCE_WRONGLY, moves.RESTART, moves.ROLL, moves.STOP, moves.RUN)

    Explorer(edits, decide=harmless).explore(replace(damaged, edits=2, faults=0))

    with pytest.raises(BrokenError, match="given up"):
        Explorer((moves.FORCE,), decide=harmless).explore(replace(damaged, edits=1, faults=0))


def test_nothing_that_came_with_the_object_is_carried_out() -> None:
    """It may be made again from what was saved of a former one."""
    asked = (("gridcluster.io/backup", "b1"), ("gridcluster.io/restart", "r1"))

    def careful(observed: Observed, desired: Desired, now: datetime) -> Decision:
        decision = decide(observed, desired, now)
        operation = decision.status.operation
        if operation is not None and operation.request:
            raise BrokenError(f"a former object's request is carried out: {operation.request}")
        return decision

    edits = (*PAUSES, moves.ROLL)
    Explorer(edits, decide=careful).explore(replace(World(annotations=asked), edits=1, faults=1))

    known = replace(settled(), annotations=asked)
    with pytest.raises(BrokenError, match="former"):
        Explorer(edits, decide=careful).explore(replace(known, edits=1, faults=0))


def hasty(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Decide as `decide`, but call in the round that writes the intent, not after it."""
    first = decide(observed, desired, now)
    cluster = observed.cluster.model_copy(update={"status": first.status})
    second = decide(replace(observed, cluster=cluster), desired, now)
    return second if second.call is not None and not first.call else first


def forgetful(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Decide as `decide`, but give every attempt a key of its own."""
    decision = decide(observed, desired, now)
    if decision.call is None or decision.status.operation is None:
        return decision
    key = f"{decision.call.key}.{decision.status.operation.attempts}"
    return replace(decision, call=replace(decision.call, key=key))


def endless(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Decide as `decide`, but never take anything out of the journal."""
    decision = decide(observed, desired, now)
    if observed.cluster.status.operation is None or decision.status.operation is not None:
        return decision
    return replace(decision, status=observed.cluster.status)


def rash(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Decide as `decide`, but delete an outdated pod without writing it down."""
    decision = decide(observed, desired, now)
    operation = decision.status.operation
    rolls = operation is not None and operation.kind == "Restart" and not decision.call
    return replace(decision, delete_pods=observed.pods) if rolls else decision


@pytest.mark.parametrize(
    ("faulty", "told"),
    [
        (hasty, "no step that is written down"),
        (forgetful, "took effect twice"),
        (endless, "does not come to what is wanted"),
        (rash, "without being written down"),
    ],
)
def test_an_operator_that_breaks_the_rules_is_found_out(faulty: Decide, told: str) -> None:
    explorer = Explorer((moves.STOP, moves.ROLL, moves.BACKUP), decide=faulty)

    with pytest.raises((BrokenError, TwiceError), match=told):
        explorer.explore(replace(settled(), edits=1, faults=1))
