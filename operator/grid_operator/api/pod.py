"""The part of a GridCluster's spec that shapes member pods."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from grid_operator.api.base import (
    ATOMIC_LIST,
    PLAIN_JSON,
    LabelMap,
    LabelValue,
    ObjectName,
    Quantity,
    Rule,
    SpecModel,
    list_map,
)
from grid_operator.api.containers import Container, EnvFrom, EnvVar, Volume, VolumeMount

MIN_GRACE_S: Final = 30
"""A member needs it to finish what was begun and to close its store."""
MAX_GRACE_S: Final = 3600
MAX_ID: Final = 2**31 - 1
UserId = Annotated[int, Field(ge=1, le=MAX_ID)]
"""Not 0: members never run as root."""
PlainObject = Annotated[dict[str, Any], Field(json_schema_extra=PLAIN_JSON)]
ResourceAmounts = Annotated[dict[str, Quantity], Field(max_length=16)]


class ImagePullPolicy(StrEnum):
    """When a node pulls the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class TolerationOperator(StrEnum):
    """How a toleration compares its key."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """Which effect of a taint is tolerated."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Resources(SpecModel):
    """Compute resources of the member container."""

    requests: ResourceAmounts = Field(
        default={"cpu": "100m", "memory": "128Mi"},
        description="What the scheduler reserves. A request must not exceed its limit.",
    )
    limits: ResourceAmounts = Field(
        default={"memory": "512Mi"},
        description="What a member may use at most. Over the memory limit it is killed: size it "
        "for the data that is held.",
    )


class Toleration(SpecModel):
    """Lets member pods run on nodes with a matching taint."""

    key: str | None = Field(
        default=None, max_length=317, description="Taint key; none with Exists matches every key."
    )
    operator: TolerationOperator = Field(
        default=TolerationOperator.EQUAL, description="Equal compares the value, Exists does not."
    )
    value: str | None = Field(
        default=None, max_length=63, description="Taint value, with operator Equal."
    )
    effect: TaintEffect | None = Field(
        default=None, description="Taint effect; none matches every effect."
    )
    toleration_seconds: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="With NoExecute: seconds to stay after the taint appears; none stays for ever.",
    )


class SecretRef(SpecModel):
    """Names a Secret in the cluster's namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret.")


class PodSecurityContext(SpecModel):
    """Ids of the member process and of its files; the rest is fixed by the restricted standard."""

    run_as_user: UserId | None = Field(
        default=None, description="User id of the process; none: 10001."
    )
    run_as_group: UserId | None = Field(
        default=None, description="Group id of the process; none: 10001."
    )
    fs_group: UserId | None = Field(
        default=None, description="Group that owns the volumes; none: 10001."
    )


class PodSpec(SpecModel):
    """How member pods are made."""

    resources: Resources = Field(
        default=Resources(), description="Compute resources of the member container."
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra=list_map("name"),
        description="Additional environment variables of the member container.",
    )
    env_from: tuple[EnvFrom, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=ATOMIC_LIST,
        description="ConfigMaps and Secrets whose keys are further environment variables of the "
        "member container; env and the operator's own go before a key of the same name.",
    )
    volumes: tuple[Volume, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra=list_map("name"),
        description="Additional volumes, as Kubernetes has them.",
    )
    volume_mounts: tuple[VolumeMount, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra=list_map("mountPath"),
        description="Where the member container has these volumes, as Kubernetes has it.",
    )
    init_containers: tuple[Container, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=list_map("name"),
        description="Containers that run before the member starts, as Kubernetes has them; one "
        "with restartPolicy Always goes on beside it.",
    )
    sidecars: tuple[Container, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=list_map("name"),
        description="Containers beside the member, as Kubernetes has them.",
    )
    node_selector: LabelMap = Field(
        default={}, description="Labels that a node must carry to run a member."
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra=ATOMIC_LIST,
        description="Taints that member pods tolerate.",
    )
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)
    ] = Field(default={}, description="Additional annotations of member pods.")
    labels: Annotated[dict[str, LabelValue], Field(max_length=64)] = Field(
        default={}, description="Additional labels of member pods."
    )
    image_pull_secrets: tuple[SecretRef, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=list_map("name"),
        description="Secrets with credentials for the image registry.",
    )
    affinity: PlainObject | None = Field(
        default=None, description="Affinity of member pods, as Kubernetes has it."
    )
    topology_spread_constraints: tuple[PlainObject, ...] = Field(
        default=(),
        max_length=16,
        json_schema_extra=ATOMIC_LIST,
        description="How member pods spread, as Kubernetes has it.",
    )
    priority_class_name: ObjectName | None = Field(
        default=None, description="PriorityClass of member pods."
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description="ServiceAccount of member pods; its token is not mounted.",
    )
    runtime_class_name: ObjectName | None = Field(
        default=None, description="RuntimeClass of member pods."
    )
    dns_config: PlainObject | None = Field(
        default=None, description="How member pods resolve names, as Kubernetes has it."
    )
    host_aliases: tuple[PlainObject, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra=ATOMIC_LIST,
        description="Entries of the hosts file of member pods, as Kubernetes has them.",
    )
    termination_grace_period_seconds: int = Field(
        default=60,
        ge=MIN_GRACE_S,
        le=MAX_GRACE_S,
        description="Seconds that a member has to finish what was begun and to close its store.",
    )
    security_context: PodSecurityContext = Field(
        default=PodSecurityContext(), description="Ids of the member process and of its files."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.volumeMounts.all(m, self.volumes.exists(v, v.name == m.name))",
            "volumeMounts: each needs the name of one of spec.pod.volumes",
            lambda p: {m.name for m in p.volume_mounts} <= {v.name for v in p.volumes},
        ),
        Rule(
            "self.initContainers.all(c, !self.sidecars.exists(s, s.name == c.name))",
            "initContainers and sidecars: containers of one pod need different names",
            lambda p: not {c.name for c in p.init_containers} & {c.name for c in p.sidecars},
        ),
    )
