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
from grid_member.cluster.membership.member_table import HealthDocument
from grid_member.cluster.values.operations import OperationDocument
from grid_member.http.openapi import answer_types
from grid_member.wan.agreement.calls import WanStatusDocument
from grid_member.wan.jobs.status import WanProgressDocument

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


def _read_row(
    summary: str, kind: object, more: Mapping[int, AnswerDescription] | None = None
) -> OperationDescription:
    answers = {200: AnswerDescription("Done.", kind), **(more or {})}
    return OperationDescription(summary, answers)


def _management_row(
    summary: str,
    kind: object = answer_types.Success,
    *parameters: tuple[str, str],
    more: Mapping[int, AnswerDescription] | None = None,
    deprecated: bool = False,
) -> OperationDescription:
    answers = {200: AnswerDescription("Done.", kind), 409: CONFLICT, **(more or {})}
    return OperationDescription(summary, answers, parameters, deprecated=deprecated)


_NO_NAME: Final = OperationDescription("A path that ends before the name: always 400")
_NODE_STATES: Final = Literal["STARTING", "ACTIVE", "PASSIVE"]
_CLUSTER_STATES: Final = Literal["ACTIVE", "NO_MIGRATION", "FROZEN", "PASSIVE", "IN_TRANSITION"]
_VERSION: Final = answer_types.VersionDocument
_STATE: Final = answer_types.StateDocument
_START: Final = answer_types.Success | answer_types.Failure
_STOPS: Final = AnswerDescription(
    "It stops, or begins to leave.", answer_types.Success, ("X-Grid-Operation",)
)
_BEGUN: Final = AnswerDescription(
    "It is being written.", answer_types.Success, ("X-Grid-Operation",)
)
_TEXT: Final = ("configuration", "grid: {map: {added: {}}}")
_CONFIG: Final = answer_types.ConfigDocument
_PUBLISHER: Final = (("replication", "r"), ("publisher", "p"))
_MAP: Final = ("map", "default")
_WAN_JSON: Final = (
    "wanConfig",
    '{"name":"r","batchPublishers":[{"clusterName":"c","targetEndpoints":"t"}]}',
)
_MISSING: Final = AnswerDescription("What is named does not exist.", answer_types.Failure)


def _wan_row(
    summary: str, *parameters: tuple[str, str], kind: object = answer_types.WanDoneDocument
) -> OperationDescription:
    return _management_row(summary, kind, *parameters, more={404: _MISSING})


def _cp_read_row(summary: str, kind: object) -> OperationDescription:
    return _read_row(summary, kind, {404: UNKNOWN, 409: CONFLICT})


def _cp_change_row(summary: str) -> OperationDescription:
    return OperationDescription(summary, {200: DONE, 404: UNKNOWN, 409: CONFLICT})


_HEALTH: Final[dict[tuple[str, str], OperationDescription]] = {
    ("GET", "/ready"): OperationDescription(
        "Whether the member can be used: 200 or 503; there is no HEAD here", {200: DONE}
    ),
    ("GET", "/node-state"): _read_row("The state of the member", _NODE_STATES),
    ("GET", "/cluster-state"): _read_row("The state of the cluster", _CLUSTER_STATES),
    ("GET", "/cluster-safe"): OperationDescription(
        "Whether no data would be lost or moved: 200 or 503", {200: DONE}
    ),
    ("GET", "/migration-queue-size"): _read_row("How many replicas move", int),
    ("GET", "/cluster-size"): _read_row("How many members there are", int),
    ("GET", ""): _read_row("All health checks; HEAD shows them as Grid-* headers", HealthDocument),
    ("GET", "/{check...}"): OperationDescription("A check that does not exist: always 400"),
}
_REST: Final[dict[tuple[str, str], OperationDescription]] = {
    # Maps
    ("POST", "maps/{name}/{key...}"): OperationDescription(
        "Create or replace an entry; the Content-Type is kept with it",
        {200: DONE, 404: NOT_CONFIGURED},
        takes_value=True,
    ),
    ("GET", "maps/{name}/{key...}"): OperationDescription(
        "Read an entry",
        {
            200: AnswerDescription("The value, with the Content-Type it was written with.", VALUE),
            204: AnswerDescription("There is no such entry."),
            404: NOT_CONFIGURED,
        },
    ),
    ("DELETE", "maps/{name}/{key...}"): OperationDescription(
        "Remove an entry; the same answer when there was none", {200: DONE, 404: NOT_CONFIGURED}
    ),
    ("DELETE", "maps/{name}"): OperationDescription(
        "Remove all entries of a map", {200: DONE, 404: NOT_CONFIGURED}
    ),
    **{(method, "maps"): _NO_NAME for method in ("GET", "POST", "DELETE")},
    # Queues
    ("GET", "queues/{name}/size"): OperationDescription(
        "Count the items of a queue",
        {200: AnswerDescription("The number of items.", NUMBER), 404: NOT_CONFIGURED},
    ),
    ("DELETE", "queues/{name}/{seconds}"): OperationDescription(
        "Take the head of a queue, waiting so many seconds for one",
        {
            200: AnswerDescription(
                "The item, gone from the queue when this is handed over.", VALUE
            ),
            204: AnswerDescription("No item came."),
            404: NOT_CONFIGURED,
        },
    ),
    ("POST", "queues/{name}"): OperationDescription(
        "Append an item; 503 without Retry-After when the queue is full",
        {200: DONE, 404: NOT_CONFIGURED},
        takes_value=True,
    ),
    **{(method, "queues"): _NO_NAME for method in ("GET", "POST", "DELETE")},
    # Information
    ("GET", "cluster"): _read_row("The members", answer_types.ClusterDocument),
    ("GET", "instance"): _read_row("The member's name", answer_types.InstanceDocument),
    ("GET", "openapi.json"): _read_row("This description", object),
    # Cluster management
    ("POST", "management/cluster/state"): _management_row("The cluster state", _STATE),
    ("GET", "management/cluster/version"): _read_row("The cluster version", _VERSION),
    ("POST", "management/cluster/memberShutdown"): OperationDescription(
        "Answer, then stop the member",
        {200: _STOPS, 409: CONFLICT},
        headers=("X-Grid-Leave",),
    ),
    ("POST", "management/cluster/nodes"): _management_row(
        "The members as text", answer_types.NodesDocument
    ),
    ("POST", "management/cluster/changeState"): _management_row(
        "Change the cluster state", _STATE, ("state", "frozen")
    ),
    ("POST", "management/cluster/clusterShutdown"): _management_row(
        "Answer, then stop all members"
    ),
    ("POST", "management/cluster/version"): _management_row(
        "Change the cluster version", _VERSION, ("version", "1.2")
    ),
    ("POST", "management/cluster/forceStart"): _management_row(
        "Delete the data of a store that cannot be read, and start", _START
    ),
    ("POST", "management/cluster/partialStart"): _management_row(
        "Start with what can be read of a damaged store", _START
    ),
    ("POST", "management/cluster/backup"): _management_row(
        "Begin a backup of the store", more={200: _BEGUN}
    ),
    ("POST", "management/cluster/backupInterrupt"): _management_row(
        "Stop a backup; also when there is none"
    ),
    ("POST", "management/cluster/hotBackup"): _management_row(
        "Begin a backup of the store, by its old name", deprecated=True, more={200: _BEGUN}
    ),
    ("POST", "management/cluster/hotBackupInterrupt"): _management_row(
        "Stop a backup, by the call's old name", deprecated=True
    ),
    ("GET", "management/cluster/operations"): _read_row(
        "The long operations, the oldest first", list[OperationDocument]
    ),
    ("GET", "management/cluster/usage"): _read_row(
        "What maps, queues and stores hold", UsageDocument
    ),
    # License, log level, configuration
    ("GET", "license"): _read_row(
        "What is told of the license", answer_types.LicenseDocument, {404: UNKNOWN}
    ),
    ("POST", "license"): _management_row(
        "Keep a license key", answer_types.LicenseSetDocument, ("license", "KEY")
    ),
    ("GET", "log-level"): _read_row("The log level", answer_types.LogLevelDocument),
    ("POST", "log-level"): _management_row(
        "Change the log level of this member", answer_types.SuccessMessage, ("level", "INFO")
    ),
    ("DELETE", "log-level"): _management_row(
        "Restore the configured log level", answer_types.SuccessMessage
    ),
    ("POST", "log-level/reset"): _management_row(
        "Restore the configured log level", answer_types.SuccessMessage
    ),
    ("POST", "config/reload"): _management_row("Add what is new in the member's file", _CONFIG),
    ("POST", "config/upload"): _management_row("Add what is new in a text", _CONFIG, _TEXT),
    ("POST", "config/update"): _management_row(
        "Add what is new in a text, by another name", _CONFIG, _TEXT
    ),
    ("GET", "config/tcp-ip/member-list"): _read_row(
        "The members of the TCP/IP join", answer_types.MemberListDocument, {409: CONFLICT}
    ),
    ("POST", "config/tcp-ip/member-list"): _management_row(
        "Replace the members of the TCP/IP join",
        answer_types.MemberListSetDocument,
        ("addresses", "10.0.0.1:5701"),
    ),
    # WAN
    ("POST", "wan/clearWanQueues"): _wan_row("Clear the member's WAN queues", *_PUBLISHER),
    ("POST", "wan/pausePublisher"): _wan_row("Pause a publisher here", *_PUBLISHER),
    ("POST", "wan/resumePublisher"): _wan_row("Resume a publisher here", *_PUBLISHER),
    ("POST", "wan/stopPublisher"): _wan_row("Stop a publisher here", *_PUBLISHER),
    ("POST", "wan/sync/map"): _wan_row(
        "Synchronise a map", *_PUBLISHER, _MAP, kind=answer_types.WanSyncDocument
    ),
    ("POST", "wan/sync/allmaps"): _wan_row(
        "Synchronise all maps", *_PUBLISHER, kind=answer_types.WanSyncDocument
    ),
    ("POST", "wan/consistencyCheck/map"): _wan_row(
        "Check whether a map is the same", *_PUBLISHER, _MAP, kind=answer_types.WanSyncDocument
    ),
    ("POST", "wan/addWanConfig"): _management_row(
        "Add publishers of a WAN replication", answer_types.WanAddedDocument, _WAN_JSON
    ),
    ("POST", "wan/removeWanConfig"): _wan_row("Remove a publisher", *_PUBLISHER),
    ("GET", "wan/status"): _read_row(
        "What is known of WAN replication", WanStatusDocument, {409: CONFLICT}
    ),
    ("GET", "wan/sync/progress/{uuid}"): _read_row(
        "How far a synchronisation is",
        WanProgressDocument,
        {404: _MISSING, 409: CONFLICT},
    ),
    # CP
    ("GET", "cp-subsystem/groups"): _cp_read_row("The groups", list[CpGroupId]),
    ("GET", "cp-subsystem/groups/{name}"): _cp_read_row(
        "A group", CpGroupDocument | CpReplicatedGroupDocument
    ),
    ("POST", "cp-subsystem/groups/{name}/remove"): _cp_change_row("Remove a group"),
    ("GET", "cp-subsystem/groups/{name}/sessions"): _cp_read_row(
        "The sessions of a group", list[CpSessionDocument]
    ),
    ("POST", "cp-subsystem/groups/{name}/sessions/{id}/remove"): _cp_change_row("End a session"),
    ("GET", "cp-subsystem/members"): _cp_read_row("The members", list[CpMemberDocument]),
    ("POST", "cp-subsystem/members"): _cp_change_row("Make this member one of the subsystem"),
    ("GET", "cp-subsystem/members/local"): _cp_read_row("This member", CpMemberDocument),
    ("POST", "cp-subsystem/members/{uuid}/remove"): _cp_change_row("Remove a member"),
    ("POST", "cp-subsystem/reset"): _cp_change_row("Wipe the subsystem"),
    ("POST", "cp-subsystem/restart"): _cp_change_row("Wipe the subsystem"),
}
DESCRIBED: Final[Mapping[tuple[str, str], OperationDescription]] = {
    **{(method, f"/grid/health{path}"): row for (method, path), row in _HEALTH.items()},
    **{(method, f"/grid/rest/{path}"): row for (method, path), row in _REST.items()},
}
"""By method and path of the routing table. PUT does what POST does, HEAD what GET does."""
