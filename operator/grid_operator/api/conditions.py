"""Status conditions: their types, their reasons, and when their time moves.

Reasons are part of the API: people alert on them and wait for them. Each is documented where it
is defined; `docs/operator.md` shows the same table.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from grid_operator.api.base import ApiModel

MAX_MESSAGE_LENGTH: Final = 4096


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    """Every wanted member is ready and answers with the wanted configuration's revision."""
    PROGRESSING = "Progressing"
    """The operator is changing something or waits for a change to take effect."""
    CONFIG_VALID = "ConfigValid"
    """The spec can work; while it cannot, nothing is applied and running members stay."""
    SAFE_TO_DISRUPT = "SafeToDisrupt"
    """A member may be taken away now."""
    STOPPED = "Stopped"
    """`spec.runState: Stopped` is reached: no pods, data kept."""
    CLUSTER_STATE_AS_DESIRED = "ClusterStateAsDesired"
    """The members are in `spec.clusterState`; only when that is set."""
    STRUCTURES_MATCH = "StructuresMatch"
    """Members hold nothing in maps and queues that the spec does not have."""
    CHILDREN_MATCH = "ChildrenMatch"
    """The live objects of the cluster are what the operator applied."""
    DEFINITION_MATCHES = "DefinitionMatches"
    """The CustomResourceDefinition has all fields of the status; only when it has not."""
    REQUESTS_VALID = "RequestsValid"
    """Every request annotation asks for something that can be done."""
    BACKUP_SUCCEEDED = "BackupSucceeded"
    """The last backup is complete; only when there was one."""
    RESTORED = "Restored"
    """The data has come from `spec.restoreFrom`; only when that is set."""
    RECONCILING = "Reconciling"
    """The operator is on its way to what the spec asks for; absent otherwise."""
    STALLED = "Stalled"
    """Only a person can bring about what the spec asks for; absent otherwise."""


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ReadyReason(StrEnum):
    """Reasons of `Ready`."""

    ALL_MEMBERS_READY = "AllMembersReady"
    """True: all wanted members are ready and agree."""
    MEMBERS_NOT_READY = "MembersNotReady"
    """False: the message says which member lacks what."""
    MEMBERS_OUTDATED = "MembersOutdated"
    """False: a member still runs an older revision of the spec."""
    CONFIG_INVALID = "ConfigInvalid"
    """False: the spec cannot work and no member runs an accepted one."""
    DELETING = "Deleting"
    """False: the GridCluster is being deleted."""
    STOPPED = "Stopped"
    """False: `spec.runState` is Stopped, there are no members."""
    RESTORING = "Restoring"
    """False: the data has to come from the backup first."""
    RESTORE_FAILED = "RestoreFailed"
    """False: the data could not be copied; the message says why. No member was started."""


class ProgressingReason(StrEnum):
    """Reasons of `Progressing`; while an operation is under way its kind is the reason."""

    UP_TO_DATE = "UpToDate"
    """False: everything is as the spec says."""
    APPLYING = "Applying"
    """True: children are being created, changed or removed."""
    ROLLING = "Rolling"
    """True: a member's pod is replaced because the spec or configuration changed."""
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    """True: members have to start, recover or become ready."""
    WAITING_FOR_SAFETY = "WaitingForSafety"
    """True: a member has to be replaced, but replacing it now would not be safe."""
    RETRYING = "Retrying"
    """True: an operation failed and begins again at the time that the message names."""
    BLOCKED = "Blocked"
    """The spec cannot work, see `ConfigValid`. True when an operation is held up by that."""
    PAUSED = "Paused"
    """The operator only looks, by `spec.paused`. True when an operation is held up by that."""
    DELETING = "Deleting"
    """True: the GridCluster is being deleted, Kubernetes removes its children."""


class ConfigValidReason(StrEnum):
    """Reasons of `ConfigValid`."""

    VALID = "Valid"
    """True: nothing speaks against the spec."""
    INVALID_QUANTITY = "InvalidQuantity"
    """False: a resource amount is not one, is zero, or a request exceeds its limit."""
    INVALID_LABEL = "InvalidLabel"
    """False: a pod label, annotation or node selector is malformed or the operator's own."""
    INVALID_STRUCTURE_NAME = "InvalidStructureName"
    """False: a map or queue name is too long in bytes or has more than one wildcard."""
    AMBIGUOUS_WILDCARD = "AmbiguousWildcard"
    """False: two wildcard names can match one structure and neither is more specific."""
    INVALID_TOLERATION = "InvalidToleration"
    """False: a toleration's fields contradict each other."""
    IMMUTABLE_STORAGE = "ImmutableStorage"
    """False: the volume claim differs from the one that the cluster was created with."""
    IMMUTABLE_SIZE = "ImmutableSize"
    """False: one cannot become several, nor several one, and not more while they are stopped."""
    IMMUTABLE_IDENTITY = "ImmutableIdentity"
    """False: running members would meet those that start with another name or identity never."""
    INVALID_SCHEDULE = "InvalidSchedule"
    """False: the backup schedule has no such time, or names no time zone."""
    INVALID_NETWORK = "InvalidNetwork"
    """False: an allowed network is not one."""
    INVALID_WAN = "InvalidWan"
    """False: an endpoint of a publisher is no address, or a pattern of keys has two wildcards."""
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, no password
    """False: a Secret that the spec names is not there, or was lost while members run."""
    INVALID_SECRET = "InvalidSecret"  # noqa: S105 - a reason, no password
    """False: a Secret that the spec names lacks a key, or holds what members cannot use."""
    INVALID_SPEC = "InvalidSpec"
    """False: the spec does not fit the schema of this operator."""


class SafeToDisruptReason(StrEnum):
    """Reasons of `SafeToDisrupt`."""

    SAFE = "Safe"
    """True: every member answers, all agree, the cluster is safe and nothing migrates."""
    UNSAFE = "Unsafe"
    """False: the message says which member says what."""


class StoppedReason(StrEnum):
    """Reasons of `Stopped`."""

    STOPPED = "Stopped"
    """True: there are no pods."""
    STOPPING = "Stopping"
    """False: members are still there."""
    RUNNING = "Running"
    """False: `spec.runState` is Running."""


class ClusterStateReason(StrEnum):
    """Reasons of `ClusterStateAsDesired`."""

    AS_DESIRED = "AsDesired"
    """True: every member shows `spec.clusterState`."""
    ADOPTED = "Adopted"
    """True: somebody else changed the state, and the drift policy lets it be."""
    CHANGING = "Changing"
    """False: the members are being brought into the state."""
    DRIFTED = "Drifted"
    """False: somebody else changed the state, and the drift policy only reports it."""
    NO_MEMBERS = "NoMembers"
    """Unknown: no member answers, or none is wanted."""


class StructuresReason(StrEnum):
    """Reasons of `StructuresMatch`."""

    MATCHED = "Matched"
    """True: whatever holds entries is in the spec."""
    RETAINED = "Retained"
    """False: maps or queues that left the spec still hold entries; their data is kept."""
    NO_MEMBERS = "NoMembers"
    """Unknown: no member answers, or none is wanted."""


class ChildrenReason(StrEnum):
    """Reasons of `ChildrenMatch`."""

    MATCHED = "Matched"
    """True: nothing is otherwise than the operator applied it."""
    ADMITTED = "Admitted"
    """False: the API server keeps the named fields otherwise; the operator lets them be."""
    CONTESTED = "Contested"
    """False: somebody changes the named objects again and again; they are set back at most once a
    minute."""


class DefinitionReason(StrEnum):
    """Reasons of `DefinitionMatches`."""

    OUTDATED = "Outdated"
    """False: the API server drops the named fields; apply the definition of this version."""


class RequestsReason(StrEnum):
    """Reasons of `RequestsValid`."""

    VALID = "Valid"
    """True: every request is understood; the message names those that wait."""
    INVALID_REQUEST = "InvalidRequest"
    """False: the message names the annotation and what to change."""


class RestoredReason(StrEnum):
    """Reasons of `Restored`."""

    RESTORED = "Restored"
    """True: the data began as the backup."""
    RESTORING = "Restoring"
    """False: it is being copied."""
    RESTORE_FAILED = "RestoreFailed"
    """False: it could not be copied; the message says why."""


class StalledReason(StrEnum):
    """Reasons of `Stalled` besides those of `ConfigValid`."""

    PAUSED = "Paused"
    """True: `spec.paused` holds back what the message names."""
    RESTORE_FAILED = "RestoreFailed"
    """True: the backup could not be copied; the operator tries again, rarely."""
    PARTIAL_START_FAILED = "PartialStartFailed"
    """True: a member waits to be told what to do about its data, and what it was told failed."""
    FORCE_START_FAILED = "ForceStartFailed"
    """True: the same of a ForceStart."""


class Condition(ApiModel):
    """One observation of a cluster's state, as Kubernetes' API conventions describe it."""

    type: str = Field(min_length=1, max_length=316, description="What the condition is about.")
    status: ConditionStatus = Field(description="Whether it holds.")
    reason: str = Field(
        min_length=1, max_length=1024, description="Why, as one stable CamelCase word."
    )
    message: str = Field(
        default="", max_length=MAX_MESSAGE_LENGTH, description="Why, in words for people."
    )
    observed_generation: int = Field(
        default=0, ge=0, description="Generation of the spec that this was judged by."
    )
    last_transition_time: str = Field(
        max_length=64,
        json_schema_extra={"format": "date-time"},
        description="When the status last changed.",
    )


def find_condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of this type, None when there is none."""
    return next((c for c in conditions if c.type == kind), None)


def make_condition(
    previous: Iterable[Condition],
    kind: ConditionType,
    status: ConditionStatus,
    reason: StrEnum,
    message: str,
    generation: int,
    now: datetime,
) -> Condition:
    """Return the condition; its transition time is `now` only when the status flips."""
    before = find_condition(previous, kind)
    unchanged = before is not None and before.status == status
    time = before.last_transition_time if before is not None and unchanged else timestamp(now)
    return Condition(
        type=kind.value,
        status=status,
        reason=reason.value,
        message=message[:MAX_MESSAGE_LENGTH],
        observed_generation=generation,
        last_transition_time=time,
    )


def timestamp(moment: datetime) -> str:
    """Return the moment as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
