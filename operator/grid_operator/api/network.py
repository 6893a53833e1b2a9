"""The part of a GridCluster's spec that says who reaches the members, and where."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from grid_operator.api.base import ATOMIC_LIST, Rule, SpecModel, list_map
from grid_operator.api.names import MANAGEMENT_PORT, METRICS_PORT, REST_PORT

MIN_PORT: Final = 1024
"""Members run without the right to ports below."""
MAX_PORT: Final = 65535
MAX_CIDR_LENGTH: Final = 43
"""Of an IPv6 network, written out."""
_PORT_TAKEN: Final = f"port {MANAGEMENT_PORT} belongs to the management listener"


class EndpointGroupName(StrEnum):
    """A group of REST endpoints that is turned on or off as one."""

    CLUSTER_READ = "ClusterRead"
    CLUSTER_WRITE = "ClusterWrite"
    HEALTH_CHECK = "HealthCheck"
    PERSISTENCE = "Persistence"
    WAN = "Wan"
    DATA = "Data"
    CP = "Cp"


class EndpointGroup(SpecModel):
    """Turns one endpoint group on or off."""

    name: EndpointGroupName = Field(description="The group.")
    enabled: bool = Field(description="Whether its endpoints answer on the REST port.")


class RestSpec(SpecModel):
    """The members' REST service."""

    port: int = Field(
        default=REST_PORT,
        ge=MIN_PORT,
        le=MAX_PORT,
        description="Port that members listen on. With advancedNetwork it is set there.",
    )
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
        Rule(
            f"self.port != {MANAGEMENT_PORT}",
            f"rest.port: {_PORT_TAKEN}",
            lambda s: s.port != MANAGEMENT_PORT,
        ),
    )


class AdvancedNetworkSpec(SpecModel):
    """Every listener as an endpoint of its own in the members' configuration."""

    enabled: bool = Field(
        default=False, description="Use the advanced-network section of the configuration."
    )
    rest_port: int = Field(
        default=REST_PORT,
        ge=MIN_PORT,
        le=MAX_PORT,
        description="Port that members listen on for REST.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.restPort != {MANAGEMENT_PORT}",
            f"advancedNetwork.restPort: {_PORT_TAKEN}",
            lambda s: s.rest_port != MANAGEMENT_PORT,
        ),
        Rule(
            f"self.enabled || self.restPort == {REST_PORT}",
            "advancedNetwork.restPort has no effect while advancedNetwork.enabled is false",
            lambda s: s.enabled or s.rest_port == REST_PORT,
        ),
    )


class MetricsSpec(SpecModel):
    """The members' metrics, for Prometheus."""

    enabled: bool = Field(
        default=True, description="Whether members answer GET /metrics on a port of its own."
    )
    port: int = Field(
        default=METRICS_PORT,
        ge=MIN_PORT,
        le=MAX_PORT,
        description="Port that members listen on for it: plain HTTP, without credentials.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!self.enabled || self.port != {MANAGEMENT_PORT}",
            f"metrics.port: {_PORT_TAKEN}",
            lambda s: not s.enabled or s.port != MANAGEMENT_PORT,
        ),
    )


class ExposureType(StrEnum):
    """How clients outside of the Kubernetes cluster reach the members."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ExposureSpec(SpecModel):
    """The Service that clients use."""

    type: ExposureType = Field(
        default=ExposureType.CLUSTER_IP,
        description="ClusterIP: from inside of the Kubernetes cluster only.",
    )
    node_port: int | None = Field(
        default=None,
        ge=1,
        le=MAX_PORT,
        description="Port on every node, with NodePort or LoadBalancer; none: any free one.",
    )
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)
    ] = Field(default={}, description="Annotations of the Service, for load balancers.")
    load_balancer_class: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Which controller makes the load balancer; none: the default one.",
    )
    allowed_cidrs: tuple[
        Annotated[
            str, Field(min_length=1, max_length=MAX_CIDR_LENGTH, pattern=r"^[0-9a-fA-F.:/]+$")
        ],
        ...,
    ] = Field(
        default=(),
        max_length=64,
        json_schema_extra=ATOMIC_LIST,
        description="Networks that may reach the REST port, besides labelled pods; none: nobody "
        "from outside. The Service then keeps the clients' addresses (externalTrafficPolicy "
        "Local).",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.nodePort) || self.type != 'ClusterIP'",
            "exposure.nodePort needs type NodePort or LoadBalancer",
            lambda s: s.node_port is None or s.type is not ExposureType.CLUSTER_IP,
        ),
        Rule(
            "!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",
            "exposure.loadBalancerClass needs type LoadBalancer",
            lambda s: s.load_balancer_class is None or s.type is ExposureType.LOAD_BALANCER,
        ),
        Rule(
            "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || "
            "(has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && "
            "(!has(self.loadBalancerClass) || "
            "self.loadBalancerClass == oldSelf.loadBalancerClass))",
            "exposure.loadBalancerClass of a load balancer is fixed: change its type first",
        ),
    )
