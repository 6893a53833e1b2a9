"""`gridctl stop | start | set-state`: a change of the spec, followed until it has come about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_operator.api.lifecycle import ClusterState, RunState
from grid_operator.api.status import OperationKind
from gridctl.judging import SpecJudge, is_ready, status_of
from gridctl.requesting import STOPPED, NotPossibleError
from gridctl.waiting import Ended, await_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus
    from gridctl.kubernetes import Clusters
    from gridctl.waiting import Progress

STATES: Final = {state.value.lower(): state for state in ClusterState}
"""How states are written on the command line, in any case."""


@dataclass(frozen=True, slots=True)
class Following:
    """How long a command follows what it began, and where it says so."""

    wait: bool
    timeout_s: float
    progress: Progress
    now: Callable[[], datetime]


async def stop(clusters: Clusters, name: str, following: Following) -> Ended:
    """Ask for no members, and wait until none is left."""
    kinds = frozenset({OperationKind.STOP})
    change = {"runState": RunState.STOPPED.value}
    done = f"{name} is stopped; what it has on disk is kept"
    return await _change(clusters, name, change, kinds, _is_stopped, done, following)


async def start(clusters: Clusters, name: str, following: Following) -> Ended:
    """Ask for members again, and wait until they are ready."""
    kinds = frozenset({OperationKind.START, OperationKind.RESTORE})
    change = {"runState": RunState.RUNNING.value}
    return await _change(clusters, name, change, kinds, _is_running, f"{name} is Ready", following)


async def set_state(
    clusters: Clusters, name: str, state: ClusterState, following: Following
) -> Ended:
    """Ask for a cluster state, and wait until every member shows it.

    Raises:
        NotPossibleError: There is no member that could show it.
    """
    kinds = frozenset({OperationKind.CHANGE_STATE})

    def reached(status: GridClusterStatus) -> bool:
        return status.applied_cluster_state == state.value == status.cluster_state

    change = {"clusterState": state.value}
    done = f"{name} is {state.value}"
    before = await clusters.fetch(name)
    if (before.get("spec") or {}).get("runState") == RunState.STOPPED.value:
        raise NotPossibleError(STOPPED)
    drifted = _drift(before, state)
    if drifted is not None:
        return drifted
    return await _change(clusters, name, change, kinds, reached, done, following)


async def _change(
    clusters: Clusters,
    name: str,
    change: KubeObject,
    kinds: frozenset[OperationKind],
    reached: Callable[[GridClusterStatus], bool],
    done: str,
    following: Following,
) -> Ended:
    changed = await clusters.change(name, lambda _: {"spec": change})
    if not following.wait:
        return Ended(True, f"{name} was told; gridctl explain {name} shows how far it is")
    known = frozenset(over.id for over in status_of(changed).last_operations)
    judge = SpecJudge(
        int(changed["metadata"].get("generation", 0)), kinds, known, reached, done, following.now
    )
    return await await_end(
        lambda: clusters.fetch(name), judge, following.progress, following.timeout_s
    )


def _is_stopped(status: GridClusterStatus) -> bool:
    return status.stopped is True


def _is_running(status: GridClusterStatus) -> bool:
    return status.stopped is not True and is_ready(status)


def _drift(cluster: KubeObject, state: ClusterState) -> Ended | None:
    """Return that asking again changes nothing, when that is so."""
    spec, status = cluster.get("spec") or {}, status_of(cluster)
    wanted = spec.get("clusterState") == state.value == status.applied_cluster_state
    corrects = spec.get("clusterStateDriftPolicy") == "Correct"
    if not wanted or corrects or status.operation or status.cluster_state == state.value:
        return None
    return Ended(
        False,
        f"spec.clusterState is {state.value} already, and the members show {status.cluster_state}: "
        "somebody else changed it. Set spec.clusterStateDriftPolicy to Correct",
    )
