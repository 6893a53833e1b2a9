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


@dataclass(frozen=True, slots=True)
class PolicyFor:
    """When an image is pulled of which nothing is said, by the image in another field."""

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

_FIELD_REF: Final[Table] = {"fieldRef.apiVersion": "v1", "resourceFieldRef.divisor": "0"}
_HTTP_GET: Final[Table] = {"httpGet.path": "/", "httpGet.scheme": "HTTP"}
_PROBE: Final[Table] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    **_HTTP_GET,
}


def _below(place: str, table: Table) -> Table:
    return {f"{place}.{name}": value for name, value in table.items()}


_CONTAINER: Final[Table] = {
    "imagePullPolicy": PolicyFor("image"),
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "securityContext.procMount": "Default",
    "ports[].protocol": "TCP",
    "env[].valueFrom.fileKeyRef.optional": False,
    **_below("env[].valueFrom", _FIELD_REF),
    **_below("startupProbe", _PROBE),
    **_below("livenessProbe", _PROBE),
    **_below("readinessProbe", _PROBE),
    **_below("lifecycle.postStart", _HTTP_GET),
    **_below("lifecycle.preStop", _HTTP_GET),
}

_VOLUME: Final[Table] = {
    "emptyDir": {},
    "configMap.defaultMode": 0o644,
    "secret.defaultMode": 0o644,
    "downwardAPI.defaultMode": 0o644,
    **_below("downwardAPI.items[]", _FIELD_REF),
    "projected.defaultMode": 0o644,
    "projected.sources[].serviceAccountToken.expirationSeconds": 3600,
    **_below("projected.sources[].downwardAPI.items[]", _FIELD_REF),
    "image.pullPolicy": PolicyFor("reference"),
    "ephemeral.volumeClaimTemplate.spec.resources": {},
    "ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
    "ephemeral.volumeClaimTemplate.metadata": {},
    "iscsi.iscsiInterface": "default",
    "rbd.pool": "rbd",
    "rbd.user": "admin",
    "rbd.keyring": "/etc/ceph/keyring",
    "azureDisk.cachingMode": "ReadWrite",
    "azureDisk.fsType": "ext4",
    "azureDisk.kind": "Shared",
    "azureDisk.readOnly": False,
    "scaleIO.storageMode": "ThinProvisioned",
    "scaleIO.fsType": "xfs",
}

_POD: Final[Table] = {
    # `kubectl rollout restart` writes one, and so do tools that restart on a changed Secret.
    "metadata.annotations.*": ANY,
    "spec.restartPolicy": "Always",
    "spec.dnsPolicy": "ClusterFirst",
    "spec.schedulerName": "default-scheduler",
    "spec.serviceAccount": SameAs("serviceAccountName"),
    "spec.terminationGracePeriodSeconds": 30,
    **_below("spec.volumes[]", _VOLUME),
    **_below("spec.containers[]", _CONTAINER),
    **_below("spec.initContainers[]", _CONTAINER),
}

_TEMPLATE: Final[Table] = _below("spec.template", _POD)

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

_CONTAINER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("name",),
    ".env": ("name",),
    ".ports": ("containerPort", "protocol"),
    ".volumeMounts": ("mountPath",),
    ".volumeDevices": ("devicePath",),
    ".resources.claims": ("name",),
}
_POD_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"containers{'[]' if p else ''}{p}": keys for p, keys in _CONTAINER_KEYS.items()},
    **{f"initContainers{'[]' if p else ''}{p}": keys for p, keys in _CONTAINER_KEYS.items()},
    "volumes": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.ownerReferences": ("uid",),
    **{f"spec.template.spec.{place}": keys for place, keys in _POD_KEYS.items()},
}
_PORTS: Final[Mapping[str, tuple[str, ...]]] = {"spec.ports": ("port", "protocol")}
IN_ORDER: Final = frozenset({"spec.template.spec.initContainers"})
"""Lists whose items are told apart by keys, and run in their order."""
KEY_DEFAULTS: Final[Table] = {"protocol": "TCP"}
"""Of keys that an item may leave out."""
LEFT_OUT: Final[Table] = {
    "readOnly": False,
    "stdin": False,
    "stdinOnce": False,
    "tty": False,
    "hostPort": 0,
    "initialDelaySeconds": 0,
    "chapAuthDiscovery": False,
    "chapAuthSession": False,
    "sslEnabled": False,
    "partition": 0,
}
"""Values that the API server does not store: without the field a pod is the same. Of other fields,
such as `automountServiceAccountToken`, false is another value than none."""


ZERO_IS_NONE: Final = frozenset(
    {"timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}
)
"""Fields of which the API server takes 0 for none, and puts the default there."""


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
    if isinstance(allowed, PolicyFor):
        return value == _pull_policy(str(siblings.get(allowed.field, "")))
    same_type = isinstance(allowed, bool) == isinstance(value, bool)
    return allowed is ANY or (allowed is not missing and same_type and allowed == value)


def _pull_policy(image: str) -> str:
    """Return when an image is pulled by default: always if its tag is `latest`, or it has none."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"
