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


class ProgressingReason(StrEnum):
    """Reasons of `Progressing`."""

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
    BLOCKED = "Blocked"
    """False: the spec cannot work, see `ConfigValid`."""
    PAUSED = "Paused"
    """False: `spec.paused` is true, the operator only looks."""
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
    RESERVED_ENVIRONMENT = "ReservedEnvironment"
    """False: `spec.pod.env` sets a variable that belongs to the operator."""
    INVALID_TOLERATION = "InvalidToleration"
    """False: a toleration's fields contradict each other."""
    IMMUTABLE_STORAGE = "ImmutableStorage"
    """False: the volume claim differs from the one that the cluster was created with."""
    INVALID_SPEC = "InvalidSpec"
    """False: the spec does not fit the schema of this operator."""


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
