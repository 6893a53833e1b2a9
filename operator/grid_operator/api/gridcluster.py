"""The GridCluster kind: spec, status, and the object that holds both."""

import json
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from pydantic import Field, ValidationError

from grid_operator.api.base import QUANTITY_PATTERN, ApiModel, Rule, SpecModel, list_map
from grid_operator.api.conditions import Condition
from grid_operator.api.names import API_VERSION, KIND, MAX_NAME_LENGTH
from grid_operator.api.objects import KubeObject
from grid_operator.api.pod import PodSpec

DEFAULT_IMAGE: Final = "grid-member:0.1.0"
MAX_INT32: Final = 2**31 - 1
STRUCTURE_NAME_PATTERN: Final = r"^[^$\x00-\x1f\x7f]+$"
"""No control characters, and no `$`: it would start a variable in the member's configuration."""


class ImagePullPolicy(StrEnum):
    """When a node pulls the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EndpointGroupName(StrEnum):
    """A group of REST endpoints that is turned on or off as one."""

    CLUSTER_READ = "ClusterRead"
    CLUSTER_WRITE = "ClusterWrite"
    HEALTH_CHECK = "HealthCheck"
    PERSISTENCE = "Persistence"
    WAN = "Wan"
    DATA = "Data"
    CP = "Cp"


class LogFormat(StrEnum):
    """How a member writes its log."""

    TEXT = "Text"
    JSON = "Json"


class LogLevel(StrEnum):
    """The least important log lines that a member writes."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


class DeletionPolicy(StrEnum):
    """What becomes of the volumes when the GridCluster is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class EndpointGroup(SpecModel):
    """Turns one endpoint group on or off."""

    name: EndpointGroupName = Field(description="The group.")
    enabled: bool = Field(description="Whether its endpoints answer on the REST port.")


class RestSpec(SpecModel):
    """The REST service on port 5701."""

    endpoint_groups: tuple[EndpointGroup, ...] = Field(
        default=(),
        max_length=len(EndpointGroupName),
        json_schema_extra=list_map("name"),
        description="Endpoint groups that differ from their default: ClusterRead and HealthCheck "
        "are on, all others off.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.endpointGroups.all(g, g.name != 'HealthCheck' || g.enabled)",
            "endpoint group HealthCheck cannot be disabled: the pods' probes need it",
            lambda s: all(
                g.enabled or g.name != EndpointGroupName.HEALTH_CHECK for g in s.endpoint_groups
            ),
        ),
    )


class MapSpec(SpecModel):
    """Configuration of the maps that a name matches."""

    name: str = Field(
        min_length=1,
        max_length=255,
        pattern=STRUCTURE_NAME_PATTERN,
        description="Map name; one * matches any text; `default` is for maps that nothing else "
        "matches.",
    )
    time_to_live_seconds: int = Field(
        default=0, ge=0, le=MAX_INT32, description="Seconds after which an entry is gone; 0: never."
    )


class QueueSpec(SpecModel):
    """Configuration of the queues that a name matches."""

    name: str = Field(
        min_length=1,
        max_length=255,
        pattern=STRUCTURE_NAME_PATTERN,
        description="Queue name; one * matches any text; `default` is for queues that nothing else "
        "matches.",
    )
    max_size: int = Field(
        default=0, ge=0, le=MAX_INT32, description="Most items held; 0: 2147483647."
    )


class PersistenceSpec(SpecModel):
    """Whether data outlives the pod. Fixed at creation."""

    enabled: bool = Field(
        default=False, description="Keep data on a volume per member, written before an answer."
    )
    size: str = Field(
        default="1Gi",
        max_length=32,
        pattern=QUANTITY_PATTERN,
        description="Size of each member's volume.",
    )
    storage_class_name: str | None = Field(
        default=None,
        max_length=253,
        description="StorageClass of the volumes; none: the default class of the Kubernetes "
        "cluster.",
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
    )


class LoggingSpec(SpecModel):
    """The members' log."""

    format: LogFormat = Field(
        default=LogFormat.JSON, description="One JSON object a line, or text."
    )
    level: LogLevel = Field(default=LogLevel.INFO, description="Least important lines written.")


class GridClusterSpec(SpecModel):
    """What the cluster should be."""

    size: int = Field(default=1, ge=1, le=1000, description="Number of members.")
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
    rest: RestSpec = Field(default=RestSpec(), description="The REST service on port 5701.")
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
    persistence: PersistenceSpec = Field(
        default=PersistenceSpec(), description="Whether data outlives the pod. Fixed at creation."
    )
    logging: LoggingSpec = Field(default=LoggingSpec(), description="The members' log.")
    pod: PodSpec = Field(default=PodSpec(), description="How member pods are made.")
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="What becomes of the volumes when the GridCluster is deleted.",
    )
    paused: bool = Field(
        default=False, description="While true the operator changes nothing and only reports."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.size <= 1",
            "size above 1 is not supported by this version: a GridCluster has exactly one member",
            lambda s: s.size <= 1,
        ),
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
        description="Starting, Active, Passive, ShutDown; Unknown when the member does not answer.",
    )
    ready: bool = Field(default=False, description="Whether the member can be used now.")


class GridClusterStatus(ApiModel):
    """What the cluster is, as the operator last saw it."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status is about."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra=list_map("type"),
        description="Ready, Progressing, ConfigValid.",
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

    def to_kube(self) -> KubeObject:
        """Return the status as JSON for the status subresource; absent values are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


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
    return f"{path}: {text}" if path else text
