"""What the live form of a child may have that is not rendered.

Whatever else somebody adds is drift. Patterns name places: `[]` is any item of a list, `*` any key.
Literal values are those that the API server fills in itself: another value is drift as well.
`docs/operator.md` tells the same in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = object
"""What JSON holds."""


class _Any(Enum):
    ANY = auto()


ANY: Final = _Any.ANY
"""Whatever value is there."""


@dataclass(frozen=True, slots=True)
class SameAs:
    """The value of another field of the same object: an older name of that field."""

    field: str


Table: TypeAlias = "Mapping[str, JsonValue]"

_METADATA: Final[Table] = {
    "metadata.*": ANY,
    "metadata.labels.*": ANY,
    "metadata.annotations.*": ANY,
    "metadata.ownerReferences[]": ANY,
    "status": ANY,
}
"""People, GitOps tools and cloud controllers note things there, and the API server itself."""

_CONTAINER: Final[Table] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "securityContext.procMount": "Default",
    "env[].valueFrom.fieldRef.apiVersion": "v1",
    "startupProbe.successThreshold": 1,
    "livenessProbe.successThreshold": 1,
    "readinessProbe.successThreshold": 1,
}

_POD: Final[Table] = {
    # `kubectl rollout restart` writes one, and so do tools that restart on a changed Secret.
    "metadata.annotations.*": ANY,
    "spec.restartPolicy": "Always",
    "spec.dnsPolicy": "ClusterFirst",
    "spec.schedulerName": "default-scheduler",
    "spec.serviceAccount": SameAs("serviceAccountName"),
    "spec.terminationGracePeriodSeconds": 30,
    "spec.volumes[].configMap.defaultMode": 0o644,
    "spec.volumes[].secret.defaultMode": 0o644,
    **{f"spec.containers[].{place}": value for place, value in _CONTAINER.items()},
}

_TEMPLATE: Final[Table] = {f"spec.template.{place}": value for place, value in _POD.items()}

_CLAIM: Final[Table] = {"spec.*": ANY, "spec.resources.*": ANY, "spec.resources.requests.*": ANY}
"""Nothing of a claim changes anything by being there: the provisioner fills it in."""

_CLAIM_TEMPLATE: Final[Table] = {
    "apiVersion": ANY,
    "kind": ANY,
    "status": ANY,
    "metadata.*": ANY,
    "metadata.annotations.*": ANY,
    "spec.volumeMode": "Filesystem",
}

TOLERATED: Final[Mapping[str, Table]] = {
    "StatefulSet": {
        **_METADATA,
        **_TEMPLATE,
        **{f"spec.volumeClaimTemplates[].{p}": v for p, v in _CLAIM_TEMPLATE.items()},
    },
    "Job": {
        **_METADATA,
        **_TEMPLATE,
        "spec.selector": ANY,
        "spec.template.metadata.labels.*": ANY,
        "spec.completionMode": "NonIndexed",
        "spec.completions": 1,
        "spec.parallelism": 1,
        "spec.suspend": False,
        "spec.manualSelector": ANY,
        "spec.podReplacementPolicy": "TerminatingOrFailed",
    },
    "Service": {
        **_METADATA,
        "spec.clusterIP": ANY,
        "spec.clusterIPs": ANY,
        "spec.ipFamilies": ANY,
        "spec.ipFamilyPolicy": ANY,
        "spec.healthCheckNodePort": ANY,
        # Some load balancers note the address here that they assign.
        "spec.loadBalancerIP": ANY,
        "spec.ports[].nodePort": ANY,
        "spec.allocateLoadBalancerNodePorts": True,
        "spec.externalTrafficPolicy": "Cluster",
        "spec.internalTrafficPolicy": "Cluster",
        "spec.sessionAffinity": "None",
    },
    # Pods read single keys of a Secret; further ones do nothing. Its content never changes, so
    # that it cannot be changed is no harm either.
    "Secret": {**_METADATA, "data.*": ANY, "immutable": True},
    "PersistentVolumeClaim": {**_METADATA, **_CLAIM},
}
"""By kind; of kinds that are not named only `_METADATA` is tolerated."""

_POD_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "containers[].env": ("name",),
    "containers[].ports": ("containerPort", "protocol"),
    "containers[].volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.ownerReferences": ("uid",),
    **{f"spec.template.spec.{place}": keys for place, keys in _POD_KEYS.items()},
}
_PORTS: Final[Mapping[str, tuple[str, ...]]] = {"spec.ports": ("port", "protocol")}


def key_fields(kind: str, pattern: str) -> tuple[str, ...]:
    """Return what tells the items of a list apart; nothing: the list counts as a whole.

    The same as `x-kubernetes-list-map-keys` of the API's schema, by which server-side apply joins.
    """
    own = _PORTS if kind == "Service" else {}
    return own.get(pattern) or _KEYS.get(pattern, ())


def is_tolerated(
    kind: str, pattern: str, within: str, value: JsonValue, siblings: Mapping[str, JsonValue]
) -> bool:
    """Return whether the value may be there without being rendered.

    Args:
        kind: Of the child.
        pattern: Where the value is.
        within: Where the object is that holds it: its key may have dots.
        value: What is there.
        siblings: The live object that it is in.
    """
    table = TOLERATED.get(kind, _METADATA)
    missing = object()
    allowed = table.get(pattern, missing)
    if allowed is missing:
        allowed = table.get(f"{within}.*", missing)
    if isinstance(allowed, SameAs):
        return value == siblings.get(allowed.field)
    same_type = isinstance(allowed, bool) == isinstance(value, bool)
    return allowed is ANY or (allowed is not missing and same_type and allowed == value)
