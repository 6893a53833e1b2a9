"""The part of a GridCluster's spec that replicates maps to other clusters."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from grid_operator.api.base import (
    ATOMIC_LIST,
    MAX_LABEL_LENGTH,
    ObjectName,
    Rule,
    SpecModel,
    list_map,
)
from grid_operator.api.names import MANAGEMENT_PORT, MAX_NAME_LENGTH, MEMBERS_PORT, WAN_PORT
from grid_operator.api.network import MAX_CIDR_LENGTH, MAX_PORT, MIN_PORT, ExposureType

MAX_REPLICATIONS: Final = 16
MAX_PUBLISHERS: Final = 8
"""Of one replication; both limits are the members' own."""
MAX_ENDPOINTS: Final = 32
MAX_PATTERNS: Final = 32
MAX_SENDERS: Final = 64
WAN_NAME_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
CLUSTER_NAME_PATTERN: Final = r"^[A-Za-z0-9._-]+$"
MAX_CLUSTER_NAME_LENGTH: Final = 255
_NAMESPACE_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OBJECT_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"

_HOST: Final = (
    r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?\.?)(?::([0-9]{1,5}))?"
)
_ENDPOINT: Final = re.compile(_HOST)

WanName = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH, pattern=WAN_NAME_PATTERN)]
"""Name of a replication or publisher, as calls, metrics and the status have it."""
ClusterName = Annotated[
    str, Field(min_length=1, max_length=MAX_CLUSTER_NAME_LENGTH, pattern=CLUSTER_NAME_PATTERN)
]
"""The `clusterName` of a cluster."""
KeyPattern = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^$\x00-\x1f\x7f]+$")]
"""Keys of a map: one `*` matches any text."""


def wan_endpoint_port(text: str) -> int | None:
    """Return the port of an endpoint, which may be left out; None: it is no address."""
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        return None
    port = int(found[1]) if found[1] else WAN_PORT
    return port if 0 < port <= MAX_PORT else None


class MergePolicy(StrEnum):
    """Which change of a key counts at the target."""

    LATEST_UPDATE = "LatestUpdate"
    PASS_THROUGH = "PassThrough"  # noqa: S105 - a policy, no password
    PUT_IF_ABSENT = "PutIfAbsent"


class MapWanSpec(SpecModel):
    """How the maps that a name matches are replicated."""

    replication: WanName = Field(description="Name of one of spec.wan.")
    merge_policy: MergePolicy = Field(
        default=MergePolicy.LATEST_UPDATE,
        description="Which change of a key counts at the target: the newest one, the one that "
        "comes, or the first one.",
    )
    republishing: bool = Field(
        default=True, description="Whether changes that other clusters sent are published again."
    )
    include_keys: tuple[KeyPattern, ...] = Field(
        default=(),
        max_length=MAX_PATTERNS,
        json_schema_extra=ATOMIC_LIST,
        description="Patterns of keys with one * at most: only keys that match one of them are "
        "replicated; none: all keys.",
    )
    exclude_keys: tuple[KeyPattern, ...] = Field(
        default=(),
        max_length=MAX_PATTERNS,
        json_schema_extra=ATOMIC_LIST,
        description="Patterns of keys with one * at most: keys that match one of them are not "
        "replicated.",
    )


class PublisherState(StrEnum):
    """What every member does for a publisher."""

    REPLICATING = "Replicating"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    MANUAL = "Manual"


class QueueFullBehavior(StrEnum):
    """What becomes of a change that a full queue has no place for."""

    DISCARD_AFTER_MUTATION = "DiscardAfterMutation"
    THROW_EXCEPTION = "ThrowException"
    THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE = "ThrowExceptionOnlyIfReplicationActive"


class WanTargetSpec(SpecModel):
    """Another GridCluster of this Kubernetes."""

    namespace: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LABEL_LENGTH,
        pattern=_NAMESPACE_PATTERN,
        description="Its namespace; none: that of this GridCluster.",
    )
    name: str = Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        pattern=_OBJECT_PATTERN,
        description="Its name. Changes go to its Service NAME-wan.",
    )
    port: int = Field(
        default=WAN_PORT, ge=MIN_PORT, le=MAX_PORT, description="Its wanListener.port."
    )


class WanPublisherSpec(SpecModel):
    """One cluster that changes go to."""

    id: WanName = Field(description="Name of the publisher.")
    target_cluster: ClusterName = Field(
        description="The clusterName of the target, which refuses changes for another one."
    )
    endpoints: tuple[Annotated[str, Field(min_length=1, max_length=300)], ...] = Field(
        default=(),
        max_length=MAX_ENDPOINTS,
        json_schema_extra=ATOMIC_LIST,
        description="Addresses of the target's WAN port: host, host:port, [IPv6] or [IPv6]:port; "
        f"without a port {WAN_PORT}.",
    )
    target: WanTargetSpec | None = Field(
        default=None, description="The target as a GridCluster of this Kubernetes."
    )
    secret_name: ObjectName = Field(
        description="Secret with the keys `username` and `password` that the target's wanListener "
        "knows."
    )
    state: PublisherState = Field(
        default=PublisherState.REPLICATING,
        description="What every member does: send, keep changes and not send, neither keep nor "
        "send; Manual: the operator leaves the members' states alone.",
    )
    queue_capacity: int = Field(
        default=100_000,
        ge=100,
        le=10_000_000,
        description="Keys of a map that one member changed and that may wait for the target.",
    )
    queue_full_behavior: QueueFullBehavior = Field(
        default=QueueFullBehavior.DISCARD_AFTER_MUTATION,
        description="What becomes of a change that a full queue has no place for: it is stored, "
        "and the map is compared with the target later; or it is refused.",
    )
    batch_size: int = Field(
        default=500, ge=1, le=10_000, description="Changes that one batch holds at most."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.endpoints.size() > 0) != has(self.target)",
            "a publisher of spec.wan needs exactly one of endpoints and target",
            lambda p: bool(p.endpoints) != (p.target is not None),
        ),
    )


class WanReplicationSpec(SpecModel):
    """A set of clusters that changes go to; maps refer to it by its name."""

    name: WanName = Field(description="Name of the replication, which maps[].wan refers to.")
    publishers: tuple[WanPublisherSpec, ...] = Field(
        default=(),
        max_length=MAX_PUBLISHERS,
        json_schema_extra=list_map("id"),
        description="The clusters that changes go to; maps refer only to replications that have "
        "one.",
    )


class WanClientCertificates(StrEnum):
    """Whether clusters that send prove who they are by a certificate."""

    NONE = "None"
    OPTIONAL = "Optional"
    REQUIRED = "Required"


class WanTlsSpec(SpecModel):
    """TLS of the WAN port, and of what publishers open."""

    secret_name: ObjectName = Field(
        description="Secret with tls.crt, tls.key and ca.crt, as cert-manager makes it. The "
        "publishers of spec.wan speak TLS by the same files, and check their target by ca.crt."
    )
    client_certificates: WanClientCertificates = Field(
        default=WanClientCertificates.NONE,
        description="Whether a cluster that sends shows a certificate that ca.crt signed: not "
        "asked for, checked when there is one, required.",
    )


class WanSenderSpec(SpecModel):
    """Clients that may connect to the WAN port."""

    namespace: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LABEL_LENGTH,
        pattern=_NAMESPACE_PATTERN,
        description="Namespace of the GridCluster; none: that of this GridCluster.",
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        pattern=_OBJECT_PATTERN,
        description="Name of a GridCluster of this Kubernetes whose members may connect.",
    )
    cidr: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_CIDR_LENGTH,
        pattern=r"^[0-9a-fA-F.:/]+$",
        description="A network whose addresses may connect.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.name) != has(self.cidr) && (has(self.name) || !has(self.namespace))",
            "an item of wanListener.from needs name, perhaps with namespace, or cidr",
            lambda s: (
                (s.name is None) != (s.cidr is None) and (s.name is not None or s.namespace is None)
            ),
        ),
    )


class WanServiceSpec(SpecModel):
    """The Service NAME-wan in front of the WAN port."""

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
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.nodePort) || self.type != 'ClusterIP'",
            "wanListener.service.nodePort needs type NodePort or LoadBalancer",
            lambda s: s.node_port is None or s.type is not ExposureType.CLUSTER_IP,
        ),
    )


class WanListenerSpec(SpecModel):
    """Where the members take changes of other clusters."""

    enabled: bool = Field(
        default=False, description="Whether members take changes of other clusters."
    )
    port: int = Field(
        default=WAN_PORT,
        ge=MIN_PORT,
        le=MAX_PORT,
        description=f"Port that members listen on; the Service NAME-wan has {WAN_PORT}.",
    )
    secret_name: ObjectName | None = Field(
        default=None,
        description="Secret with the keys `username` and `password` that clusters show which send; "
        "none: NAME-wan. Made once, with a random password, when there is none of this name.",
    )
    tls: WanTlsSpec | None = Field(
        default=None, description="TLS of the WAN port and of publishers; none: plain text."
    )
    accepted_clusters: tuple[ClusterName, ...] = Field(
        default=(),
        max_length=MAX_SENDERS,
        json_schema_extra=ATOMIC_LIST,
        description="Names of the clusters whose changes are taken; none: of any that shows the "
        "Secret.",
    )
    allowed_from: tuple[WanSenderSpec, ...] = Field(
        default=(),
        alias="from",
        max_length=MAX_SENDERS,
        json_schema_extra=ATOMIC_LIST,
        description="The clients that the NetworkPolicy lets connect to the WAN port; none: it "
        "lets no client connect.",
    )
    service: WanServiceSpec = Field(
        default=WanServiceSpec(), description="The Service NAME-wan in front of the WAN port."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!(self.port in [{MANAGEMENT_PORT}, {MEMBERS_PORT}])",
            f"wanListener.port: ports {MANAGEMENT_PORT} and {MEMBERS_PORT} belong to other "
            "listeners",
            lambda s: s.port not in (MANAGEMENT_PORT, MEMBERS_PORT),
        ),
        Rule(
            "self.enabled || (!has(self.secretName) && self.acceptedClusters.size() == 0 && "
            "self.from.size() == 0)",
            "wanListener.secretName, acceptedClusters and from have no effect while "
            "wanListener.enabled is false",
            lambda s: s.enabled or not (s.secret_name or s.accepted_clusters or s.allowed_from),
        ),
    )
