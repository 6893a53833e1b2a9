"""The part of a GridCluster's spec that shapes member pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from grid_operator.api.base import LabelMap, LabelValue, Quantity, SpecModel, list_map

ResourceAmounts = Annotated[dict[str, Quantity], Field(max_length=16)]


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


class EnvVar(SpecModel):
    """One environment variable of the member container."""

    name: str = Field(
        min_length=1,
        max_length=255,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Name. POD_NAME, POD_NAMESPACE, POD_IP and names starting with GRID_ are the "
        "operator's own.",
    )
    value: str = Field(default="", max_length=4096, description="Value, in plain text.")


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


class PodSpec(SpecModel):
    """How member pods are made."""

    resources: Resources = Field(
        default=Resources(), description="Compute resources of the member container."
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra=list_map("name"),
        description="Additional environment variables.",
    )
    node_selector: LabelMap = Field(
        default={}, description="Labels that a node must carry to run a member."
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
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
