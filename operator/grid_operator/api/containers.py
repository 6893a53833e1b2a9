"""What a spec adds to member pods: variables, volumes, mounts and containers of one's own.

They are Kubernetes' own objects: the API server checks them when it takes the StatefulSet. Declared
here is only what a rule looks at, mostly names, so that nothing of a user's stands in for a part of
the member.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from grid_operator.api.base import ATOMIC_LIST, PLAIN_JSON, Rule, SpecModel
from grid_operator.api.names import (
    BACKUP_DIR,
    BACKUP_VOLUME,
    CONFIG_DIR,
    CONFIG_VOLUME,
    DATA_DIR,
    DATA_VOLUME,
    MANAGEMENT_PORT,
    MANAGEMENT_PORT_NAME,
    MEMBER_CONTAINER,
    MEMBERS_PORT,
    MEMBERS_PORT_NAME,
    METRICS_PORT_NAME,
    PROGRAM_DIR,
    REST_PORT_NAME,
    TLS_DIR,
    TLS_VOLUME,
    TMP_DIR,
    TMP_VOLUME,
    WAN_TLS_DIR,
)

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridClusterSpec
    from grid_operator.api.objects import KubeObject

OWN_PREFIX: Final = "grid-"
"""Of names that later versions may give to containers and volumes of the operator's."""
OWN_VOLUMES: Final = (CONFIG_VOLUME, TMP_VOLUME, TLS_VOLUME, DATA_VOLUME, BACKUP_VOLUME)
OWN_DIRECTORIES: Final = (
    *(CONFIG_DIR, TLS_DIR, WAN_TLS_DIR, DATA_DIR, BACKUP_DIR, TMP_DIR, PROGRAM_DIR),
)
OWN_PORT_NAMES: Final = (
    REST_PORT_NAME,
    MANAGEMENT_PORT_NAME,
    METRICS_PORT_NAME,
    MEMBERS_PORT_NAME,
)
OWN_VARIABLES: Final = ("POD_NAME", "POD_NAMESPACE", "POD_IP")
OWN_VARIABLE_PREFIX: Final = "GRID_"
FREE_VARIABLES: Final = ("GRID_COMPILED",)
"""Of the members' own variables those that the operator does not set."""
MAX_PORTS: Final = 16
MAX_PATH_LENGTH: Final = 512
_PLAIN_PATH: Final = r"^(/([^/:.]|[.][^/:.]|[.][.][^/:])[^/:]*)+$"
"""Absolute, without empty parts, `.` and `..`, and without a colon, which Kubernetes refuses."""
_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OWN_VARIABLES_TEXT: Final = (
    f"{', '.join(OWN_VARIABLES)} and names that start with {OWN_VARIABLE_PREFIX} are the "
    f"operator's own, but for {', '.join(FREE_VARIABLES)}"
)


def _listed(names: tuple[str, ...]) -> str:
    """Return the names as a list in CEL."""
    return f"[{', '.join(repr(name) for name in names)}]"


class KubernetesPart(SpecModel):
    """Base of a part of a pod of which only some fields are declared; the others stay."""

    model_config = ConfigDict(extra="allow", json_schema_extra=PLAIN_JSON)

    def as_kube(self) -> KubeObject:
        """Return it as it stands in a pod."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class EnvVar(SpecModel):
    """One environment variable of the member container."""

    name: str = Field(
        min_length=1,
        max_length=255,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description=f"Name. {_OWN_VARIABLES_TEXT}.",
    )
    value: str = Field(default="", max_length=4096, description="Value, in plain text.")
    value_from: Annotated[dict[str, Any], Field(json_schema_extra=PLAIN_JSON)] | None = Field(
        default=None,
        description="Where the value is read when the container starts, as Kubernetes has it: "
        "secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!(self.name in {_listed(OWN_VARIABLES)}) && "
            f"(!self.name.startsWith('{OWN_VARIABLE_PREFIX}') || "
            f"self.name in {_listed(FREE_VARIABLES)})",
            f"{_OWN_VARIABLES_TEXT}: choose another name",
            lambda v: (
                v.name not in OWN_VARIABLES
                and (not v.name.startswith(OWN_VARIABLE_PREFIX) or v.name in FREE_VARIABLES)
            ),
        ),
        Rule(
            "self.value == '' || !has(self.valueFrom)",
            "value and valueFrom exclude each other",
            lambda v: v.value == "" or v.value_from is None,
        ),
    )


class EnvFrom(KubernetesPart):
    """A ConfigMap or Secret whose keys are environment variables of the member container."""

    prefix: str | None = Field(
        default=None, max_length=255, description="What the names begin with, before the keys."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.prefix) || !self.prefix.startsWith('{OWN_VARIABLE_PREFIX}')",
            f"names that start with {OWN_VARIABLE_PREFIX} are the operator's own: choose another "
            "prefix",
            lambda e: e.prefix is None or not e.prefix.startswith(OWN_VARIABLE_PREFIX),
        ),
    )


class Volume(KubernetesPart):
    """A volume of member pods."""

    name: str = Field(min_length=1, max_length=63, pattern=_LABEL, description="Name.")
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!(self.name in {_listed(OWN_VOLUMES)}) && !self.name.startsWith('{OWN_PREFIX}')",
            f"volumes {', '.join(OWN_VOLUMES)} and those that start with {OWN_PREFIX} are the "
            "operator's own: choose another name",
            lambda v: v.name not in OWN_VOLUMES and not v.name.startswith(OWN_PREFIX),
        ),
    )


class VolumeMount(KubernetesPart):
    """Where the member container has a volume."""

    name: str = Field(
        min_length=1, max_length=63, pattern=_LABEL, description="Name of one of the volumes."
    )
    mount_path: str = Field(
        min_length=1, max_length=MAX_PATH_LENGTH, description="Absolute path in the container."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.mountPath.matches('{_PLAIN_PATH}')",
            "mountPath must be an absolute path without a colon, empty parts, . and .., and "
            "without a slash at its end",
            lambda m: re.search(_PLAIN_PATH, m.mount_path) is not None,
        ),
        Rule(
            f"{_listed(OWN_DIRECTORIES)}.all(d, self.mountPath != d && "
            "!self.mountPath.startsWith(d + '/') && !d.startsWith(self.mountPath + '/'))",
            f"{', '.join(OWN_DIRECTORIES)} and what is above and below them are the member's own: "
            "choose another mountPath",
            lambda m: not any(_meet(m.mount_path, d) for d in OWN_DIRECTORIES),
        ),
    )


def _meet(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


class ContainerPort(KubernetesPart):
    """A port of a container."""

    container_port: int = Field(ge=1, le=65535, description="Number of the port.")
    name: str | None = Field(default=None, max_length=15, description="Name of the port.")
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.name) || !(self.name in {_listed(OWN_PORT_NAMES)})",
            f"ports {', '.join(OWN_PORT_NAMES)} are the member's own: choose another name",
            lambda p: p.name not in OWN_PORT_NAMES,
        ),
    )

    def as_kube(self) -> KubeObject:
        """Return it as it stands in a container, without an empty protocol.

        Server-side apply tells ports apart by it, and knows the default only of one that is left
        out: each apply of an empty one would add the port once more, and make another template.
        """
        found = super().as_kube()
        return {k: v for k, v in found.items() if k != "protocol" or v != ""}


class Container(KubernetesPart):
    """A container of one's own in member pods."""

    name: str = Field(min_length=1, max_length=63, pattern=_LABEL, description="Name.")
    ports: tuple[ContainerPort, ...] | None = Field(
        default=None,
        max_length=MAX_PORTS,
        json_schema_extra=ATOMIC_LIST,
        description="Ports, none of them one of the member's.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name != '{MEMBER_CONTAINER}' && !self.name.startsWith('{OWN_PREFIX}')",
            f"container {MEMBER_CONTAINER} and those that start with {OWN_PREFIX} are the "
            "operator's own: choose another name",
            lambda c: c.name != MEMBER_CONTAINER and not c.name.startswith(OWN_PREFIX),
        ),
    )

    def as_kube(self) -> KubeObject:
        """Return it as it stands in a pod."""
        found = super().as_kube()
        if self.ports is None:
            return found
        return {**found, "ports": [port.as_kube() for port in self.ports]}

    @property
    def port_numbers(self) -> frozenset[int]:
        """The ports that it names."""
        return frozenset(port.container_port for port in self.ports or ())


_REST_PORT: Final = (
    "(self.advancedNetwork.enabled ? self.advancedNetwork.restPort : self.rest.port)"
)
_IS_FREE: Final = (
    "!has(c.ports) || c.ports.all(p, "
    f"!(p.containerPort in [{MANAGEMENT_PORT}, {MEMBERS_PORT}, {_REST_PORT}]) && "
    "(!self.metrics.enabled || p.containerPort != self.metrics.port) && "
    "(!self.wanListener.enabled || p.containerPort != self.wanListener.port))"
)


def _ports_are_free(spec: GridClusterSpec) -> bool:
    own = {MANAGEMENT_PORT, MEMBERS_PORT, spec.rest_port, spec.metrics_port, spec.wan_port}
    return not any(own & c.port_numbers for c in (*spec.pod.init_containers, *spec.pod.sidecars))


FREE_PORTS: Final = Rule(
    f"self.pod.initContainers.all(c, {_IS_FREE}) && self.pod.sidecars.all(c, {_IS_FREE})",
    f"pod: the REST port, the metrics port, the WAN port, {MANAGEMENT_PORT} and {MEMBERS_PORT} are "
    "the member's own: all containers of a pod share its ports, choose another containerPort",
    _ports_are_free,
)
"""A rule of the whole spec: what the member listens on stands beside `pod`."""
