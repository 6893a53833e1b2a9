"""In which part of its life a cluster is, told by its spec and its status alone.

`render` and `decide` both go by these: what is rendered follows the journal in the status, so an
operation changes objects by entering a step.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from grid_operator.api.lifecycle import RunState
from grid_operator.api.status import OperationKind

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster


class Step(StrEnum):
    """What an operation does now; `operation.step` holds one of these."""

    CALL = "Call"
    """A member is told."""
    CONFIRM = "Confirm"
    """The members have to show what they were told."""
    PASSIVE = "Passive"
    """A member is told to make the cluster passive."""
    SHUTDOWN = "Shutdown"
    """A member is told to shut the cluster down."""
    SCALE_DOWN = "ScaleDown"
    """No pods are wanted, and the last of them have to go."""
    SCALE_UP = "ScaleUp"
    """Pods are wanted again."""
    AWAIT_READY = "AwaitReady"
    """Members have to start and become ready."""
    RESUME = "Resume"
    """A member is told to bring back the cluster state from before the stop."""
    LEAVE = "Leave"
    """A member is told to leave for good."""
    AWAIT_LEFT = "AwaitLeft"
    """What it holds has to be with the others, and none of them may miss it."""
    REMOVE_POD = "RemovePod"
    """Nobody misses it: its pod and its volume claim go."""
    SHUT_DOWN_MEMBER = "ShutDownMember"
    """A member is told to stop, because its pod is going to be replaced."""
    DELETE_POD = "DeletePod"
    """Its pod is deleted."""
    UPLOAD = "Upload"
    """A member is given configuration."""
    LOG_LEVEL = "LogLevel"
    """A member is given its log level."""
    LICENSE = "License"
    """A member is given the licence."""
    BEGIN = "Begin"
    """A member is told to begin a backup."""
    AWAIT_FINISH = "AwaitFinish"
    """The backup has to end."""
    INTERRUPT = "Interrupt"
    """A member is told to give the backup up."""
    COPY = "Copy"
    """A Job fills the volume."""
    CLEAN_UP = "CleanUp"
    """The Job is removed."""
    FINISH = "Finish"
    """All is done that was to be done; it has to be written down."""
    GIVE_UP = "GiveUp"
    """A member refused for good; it has to be written down."""


def is_restoring(cluster: GridCluster) -> bool:
    """Return whether the data of the cluster has to come from a backup and is not there yet."""
    return cluster.spec.restore_from is not None and cluster.status.restored_from is None


def is_copying(cluster: GridCluster) -> bool:
    """Return whether the Job that fills the volume should exist now."""
    operation = cluster.status.operation
    return (
        is_restoring(cluster)
        and operation is not None
        and operation.kind is OperationKind.RESTORE
        and operation.step == Step.COPY
    )


def is_at_rest(cluster: GridCluster) -> bool:
    """Return whether nobody new can join the cluster: it is stopped, passive or not there yet.

    The former two last from the wish to stop to its full return, the latter while members wait for
    the backup that they begin as.
    """
    status = cluster.status
    operation = status.operation
    moving = operation is not None and operation.kind in (OperationKind.STOP, OperationKind.START)
    wished = cluster.spec.run_state is RunState.STOPPED
    return wished or moving or bool(status.stopped or status.resume_state or status.importing)


def present_size(cluster: GridCluster, recorded: int | None) -> int:
    """Return how many members there are to be now.

    More than the spec says as long as some have to leave, which they do one after the other.

    Args:
        cluster: The cluster.
        recorded: For how many members the pods of now were made; None: there are none yet.
    """
    size, operation = cluster.spec.size, cluster.status.operation
    if recorded is None:
        return size
    if operation is not None and operation.kind is OperationKind.SHRINK:
        # Who was told to leave does, whatever the spec says by now; and never two at once.
        last = last_ordinal(operation.target)
        if last in (recorded - 1, recorded):
            return last if operation.step == Step.REMOVE_POD else last + 1
    return max(size, recorded) if size > 1 else size


def last_ordinal(pod: str) -> int:
    """Return the ordinal at the end of a pod's name, -1 when there is none."""
    text = pod.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def removed_ordinal(cluster: GridCluster) -> int | None:
    """Return whose pod goes for good, its volume claim too; None: nobody's."""
    operation = cluster.status.operation
    if operation is None or operation.kind is not OperationKind.SHRINK:
        return None
    return last_ordinal(operation.target) if operation.step == Step.REMOVE_POD else None


def wanted_replicas(cluster: GridCluster) -> int | None:
    """Return how many member pods should exist; None: no StatefulSet as long as data is missing."""
    if is_restoring(cluster):
        return None
    if removed_ordinal(cluster) is not None:
        # A stop waits: claims are deleted now with the pods that go.
        return cluster.spec.size
    if cluster.spec.run_state is RunState.STOPPED and not cluster.status.size:
        # Nobody is there who would have to be told first.
        return 0
    operation = cluster.status.operation
    if operation is not None and operation.kind is OperationKind.STOP:
        # Before ScaleDown the members still have to be told.
        return 0 if operation.step in (Step.SCALE_DOWN, Step.FINISH) else cluster.spec.size
    return 0 if cluster.status.stopped else cluster.spec.size
