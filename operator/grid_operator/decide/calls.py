"""Calls to members' management endpoints, and how they can end. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject


class Endpoint(StrEnum):
    """What a member can be told; the value is the URL path."""

    CHANGE_STATE = "/grid/rest/management/cluster/changeState"
    CLUSTER_SHUTDOWN = "/grid/rest/management/cluster/clusterShutdown"
    MEMBER_SHUTDOWN = "/grid/rest/management/cluster/memberShutdown"
    BACKUP = "/grid/rest/management/cluster/backup"
    BACKUP_INTERRUPT = "/grid/rest/management/cluster/backupInterrupt"
    PARTIAL_START = "/grid/rest/management/cluster/partialStart"
    FORCE_START = "/grid/rest/management/cluster/forceStart"
    CONFIG_UPLOAD = "/grid/rest/config/upload"
    LOG_LEVEL = "/grid/rest/log-level"
    LICENSE = "/grid/rest/license"
    WAN_ADD = "/grid/rest/wan/addWanConfig"
    WAN_REMOVE = "/grid/rest/wan/removeWanConfig"
    WAN_PAUSE = "/grid/rest/wan/pausePublisher"
    WAN_RESUME = "/grid/rest/wan/resumePublisher"
    WAN_STOP = "/grid/rest/wan/stopPublisher"


@dataclass(frozen=True, slots=True)
class MemberCall:
    """One call. It is sent only while the live status holds the intent that it belongs to."""

    pod: KubeObject
    """The live pod: its address, and its uid, which tells it from a later pod of the name."""
    endpoint: Endpoint
    key: str
    """Idempotency-Key: the same for every attempt of one step."""
    parameter: str | None = field(default=None, repr=False)
    """The third part of the body, decoded; may be a licence."""
    forever: bool = False
    """The member is not to come back: it hands over what it holds before it stops."""


@dataclass(frozen=True, slots=True)
class CallDone:
    """The member did it, or had done it under this key before."""

    operation: str = ""
    """The member's id of the long operation that the call began, empty when it is none."""


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The member understood and did not do it; the same call may be answered otherwise later."""

    message: str
    conflict: bool = False
    """It answered 409: something else was in the way, such as another change of the cluster."""


@dataclass(frozen=True, slots=True)
class CallUnknown:
    """No complete answer: it may have been done. To be sent again with the same key."""

    message: str


CallOutcome: TypeAlias = CallDone | CallRefused | CallUnknown
