"""The status of a GridCluster: what was observed, what is being done, and what was done."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from grid_operator.api.base import ATOMIC_LIST, ApiModel, list_map
from grid_operator.api.conditions import Condition
from grid_operator.api.objects import KubeObject

MAX_LAST_OPERATIONS: Final = 10
MAX_STATUS_TEXT_LENGTH: Final = 1024
UNOBSERVED: Final = -1
"""The `observedGeneration` that the API server sets for a new object, so that whatever waits by
convention does not take an object without conditions for one that is as it should be."""


class OperationKind(StrEnum):
    """What a journaled operation does."""

    CHANGE_STATE = "ChangeState"
    """Brings the members into `spec.clusterState`; target: the state."""
    APPLY_LIVE = "ApplyLive"
    """Gives a running member what it can take without a restart; target: the pod."""
    RESTART = "Restart"
    """Stops members gently and replaces their pods, one at a time; target: the pod of now."""
    STOP = "Stop"
    """Passive, cluster shutdown, no pods; target: the cluster state before, to resume."""
    START = "Start"
    """Pods again, and the cluster state from before the stop; target: that state."""
    BACKUP = "Backup"
    """One backup; target: the member's own id of it, once begun."""
    RESTORE = "Restore"
    """Fills the volumes of a new cluster from a backup; target: the claim that holds it."""
    PARTIAL_START = "PartialStart"
    """Starts a member from what is left of damaged data; target: the pod."""
    FORCE_START = "ForceStart"
    """Starts a member empty; target: the pod."""
    SHRINK = "Shrink"
    """A member leaves for good, then its pod and its volume go; target: the pod."""
    WAN_PUBLISHER = "WanPublisher"
    """Gives members a publisher or takes one away; target: replication and publisher."""
    WAN_STATE = "WanState"
    """Brings members into a publisher's state; target: replication and publisher."""
    SHUT_DOWN = "ShutDown"
    """Stops the members of a cluster that is being deleted."""


GIVES_UP_DATA: Final = frozenset({OperationKind.PARTIAL_START, OperationKind.FORCE_START})
"""The operations that a person has to acknowledge the loss of data for."""


class OperationOutcome(StrEnum):
    """How an operation ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"


class OperationStatus(ApiModel):
    """The operation that is under way: a journal entry, written before anything is done."""

    id: str = Field(
        max_length=64,
        description="Unique; with the step it is the Idempotency-Key of the calls to members.",
    )
    kind: OperationKind = Field(description="What it does.")
    step: str = Field(max_length=64, description="What is being done now.")
    target: str = Field(
        default="", max_length=253, description="What it is done to or leads to, by kind."
    )
    target_uid: str = Field(
        default="", max_length=64, description="uid of the pod that `target` names, if it is one."
    )
    digest: str = Field(
        default="", max_length=64, description="Digest of what the target is given, if anything."
    )
    member_operation: str = Field(
        default="",
        max_length=64,
        description="The id under which the members show that the target leaves.",
    )
    request: str = Field(
        default="",
        max_length=128,
        description="Request id of the annotation, or scheduled time, that it comes from; empty: "
        "the spec.",
    )
    started: str = Field(max_length=64, description="When it began.")
    step_started: str = Field(max_length=64, description="When its present step began.")
    attempts: int = Field(
        default=0, ge=0, description="Calls of the present step, counted before each is sent."
    )
    last_attempt: str | None = Field(
        default=None, max_length=64, description="When the last of them was about to be sent."
    )
    last_error: str = Field(
        default="", max_length=MAX_STATUS_TEXT_LENGTH, description="Why the last did not succeed."
    )


class FinishedOperation(ApiModel):
    """An operation that has ended."""

    id: str = Field(max_length=64, description="Its id.")
    kind: OperationKind = Field(description="What it did.")
    target: str = Field(default="", max_length=253, description="As in `operation`.")
    request: str = Field(default="", max_length=128, description="As in `operation`.")
    outcome: OperationOutcome = Field(description="Succeeded, Failed or Interrupted.")
    message: str = Field(
        default="", max_length=MAX_STATUS_TEXT_LENGTH, description="Why it did not succeed."
    )
    started: str = Field(max_length=64, description="When it began.")
    finished: str = Field(max_length=64, description="When it ended.")


class HandledRequest(ApiModel):
    """The last request of one annotation that was carried out or refused."""

    annotation: str = Field(max_length=253, description="Name after `gridcluster.io/`.")
    request: str = Field(max_length=128, description="The request id.")
    outcome: str = Field(
        max_length=32,
        description="Accepted while it is carried out; then as its operation; or Refused.",
    )
    message: str = Field(default="", max_length=MAX_STATUS_TEXT_LENGTH, description="Why.")


class BackupStatus(ApiModel):
    """Backups, by schedule and by request."""

    last_scheduled_time: str | None = Field(
        default=None, max_length=64, description="The newest scheduled time that was dealt with."
    )
    next_scheduled_time: str | None = Field(
        default=None, max_length=64, description="When the schedule is due next."
    )
    last_successful_time: str | None = Field(
        default=None, max_length=64, description="End of the newest backup that is complete."
    )
    last_failed_time: str | None = Field(
        default=None, max_length=64, description="End of the newest backup that failed."
    )


class MemberStatus(ApiModel):
    """One member, as it was last seen over REST."""

    pod: str = Field(max_length=253, description="Name of the member's pod.")
    address: str = Field(default="", max_length=300, description="host:port of the REST service.")
    uuid: str = Field(default="", max_length=64, description="The member's own identity.")
    version: str = Field(default="", max_length=64, description="Version of the member software.")
    node_state: str = Field(
        default="Unknown",
        max_length=32,
        description="Starting, Active, Passive; Unknown when the member does not answer.",
    )
    ready: bool = Field(default=False, description="Whether the member can be used now.")
    live_digest: str = Field(
        default="",
        max_length=64,
        description="Digest of the changes that the member took without a restart; empty: none.",
    )


class AdmittedField(ApiModel):
    """A field of a child that the API server keeps otherwise than it was applied."""

    object: str = Field(max_length=320, description="Kind and name of the child.")
    field: str = Field(max_length=512, description="Where in the child.")
    digest: str = Field(
        max_length=64, description="Of the value that was applied and of the one that is kept."
    )


def _observed(value: object) -> object:
    return None if value == UNOBSERVED else value


class GridClusterStatus(ApiModel):
    """What the cluster is, as the operator last saw it."""

    observed_generation: Annotated[int | None, BeforeValidator(_observed)] = Field(
        default=None,
        ge=0,
        description="Generation of the spec that this status is about; -1: of none yet.",
    )
    observed_uid: str | None = Field(
        default=None,
        max_length=64,
        description="uid of the GridCluster that this status is about. Requests that came with "
        "the object, or that a status of another object does not know, are not carried out.",
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra=list_map("type"),
        description="Ready, Progressing, ConfigValid and others.",
    )
    size: int | None = Field(default=None, ge=0, description="Number of member pods.")
    ready_members: int | None = Field(default=None, ge=0, description="Members that are ready.")
    selector: str | None = Field(
        default=None, max_length=1024, description="Label selector of the member pods."
    )
    cluster_state: str | None = Field(
        default=None,
        max_length=32,
        description="Active, NoMigration, Frozen, Passive, InTransition; Unknown when no member "
        "answers or they disagree.",
    )
    cluster_version: str | None = Field(
        default=None, max_length=32, description="major.minor that the members run as."
    )
    members: tuple[MemberStatus, ...] = Field(
        default=(),
        max_length=1000,
        json_schema_extra=list_map("pod"),
        description="The members, by pod.",
    )
    operation: OperationStatus | None = Field(
        default=None, description="What is being done now, step by step; none: nothing."
    )
    last_operations: tuple[FinishedOperation, ...] = Field(
        default=(),
        max_length=MAX_LAST_OPERATIONS,
        json_schema_extra=list_map("id"),
        description="Operations that have ended, the newest first.",
    )
    handled_requests: tuple[HandledRequest, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=list_map("annotation"),
        description="The last request of each annotation.",
    )
    applied_cluster_state: str | None = Field(
        default=None,
        max_length=32,
        description="The `spec.clusterState` that was last brought about; another state of the "
        "members is drift.",
    )
    stopped: bool | None = Field(
        default=None, description="True from the end of a stop to the beginning of a start."
    )
    resume_state: str | None = Field(
        default=None, max_length=32, description="Cluster state from before the stop."
    )
    restored_from: str | None = Field(
        default=None, max_length=512, description="The backup that the data began as."
    )
    importing: bool | None = Field(
        default=None,
        description="True while several members wait for one of them to import the backup.",
    )
    members_tls: bool | None = Field(
        default=None, description="Whether several members speak TLS with each other."
    )
    backup: BackupStatus | None = Field(default=None, description="Backups.")
    admitted: tuple[AdmittedField, ...] | None = Field(
        default=None,
        max_length=256,
        json_schema_extra=ATOMIC_LIST,
        description="Fields of children that the API server keeps otherwise than the operator "
        "applied them, such as an image that a webhook rewrites.",
    )

    def to_kube(self) -> KubeObject:
        """Return the status as JSON for the status subresource; absent values are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
