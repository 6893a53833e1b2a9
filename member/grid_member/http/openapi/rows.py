"""What the description says of each row of the routing table beside its path and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from grid_member.cluster.cp.subsystem import (
    CpGroupDocument,
    CpGroupId,
    CpMemberDocument,
    CpReplicatedGroupDocument,
    CpSessionDocument,
)
from grid_member.cluster.management.usage import UsageDocument
from grid_member.cluster.membership.documents import HealthDocument
from grid_member.cluster.values.operations import OperationDocument
from grid_member.http.openapi import answer_types

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class AnswerDescription:
    """One answer. Without a kind the body is empty; `value` is whatever was stored."""

    description: str
    kind: object = None
    """The type of the JSON document, "value", or "number" for a decimal number as text."""
    headers: tuple[str, ...] = ()


VALUE: Final = "value"
NUMBER: Final = "number"
DONE: Final = AnswerDescription("Done.")
NOT_CONFIGURED: Final = AnswerDescription(
    "No configuration matches the name; or, under a group that is on, no such path.",
    headers=("X-Grid-Error",),
)
UNKNOWN: Final = AnswerDescription("What is named does not exist.", headers=("X-Grid-Error",))
CONFLICT: Final = AnswerDescription("The present state does not allow it.", answer_types.Failure)
SUCCESS: Final = AnswerDescription("Done, or what was asked for goes on.", answer_types.Success)


@dataclass(frozen=True, slots=True)
class OperationDescription:
    """A row with one method. The answers come on top of those that every request may get."""

    summary: str
    answers: Mapping[int, AnswerDescription] = field(default_factory=dict)
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and example of the body parameters behind the credentials."""
    takes_value: bool = False
    """Whether the body is a value, kept as it is."""
    deprecated: bool = False
    headers: tuple[str, ...] = ()
    """Of the request, that change what it does."""


def _json_answer(kind: object, description: str = "Done.") -> AnswerDescription:
    return AnswerDescription(description, kind)


def _read_row(summary: str, kind: object, **more: AnswerDescription) -> OperationDescription:
    return OperationDescription(summary, {200: _json_answer(kind), **_statuses(more)})


def _management_row(
    summary: str,
    kind: object = answer_types.Success,
    *parameters: tuple[str, str],
    deprecated: bool = False,
    **more: AnswerDescription,
) -> OperationDescription:
    answers = {200: _json_answer(kind), 409: CONFLICT, **_statuses(more)}
    return OperationDescription(summary, answers, parameters, deprecated=deprecated)


def _statuses(more: Mapping[str, AnswerDescription]) -> dict[int, AnswerDescription]:
    return {int(name.removeprefix("s")): shown for name, shown in more.items()}


_NO_NAME: Final = OperationDescription("A path that ends before the name: always 400")
_MAPS: Final[dict[tuple[str, str], OperationDescription]] = {
    ("POST", "/grid/rest/maps/{name}/{key...}"): OperationDescription(
        "Create or replace an entry; the Content-Type is kept with it",
        {200: DONE, 404: NOT_CONFIGURED},
        takes_value=True,
    ),
    ("GET", "/grid/rest/maps/{name}/{key...}"): OperationDescription(
        "Read an entry",
        {
            200: AnswerDescription("The value, with the Content-Type it was written with.", VALUE),
            204: AnswerDescription("There is no such entry."),
            404: NOT_CONFIGURED,
        },
    ),
    ("DELETE", "/grid/rest/maps/{name}/{key...}"): OperationDescription(
        "Remove an entry; the same answer when there was none", {200: DONE, 404: NOT_CONFIGURED}
    ),
    ("DELETE", "/grid/rest/maps/{name}"): OperationDescription(
        "Remove all entries of a map", {200: DONE, 404: NOT_CONFIGURED}
    ),
    **{(method, "/grid/rest/maps"): _NO_NAME for method in ("GET", "POST", "DELETE")},
}
_QUEUES: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", "/grid/rest/queues/{name}/size"): OperationDescription(
        "Count the items of a queue",
        {200: AnswerDescription("The number of items.", NUMBER), 404: NOT_CONFIGURED},
    ),
    ("DELETE", "/grid/rest/queues/{name}/{seconds}"): OperationDescription(
        "Take the head of a queue, waiting so many seconds for one",
        {
            200: AnswerDescription(
                "The item, gone from the queue when this is handed over.", VALUE
            ),
            204: AnswerDescription("No item came."),
            404: NOT_CONFIGURED,
        },
    ),
    ("POST", "/grid/rest/queues/{name}"): OperationDescription(
        "Append an item; 503 without Retry-After when the queue is full",
        {200: DONE, 404: NOT_CONFIGURED},
        takes_value=True,
    ),
    **{(method, "/grid/rest/queues"): _NO_NAME for method in ("GET", "POST", "DELETE")},
}

_NODE_STATES: Final = Literal["STARTING", "ACTIVE", "PASSIVE"]
_CLUSTER_STATES: Final = Literal["ACTIVE", "NO_MIGRATION", "FROZEN", "PASSIVE", "IN_TRANSITION"]
_HEALTH: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", "/grid/health/ready"): OperationDescription(
        "Whether the member can be used: 200 or 503; there is no HEAD here", {200: DONE}
    ),
    ("GET", "/grid/health/node-state"): _read_row("The state of the member", _NODE_STATES),
    ("GET", "/grid/health/cluster-state"): _read_row("The state of the cluster", _CLUSTER_STATES),
    ("GET", "/grid/health/cluster-safe"): OperationDescription(
        "Whether no data would be lost or moved: 200 or 503", {200: DONE}
    ),
    ("GET", "/grid/health/migration-queue-size"): _read_row("How many replicas move", int),
    ("GET", "/grid/health/cluster-size"): _read_row("How many members there are", int),
    ("GET", "/grid/health"): _read_row(
        "All health checks; HEAD shows them as Grid-* headers", HealthDocument
    ),
    ("GET", "/grid/health/{check...}"): OperationDescription(
        "A check that does not exist: always 400"
    ),
}
_INFORMATION: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", "/grid/rest/cluster"): _read_row("The members", answer_types.ClusterDocument),
    ("GET", "/grid/rest/instance"): _read_row("The member's name", answer_types.InstanceDocument),
    ("GET", "/grid/rest/openapi.json"): _read_row("This description", object),
}

_CLUSTER: Final = "/grid/rest/management/cluster"
_VERSION: Final = answer_types.VersionDocument
_STATE: Final = answer_types.StateDocument
_START: Final = answer_types.Success | answer_types.Failure
_STOPS: Final = AnswerDescription(
    "It stops, or begins to leave.", answer_types.Success, ("X-Grid-Operation",)
)
_BEGUN: Final = AnswerDescription(
    "It is being written.", answer_types.Success, ("X-Grid-Operation",)
)
_MANAGEMENT: Final[dict[tuple[str, str], OperationDescription]] = {
    ("POST", f"{_CLUSTER}/state"): _management_row("The cluster state", _STATE),
    ("GET", f"{_CLUSTER}/version"): _read_row("The cluster version", _VERSION),
    ("POST", f"{_CLUSTER}/memberShutdown"): OperationDescription(
        "Answer, then stop the member",
        {200: _STOPS, 409: CONFLICT},
        headers=("X-Grid-Leave",),
    ),
    ("POST", f"{_CLUSTER}/nodes"): _management_row(
        "The members as text", answer_types.NodesDocument
    ),
    ("POST", f"{_CLUSTER}/changeState"): _management_row(
        "Change the cluster state", _STATE, ("state", "frozen")
    ),
    ("POST", f"{_CLUSTER}/clusterShutdown"): _management_row("Answer, then stop all members"),
    ("POST", f"{_CLUSTER}/version"): _management_row(
        "Change the cluster version", _VERSION, ("version", "1.2")
    ),
    ("POST", f"{_CLUSTER}/forceStart"): _management_row(
        "Delete the data of a store that cannot be read, and start", _START
    ),
    ("POST", f"{_CLUSTER}/partialStart"): _management_row(
        "Start with what can be read of a damaged store", _START
    ),
    ("POST", f"{_CLUSTER}/backup"): _management_row("Begin a backup of the store", s200=_BEGUN),
    ("POST", f"{_CLUSTER}/backupInterrupt"): _management_row(
        "Stop a backup; also when there is none"
    ),
    ("POST", f"{_CLUSTER}/hotBackup"): _management_row(
        "Begin a backup of the store, by its old name", deprecated=True, s200=_BEGUN
    ),
    ("POST", f"{_CLUSTER}/hotBackupInterrupt"): _management_row(
        "Stop a backup, by the call's old name", deprecated=True
    ),
    ("GET", f"{_CLUSTER}/operations"): _read_row(
        "The long operations, the oldest first", list[OperationDocument]
    ),
    ("GET", f"{_CLUSTER}/usage"): _read_row("What maps, queues and stores hold", UsageDocument),
}

_TEXT: Final = ("configuration", "grid: {map: {added: {}}}")
_CONFIG: Final = answer_types.ConfigDocument
_CONFIGURATION: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", "/grid/rest/license"): _read_row(
        "What is told of the license", answer_types.LicenseDocument, s404=UNKNOWN
    ),
    ("POST", "/grid/rest/license"): _management_row(
        "Keep a license key", answer_types.LicenseSetDocument, ("license", "KEY")
    ),
    ("GET", "/grid/rest/log-level"): _read_row("The log level", answer_types.LogLevelDocument),
    ("POST", "/grid/rest/log-level"): _management_row(
        "Change the log level of this member", answer_types.SuccessMessage, ("level", "INFO")
    ),
    ("DELETE", "/grid/rest/log-level"): _management_row(
        "Restore the configured log level", answer_types.SuccessMessage
    ),
    ("POST", "/grid/rest/log-level/reset"): _management_row(
        "Restore the configured log level", answer_types.SuccessMessage
    ),
    ("POST", "/grid/rest/config/reload"): _management_row(
        "Add what is new in the member's file", _CONFIG
    ),
    ("POST", "/grid/rest/config/upload"): _management_row(
        "Add what is new in a text", _CONFIG, _TEXT
    ),
    ("POST", "/grid/rest/config/update"): _management_row(
        "Add what is new in a text, by another name", _CONFIG, _TEXT
    ),
    ("GET", "/grid/rest/config/tcp-ip/member-list"): _read_row(
        "The members of the TCP/IP join", answer_types.MemberListDocument, s409=CONFLICT
    ),
    ("POST", "/grid/rest/config/tcp-ip/member-list"): _management_row(
        "Replace the members of the TCP/IP join",
        answer_types.MemberListSetDocument,
        ("addresses", "10.0.0.1:5701"),
    ),
}

_PUBLISHER: Final = (("replication", "r"), ("publisher", "p"))
_MAP: Final = ("map", "default")
_MISSING: Final = _json_answer(answer_types.Failure, "What is named does not exist.")


def _wan_row(
    summary: str, *parameters: tuple[str, str], kind: object = answer_types.Success
) -> OperationDescription:
    return _management_row(summary, kind, *parameters, s404=_MISSING)


_WAN: Final[dict[tuple[str, str], OperationDescription]] = {
    ("POST", "/grid/rest/wan/clearWanQueues"): _wan_row(
        "Clear the member's WAN queues", *_PUBLISHER
    ),
    ("POST", "/grid/rest/wan/pausePublisher"): _wan_row("Pause a publisher here", *_PUBLISHER),
    ("POST", "/grid/rest/wan/resumePublisher"): _wan_row("Resume a publisher here", *_PUBLISHER),
    ("POST", "/grid/rest/wan/stopPublisher"): _wan_row("Stop a publisher here", *_PUBLISHER),
    ("POST", "/grid/rest/wan/sync/map"): _wan_row(
        "Synchronise a map", *_PUBLISHER, _MAP, kind=answer_types.WanSyncDocument
    ),
    ("POST", "/grid/rest/wan/sync/allmaps"): _wan_row(
        "Synchronise all maps", *_PUBLISHER, kind=answer_types.WanSyncDocument
    ),
    ("POST", "/grid/rest/wan/consistencyCheck/map"): _wan_row(
        "Check whether a map is the same", *_PUBLISHER, _MAP, kind=answer_types.WanSyncDocument
    ),
    ("POST", "/grid/rest/wan/addWanConfig"): _wan_row("Add a WAN replication", ("wanConfig", "{}")),
    ("GET", "/grid/rest/wan/sync/progress/{uuid}"): _read_row(
        "How far a synchronisation is",
        answer_types.WanProgressDocument,
        s404=_MISSING,
        s409=CONFLICT,
    ),
}

_CP_ROOT: Final = "/grid/rest/cp-subsystem"


def _cp_read_row(summary: str, kind: object) -> OperationDescription:
    return _read_row(summary, kind, s404=UNKNOWN, s409=CONFLICT)


def _cp_change_row(summary: str) -> OperationDescription:
    return OperationDescription(summary, {200: DONE, 404: UNKNOWN, 409: CONFLICT})


_CP: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", f"{_CP_ROOT}/groups"): _cp_read_row("The groups", list[CpGroupId]),
    ("GET", f"{_CP_ROOT}/groups/{{name}}"): _cp_read_row(
        "A group", CpGroupDocument | CpReplicatedGroupDocument
    ),
    ("POST", f"{_CP_ROOT}/groups/{{name}}/remove"): _cp_change_row("Remove a group"),
    ("GET", f"{_CP_ROOT}/groups/{{name}}/sessions"): _cp_read_row(
        "The sessions of a group", list[CpSessionDocument]
    ),
    ("POST", f"{_CP_ROOT}/groups/{{name}}/sessions/{{id}}/remove"): _cp_change_row("End a session"),
    ("GET", f"{_CP_ROOT}/members"): _cp_read_row("The members", list[CpMemberDocument]),
    ("POST", f"{_CP_ROOT}/members"): _cp_change_row("Make this member one of the subsystem"),
    ("GET", f"{_CP_ROOT}/members/local"): _cp_read_row("This member", CpMemberDocument),
    ("POST", f"{_CP_ROOT}/members/{{uuid}}/remove"): _cp_change_row("Remove a member"),
    ("POST", f"{_CP_ROOT}/reset"): _cp_change_row("Wipe the subsystem"),
    ("POST", f"{_CP_ROOT}/restart"): _cp_change_row("Wipe the subsystem"),
}

DESCRIBED: Final[Mapping[tuple[str, str], OperationDescription]] = {
    **_MAPS,
    **_QUEUES,
    **_HEALTH,
    **_INFORMATION,
    **_MANAGEMENT,
    **_CONFIGURATION,
    **_WAN,
    **_CP,
}
"""By method and path of the routing table. PUT does what POST does, HEAD what GET does."""
