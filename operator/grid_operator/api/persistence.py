"""The part of a GridCluster's spec about data on disk: volumes, backups, restores."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from grid_operator.api.base import MAX_INT32, QUANTITY_PATTERN, ObjectName, Rule, SpecModel

_STORAGE_CLASS: Final = "StorageClass of the volume; none: the default class of the cluster."
VolumeSize = Annotated[str, Field(max_length=32, pattern=QUANTITY_PATTERN)]


class RecoveryPolicy(StrEnum):
    """Whether a member may start from what is left of damaged data, when it is told to."""

    FULL_RECOVERY_ONLY = "FullRecoveryOnly"
    PARTIAL_RECOVERY_MOST_RECENT = "PartialRecoveryMostRecent"
    PARTIAL_RECOVERY_MOST_COMPLETE = "PartialRecoveryMostComplete"


class AccessMode(StrEnum):
    """Whether pods on several nodes can use a volume at the same time."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class MissedRunPolicy(StrEnum):
    """What becomes of scheduled backups that were due while nobody could make them."""

    RUN_ONCE = "RunOnce"
    SKIP = "Skip"


class ConcurrencyPolicy(StrEnum):
    """What becomes of a scheduled backup while another one is made."""

    FORBID = "Forbid"


class BackupVolume(SpecModel):
    """A volume claim that the operator makes for backups and never deletes."""

    # No rule against shrinking: where volumes cannot be resized, a size that was made larger has to
    # be taken back.
    size: VolumeSize = Field(
        default="1Gi",
        description="Size of the volume. It may grow; less than the claim has already changes "
        "nothing.",
    )
    storage_class_name: str | None = Field(
        default=None, min_length=1, max_length=253, description=_STORAGE_CLASS
    )
    access_mode: AccessMode = Field(
        default=AccessMode.READ_WRITE_ONCE,
        description="ReadWriteMany with several members: they share it, on several nodes.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName) && "
            "self.accessMode == oldSelf.accessMode",
            "persistence.backup.volume: class and access mode of a volume claim are fixed; use "
            "claimName to change to another one",
        ),
    )


class BackupSchedule(SpecModel):
    """When backups are made by themselves."""

    cron: str = Field(
        min_length=1,
        max_length=128,
        pattern=r"^\S+( +\S+){4}$",
        description="Minute, hour, day of month, month, day of week.",
    )
    time_zone: str = Field(
        default="UTC",
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9_+/-]+$",
        description="IANA name of the time zone that the times are of.",
    )
    missed_run_policy: MissedRunPolicy = Field(
        default=MissedRunPolicy.RUN_ONCE,
        description="RunOnce: one backup for all times that were missed. Skip: wait for the next.",
    )
    starting_deadline_seconds: int | None = Field(
        default=None,
        ge=10,
        le=MAX_INT32,
        description="A time that was missed by more than this is skipped; none: never.",
    )
    concurrency_policy: ConcurrencyPolicy = Field(
        default=ConcurrencyPolicy.FORBID,
        description="Forbid: a time that comes while a backup is made waits for its end.",
    )


class BackupSpec(SpecModel):
    """Where backups are kept, and when they are made."""

    volume: BackupVolume | None = Field(
        default=None,
        description="Make a volume claim NAME-backup; it stays when the GridCluster goes.",
    )
    claim_name: ObjectName | None = Field(
        default=None,
        description="An existing volume claim to use instead; members and clusters may share it, "
        "each pod has a directory of its own.",
    )
    schedule: BackupSchedule | None = Field(
        default=None, description="When backups are made by themselves; none: on request only."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.volume) != has(self.claimName)",
            "persistence.backup needs exactly one of volume and claimName",
            lambda s: (s.volume is None) != (s.claim_name is None),
        ),
    )


class PersistenceSpec(SpecModel):
    """Whether data outlives the pod. Volumes are fixed at creation."""

    enabled: bool = Field(
        default=False, description="Keep data on a volume per member, written before an answer."
    )
    size: VolumeSize = Field(default="1Gi", description="Size of each member's volume.")
    storage_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="StorageClass of the volumes; none: the default class of the Kubernetes "
        "cluster.",
    )
    recovery_policy: RecoveryPolicy = Field(
        default=RecoveryPolicy.FULL_RECOVERY_ONLY,
        description="Whether a partial start may go on with what can be read of damaged data.",
    )
    validation_timeout_seconds: int = Field(
        default=120,
        ge=1,
        le=MAX_INT32,
        description="Seconds that a member with damaged data waits to be told what to do, and "
        "several for one that is missing and may have what was in memory only.",
    )
    backup: BackupSpec | None = Field(
        default=None, description="Where backups are kept; none: none are made."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.enabled == oldSelf.enabled",
            "persistence.enabled cannot change on an existing GridCluster: the volume claims of a "
            "StatefulSet are fixed; create a new GridCluster instead",
        ),
        Rule(
            "!oldSelf.enabled || self.size == oldSelf.size",
            "persistence.size cannot change on an existing GridCluster: the volume claims of a "
            "StatefulSet are fixed",
        ),
        Rule(
            "!oldSelf.enabled || (has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName))",
            "persistence.storageClassName cannot change on an existing GridCluster: the volume "
            "claims of a StatefulSet are fixed",
        ),
        Rule(
            "self.enabled || !has(self.backup)",
            "persistence.backup needs persistence.enabled: there is nothing to back up",
            lambda s: s.enabled or s.backup is None,
        ),
    )


class RestoreFromSpec(SpecModel):
    """The backup that a new cluster's data begins as. Fixed at creation."""

    cluster: ObjectName | None = Field(
        default=None,
        description="GridCluster of this namespace whose claim NAME-backup is read; it need not "
        "exist any more.",
    )
    claim_name: ObjectName | None = Field(
        default=None, description="Volume claim that is read instead."
    )
    member: ObjectName | None = Field(
        default=None,
        description="Pod name of the member whose backup is taken; none: CLUSTER-0.",
    )
    backup: int | None = Field(
        default=None,
        ge=1,
        le=MAX_INT32,
        description="Number of the backup; none: the newest one.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.cluster) != has(self.claimName)",
            "restoreFrom needs exactly one of cluster and claimName",
            lambda s: (s.cluster is None) != (s.claim_name is None),
        ),
        Rule(
            "!has(self.claimName) || has(self.member)",
            "restoreFrom.claimName needs member: the pod name whose backup is taken",
            lambda s: s.claim_name is None or s.member is not None,
        ),
    )
