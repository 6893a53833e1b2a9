"""The GridCluster kind: spec, status, and the object that holds both."""

import json
from typing import Any, ClassVar, Final, Self

from pydantic import Field, ValidationError

from grid_operator.api.base import ApiModel, Rule, SpecModel, Timestamp, list_map
from grid_operator.api.containers import FREE_PORTS
from grid_operator.api.lifecycle import (
    ClusterState,
    ConfigFormat,
    DeletionPolicy,
    DriftPolicy,
    Engine,
    LogFormat,
    LogLevel,
    RunState,
)
from grid_operator.api.names import (
    API_VERSION,
    KIND,
    MAX_NAME_LENGTH,
    MEMBERS_PORT,
    REST_PORT,
)
from grid_operator.api.network import AdvancedNetworkSpec, ExposureSpec, MetricsSpec, RestSpec
from grid_operator.api.objects import KubeObject
from grid_operator.api.persistence import (
    AccessMode,
    BackupSpec,
    PersistenceSpec,
    RestoreFromSpec,
)
from grid_operator.api.pod import ImagePullPolicy, PodSpec
from grid_operator.api.security import LicenseSpec, SecuritySpec, TlsSpec
from grid_operator.api.status import GridClusterStatus
from grid_operator.api.structures import MapSpec, QueueSpec
from grid_operator.api.wan import MAX_REPLICATIONS, WanListenerSpec, WanReplicationSpec

DEFAULT_IMAGE: Final = "grid-member:0.2.0"
MAX_SIZE: Final = 9
"""Members that one cluster may have in this version."""
DRAIN_S: Final = 5
"""Longer than the kubelet and every kube-proxy take to hear that a pod is deleted."""
MAX_DRAIN_S: Final = 60


class LoggingSpec(SpecModel):
    """The members' log."""

    format: LogFormat = Field(
        default=LogFormat.JSON, description="One JSON object a line, or text."
    )
    level: LogLevel = Field(
        default=LogLevel.INFO,
        description="Least important lines written. A change needs no restart.",
    )


class ShutdownSpec(SpecModel):
    """How a member that is told to stop goes."""

    drain_seconds: int | None = Field(
        default=None,
        ge=0,
        le=MAX_DRAIN_S,
        description="Seconds that a member which is told to stop still answers, not ready any "
        f"more, so that load balancers notice; none: {DRAIN_S} with several members, 0 alone.",
    )


class GridClusterSpec(SpecModel):
    """What the cluster should be."""

    size: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Number of members. Several may become more, and fewer down to two.",
    )
    engine: Engine = Field(
        default=Engine.AUTO,
        description="How the log is kept: Embedded by one member, JetStream by several; Auto takes "
        "what fits the size, a name refuses a size that does not fit.",
    )
    image: str = Field(
        default=DEFAULT_IMAGE,
        min_length=1,
        max_length=512,
        pattern=r"^\S+$",
        description="Container image of the members.",
    )
    image_pull_policy: ImagePullPolicy = Field(
        default=ImagePullPolicy.IF_NOT_PRESENT, description="When a node pulls the image."
    )
    cluster_name: str = Field(
        default="dev",
        min_length=1,
        max_length=255,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name that members and callers of management endpoints give.",
    )
    run_state: RunState = Field(
        default=RunState.RUNNING,
        description="Stopped: members are shut down, their pods removed; what is on disk is kept.",
    )
    cluster_state: ClusterState | None = Field(
        default=None, description="State that the members are brought into; none: left alone."
    )
    cluster_state_drift_policy: DriftPolicy = Field(
        default=DriftPolicy.REPORT,
        description="When somebody else changed the state: say so, change it back, or let it be.",
    )
    rest: RestSpec = Field(default=RestSpec(), description="The members' REST service.")
    advanced_network: AdvancedNetworkSpec = Field(
        default=AdvancedNetworkSpec(),
        description="Every listener as an endpoint of its own in the members' configuration.",
    )
    metrics: MetricsSpec = Field(
        default=MetricsSpec(), description="The members' metrics, for Prometheus."
    )
    config_format: ConfigFormat = Field(
        default=ConfigFormat.YAML, description="Syntax of the members' configuration file."
    )
    maps: tuple[MapSpec, ...] = Field(
        default=(),
        max_length=256,
        json_schema_extra=list_map("name"),
        description="Maps that exist: exact name, then wildcard, then `default`.",
    )
    queues: tuple[QueueSpec, ...] = Field(
        default=(),
        max_length=256,
        json_schema_extra=list_map("name"),
        description="Queues that exist: exact name, then wildcard, then `default`.",
    )
    wan: tuple[WanReplicationSpec, ...] = Field(
        default=(),
        max_length=MAX_REPLICATIONS,
        json_schema_extra=list_map("name"),
        description="Replications of maps to other clusters; maps[].wan refers to them.",
    )
    wan_listener: WanListenerSpec = Field(
        default=WanListenerSpec(), description="Where members take changes of other clusters."
    )
    persistence: PersistenceSpec = Field(
        default=PersistenceSpec(), description="Whether data outlives the pod, and backups of it."
    )
    restore_from: RestoreFromSpec | None = Field(
        default=None,
        description="The backup that a new cluster's data begins as. Fixed at creation.",
    )
    security: SecuritySpec = Field(
        default=SecuritySpec(), description="Who may call the members' REST port."
    )
    tls: TlsSpec | None = Field(
        default=None, description="TLS of what members listen on; none: plain text."
    )
    license: LicenseSpec | None = Field(
        default=None, description="The license that the members keep; none: none is given."
    )
    exposure: ExposureSpec = Field(
        default=ExposureSpec(), description="The Service that clients use."
    )
    logging: LoggingSpec = Field(default=LoggingSpec(), description="The members' log.")
    shutdown: ShutdownSpec = Field(
        default=ShutdownSpec(), description="How a member that is told to stop goes."
    )
    pod: PodSpec = Field(default=PodSpec(), description="How member pods are made.")
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="What becomes of the data volumes when the GridCluster is deleted.",
    )
    deletion_protection: bool = Field(
        default=False, description="While true the GridCluster cannot be deleted."
    )
    paused: bool = Field(
        default=False, description="While true the operator changes nothing and only reports."
    )
    paused_until: Timestamp | None = Field(
        default=None,
        description="Until then the operator changes nothing and only reports.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.size <= {MAX_SIZE}",
            f"size above {MAX_SIZE} is not supported by this version; an odd number is best",
            lambda s: s.size <= MAX_SIZE,
        ),
        Rule(
            "self.size <= 1 || (self.advancedNetwork.enabled ? self.advancedNetwork.restPort : "
            f"self.rest.port) != {MEMBERS_PORT}",
            f"with size above 1 port {MEMBERS_PORT} belongs to the members themselves: "
            "choose another REST port",
            lambda s: s.size <= 1 or s.rest_port != MEMBERS_PORT,
        ),
        Rule(
            f"self.size <= 1 || !self.metrics.enabled || self.metrics.port != {MEMBERS_PORT}",
            f"with size above 1 port {MEMBERS_PORT} belongs to the members themselves: "
            "choose another metrics.port",
            lambda s: s.size <= 1 or s.metrics_port != MEMBERS_PORT,
        ),
        Rule(
            "!self.metrics.enabled || self.metrics.port != (self.advancedNetwork.enabled ? "
            "self.advancedNetwork.restPort : self.rest.port)",
            "metrics.port is the REST port: choose another one, or set metrics.enabled to false",
            lambda s: s.metrics_port != s.rest_port,
        ),
        FREE_PORTS,
        Rule(
            "!self.wanListener.enabled || (self.wanListener.port != "
            "(self.advancedNetwork.enabled ? self.advancedNetwork.restPort : self.rest.port) && "
            "(!self.metrics.enabled || self.wanListener.port != self.metrics.port))",
            "wanListener.port is the REST port or metrics.port: choose another one",
            lambda s: s.wan_port is None or s.wan_port not in (s.rest_port, s.metrics_port),
        ),
        Rule(
            "self.maps.all(m, !has(m.wan) || self.wan.exists(w, w.name == m.wan.replication))",
            "maps[].wan.replication must be the name of one of spec.wan",
            lambda s: (
                {m.wan.replication for m in s.maps if m.wan is not None} <= {w.name for w in s.wan}
            ),
        ),
        Rule(
            "self.engine != 'Embedded' || self.size <= 1",
            "engine Embedded is for one member: several need JetStream, or Auto",
            lambda s: s.engine is not Engine.EMBEDDED or s.size <= 1,
        ),
        Rule(
            "self.engine != 'JetStream' || self.size > 1",
            "engine JetStream is for several members: one needs Embedded, or Auto",
            lambda s: s.engine is not Engine.JET_STREAM or s.size > 1,
        ),
        Rule(
            "self.size <= 1 || !has(self.persistence.backup) || "
            "!has(self.persistence.backup.volume) || "
            "self.persistence.backup.volume.accessMode == 'ReadWriteMany'",
            "with size above 1 persistence.backup.volume needs accessMode ReadWriteMany: members "
            "on several nodes write to it",
            lambda s: s.size <= 1 or _is_shareable(s.persistence.backup),
        ),
        Rule(
            "!has(self.restoreFrom) || (self.size > 1) == (oldSelf.size > 1)",
            "with restoreFrom size cannot change from one member to several or back: a single "
            "member keeps its data in another way; create a new GridCluster",
        ),
        Rule(
            "!self.advancedNetwork.enabled || self.rest.port == 5701",
            "rest.port belongs to the network section: with advancedNetwork set restPort there",
            lambda s: not s.advanced_network.enabled or s.rest.port == REST_PORT,
        ),
        Rule(
            "self.persistence.enabled || (self.maps.all(m, !has(m.dataPersistence) || "
            "!m.dataPersistence.enabled) && self.queues.all(q, !has(q.dataPersistence) || "
            "!q.dataPersistence.enabled))",
            "dataPersistence of a map or queue needs persistence.enabled",
            lambda s: s.persistence.enabled or not any(map(_is_kept, (*s.maps, *s.queues))),
        ),
        Rule(
            "self.persistence.enabled || !has(self.restoreFrom)",
            "restoreFrom needs persistence.enabled: there is no volume to restore to",
            lambda s: s.persistence.enabled or s.restore_from is None,
        ),
        Rule(
            "has(self.restoreFrom) == has(oldSelf.restoreFrom) && "
            "(!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",
            "restoreFrom cannot change on an existing GridCluster: create a new one",
        ),
    )

    @property
    def is_alone(self) -> bool:
        """Whether there is one member, which has nobody to talk to."""
        return self.size == 1

    @property
    def encrypts_members(self) -> bool:
        """Whether there are several members and they speak TLS with each other.

        So does a new cluster without `tls.members`; `render.identity` settles it for one that is
        there.
        """
        return self.tls is not None and not self.is_alone and self.tls.members is not False

    @property
    def drain_seconds(self) -> int:
        """How long a member that is told to stop still answers: not at all when it is alone."""
        wanted = self.shutdown.drain_seconds
        if wanted is None:
            return 0 if self.is_alone else DRAIN_S
        return wanted

    @property
    def rest_port(self) -> int:
        """The port that members listen on for REST."""
        advanced = self.advanced_network
        return advanced.rest_port if advanced.enabled else self.rest.port

    @property
    def wan_port(self) -> int | None:
        """The port that members take changes of other clusters on, None when they take none."""
        return self.wan_listener.port if self.wan_listener.enabled else None

    @property
    def metrics_port(self) -> int | None:
        """The port that members listen on for metrics, None when these are off."""
        return self.metrics.port if self.metrics.enabled else None


def _is_shareable(backup: BackupSpec | None) -> bool:
    volume = None if backup is None else backup.volume
    return volume is None or volume.access_mode is AccessMode.READ_WRITE_MANY


def _is_kept(structure: MapSpec | QueueSpec) -> bool:
    return structure.data_persistence is not None and structure.data_persistence.enabled


class ObjectMeta(ApiModel):
    """The part of an object's metadata that the operator uses."""

    name: str = Field(
        min_length=1, max_length=MAX_NAME_LENGTH, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
    )
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default={})
    annotations: dict[str, str] = Field(default={})
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class GridCluster(ApiModel):
    """A grid of members that hold maps and queues and answer REST."""

    api_version: str = Field(default=API_VERSION, pattern=rf"^{API_VERSION}$")
    kind: str = Field(default=KIND, pattern=rf"^{KIND}$")
    metadata: ObjectMeta
    spec: GridClusterSpec = Field(
        default=GridClusterSpec(), description="What the cluster should be."
    )
    status: GridClusterStatus = Field(
        default=GridClusterStatus(), description="What the cluster is. Written by the operator."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        # Without pods it is the operator that compares with what members have on disk. A size that
        # it refuses can always be set back, also when pods have come since, and however many.
        Rule(
            "(self.spec.size > 1) == (oldSelf.spec.size > 1) || !has(self.status) || "
            "!has(self.status.size) || self.status.size == 0 || "
            "(self.spec.size > 1 && self.status.size > 1) || "
            "(has(self.status.conditions) && self.status.conditions.exists(c, "
            "c.type == 'ConfigValid' && c.reason == 'ImmutableSize'))",
            "size cannot change from several members to one, nor from one to several: a single "
            "member keeps its data in another way; create a new GridCluster from a backup",
            field=".spec.size",
        ),
    )

    def with_size(self, size: int) -> Self:
        """Return the cluster as one of another number of members."""
        spec = self.spec.model_copy(update={"size": size})
        return self.model_copy(update={"spec": spec})

    def with_members_tls(self, members: bool) -> Self:
        """Return the cluster as one whose `tls`, if it has any, says so of the members."""
        tls = self.spec.tls
        if tls is None:
            return self
        found = tls.model_copy(update={"members": members})
        return self.model_copy(update={"spec": self.spec.model_copy(update={"tls": found})})

    @classmethod
    def from_kube(cls, obj: KubeObject) -> Self:
        """Return the typed form of a GridCluster's JSON.

        Raises:
            InvalidClusterError: it does not fit the schema or breaks one of its rules.
        """
        try:
            return cls.model_validate_json(json.dumps(obj, default=str))
        except ValidationError as error:
            raise InvalidClusterError(tuple(map(_problem, error.errors()))) from error


class InvalidClusterError(ValueError):
    """A GridCluster that its own schema refuses.

    Attributes:
        problems: one line each, starting with the path of the field.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _problem(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"])
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        text = "this version knows no such field"
    return f"{path}: {text}" if path else text
