"""In what the members of the chart differ from those of the operator, as a table.

Each row turns what the operator makes into what the chart makes. A row that no case ever needs is
as wrong as one that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.lifecycle import DeletionPolicy
from grid_operator.api.names import (
    CLIENT_LABEL,
    CONFIG_HASH_ANNOTATION,
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    MANAGEMENT_PORT,
    MANAGEMENT_PORT_NAME,
    NAME_LABEL,
    PART_OF_LABEL,
    RENDERED_HASH_ANNOTATION,
    STRUCTURES_ANNOTATION,
    TEMPLATE_HASH_ANNOTATION,
    TLS_AUTHORITY_KEY,
    TLS_DIR,
    VERSION_LABEL,
    management_secret_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_operator.api.gridcluster import GridCluster

Tree = dict[str, Any]
Objects = dict[tuple[str, str], Tree]
"""By kind and name. The data of the ConfigMap is the configuration, as a tree."""

MANAGEMENT_SECRET: Final = "for-management"
WAIT_S: Final = 60
"""`update.waitForSafeSeconds` unless set."""
_MANAGEMENT_VARIABLES: Final = ("GRID_MANAGEMENT_USERNAME", "GRID_MANAGEMENT_PASSWORD")
_PARKED_FILE: Final = "GRID_PARKED_FILE"


@dataclass(frozen=True, slots=True)
class Case:
    """One cluster, and whether the chart is told to let members listen for management."""

    cluster: GridCluster
    management: bool

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def several(self) -> bool:
        return not self.cluster.spec.is_alone


@dataclass(frozen=True, slots=True)
class Difference:
    """One row: what the operator has, what the chart has, and why."""

    where: str
    operator: str
    chart: str
    why: str
    edit: Callable[[Objects, Case], None]


def _owner(objects: Objects, case: Case) -> None:
    for found in objects.values():
        found["metadata"].pop("ownerReferences", None)


def _labels(objects: Objects, case: Case) -> None:
    for found in objects.values():
        # A claim outlives its GridCluster: the operator describes it no further.
        found["metadata"]["labels"] |= {
            PART_OF_LABEL: "grid",
            VERSION_LABEL: "0.2.0",
            "helm.sh/chart": "grid-0.2.0",
        }
    for labels in _every_label(objects):
        labels[MANAGED_BY_LABEL] = "Helm"


def _every_label(objects: Objects) -> Iterator[Tree]:
    for found in objects.values():
        yield found["metadata"]["labels"]
    spec = _stateful_set(objects)["spec"]
    yield spec["template"]["metadata"]["labels"]
    for claim in spec.get("volumeClaimTemplates", ()):
        yield claim["metadata"]["labels"]


def _annotations(objects: Objects, case: Case) -> None:
    for found in objects.values():
        annotations = found["metadata"].get("annotations", {})
        for name in (RENDERED_HASH_ANNOTATION, STRUCTURES_ANNOTATION, TEMPLATE_HASH_ANNOTATION):
            annotations.pop(name, None)
        if not annotations:
            found["metadata"].pop("annotations", None)


def _config_hash(objects: Objects, case: Case) -> None:
    template = _stateful_set(objects)["spec"]["template"]
    template["metadata"]["annotations"][CONFIG_HASH_ANNOTATION] = "of the whole configuration"


def _update(objects: Objects, case: Case) -> None:
    _stateful_set(objects)["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": 0},
    }


def _claims_at_the_end(objects: Objects, case: Case) -> None:
    policy = _stateful_set(objects)["spec"]["persistentVolumeClaimRetentionPolicy"]
    if case.cluster.spec.deletion_policy is DeletionPolicy.DELETE:
        policy["whenDeleted"] = "Delete"


def _backup_claim(objects: Objects, case: Case) -> None:
    claim = objects.get(("PersistentVolumeClaim", f"{case.name}-backup"))
    if claim is not None:
        claim["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}


def _budget(objects: Objects, case: Case) -> None:
    if case.several:
        objects["PodDisruptionBudget", case.name]["spec"]["maxUnavailable"] = 1


def _secrets(objects: Objects, case: Case) -> None:
    for kind, name in list(objects):
        if kind == "Secret":
            del objects[kind, name]


def _no_management(objects: Objects, case: Case) -> None:
    if case.management:
        return
    container = _container(objects)
    container["ports"] = _without(container["ports"], MANAGEMENT_PORT_NAME)
    container["env"] = _without(container["env"], *_MANAGEMENT_VARIABLES)
    service = objects["Service", f"{case.name}-members"]["spec"]
    service["ports"] = _without(service["ports"], MANAGEMENT_PORT_NAME)
    for rule in objects["NetworkPolicy", case.name]["spec"]["ingress"]:
        rule["ports"] = [p for p in rule["ports"] if p["port"] != MANAGEMENT_PORT]
    tree = _configuration(objects, case)
    tree.get("network", {}).pop("management", None)
    tree.get("advanced-network", {}).pop("management-server-socket-endpoint-config", None)
    realms = _without(tree["security"]["realms"], "management")
    tree["security"]["realms"] = realms
    if not realms:
        del tree["security"]


def _management_secret(objects: Objects, case: Case) -> None:
    for variable in _container(objects)["env"]:
        reference = variable.get("valueFrom", {}).get("secretKeyRef", {})
        if reference.get("name") == management_secret_name(case.name):
            reference["name"] = MANAGEMENT_SECRET


def _not_parked(objects: Objects, case: Case) -> None:
    if case.management:
        return
    container, tree = _container(objects), _configuration(objects, case)
    container["env"] = _without(container["env"], _PARKED_FILE)
    del tree["shutdown"]["parked-file"]
    if not tree["shutdown"]:
        del tree["shutdown"]


def _waiting(objects: Objects, case: Case) -> None:
    if not case.several:
        return
    spec = case.cluster.spec
    port = spec.rest_port
    way = (
        ["--url", f"http://127.0.0.1:{port}"]
        if spec.tls is None
        else [
            *("--url", f"https://${{GRID_PUBLIC_ADDRESS}}:{port}", "--connect", "127.0.0.1"),
            *("--ca", f"{TLS_DIR}/{TLS_AUTHORITY_KEY}"),
        ]
    )
    command = ["grid-member", "client", "drain", "--timeout", str(WAIT_S), *way]
    _container(objects)["lifecycle"] = {"preStop": {"exec": {"command": command}}}
    _pod(objects)["terminationGracePeriodSeconds"] += WAIT_S


def _authority(objects: Objects, case: Case) -> None:
    for volume in _pod(objects)["volumes"]:
        items = volume["secret"]["items"] if volume["name"] == "tls" else None
        if case.several and items and TLS_AUTHORITY_KEY not in {i["key"] for i in items}:
            items.append({"key": TLS_AUTHORITY_KEY, "path": TLS_AUTHORITY_KEY})


def _callers(objects: Objects, case: Case) -> None:
    labels = {
        NAME_LABEL: "grid-client",
        INSTANCE_LABEL: f"{case.name}-client",
        MANAGED_BY_LABEL: "Helm",
        CLIENT_LABEL: "true",
    }
    ingress = objects["NetworkPolicy", case.name]["spec"]["ingress"]
    ingress[1]["from"] = [{"podSelector": {"matchLabels": labels}}]


DIFFERENCES: Final = (
    Difference(
        "every object", "owned by the GridCluster", "owned by nobody", "Helm deletes", _owner
    ),
    Difference(
        "labels",
        "managed by the operator, version of the image",
        "Helm's, version of the chart",
        "they say who manages",
        _labels,
    ),
    Difference(
        "annotations",
        "rendered-hash, structures, template-hash",
        "none",
        "the operator compares with them",
        _annotations,
    ),
    Difference(
        "config-hash",
        "of what members read at start",
        "of the whole configuration",
        "nothing is given to a running member",
        _config_hash,
    ),
    Difference(
        "updateStrategy", "OnDelete", "RollingUpdate", "no operator deletes the pods", _update
    ),
    Difference(
        "deletionPolicy: Delete",
        "the GridCluster owns the claims",
        "whenDeleted: Delete",
        "the StatefulSet is the only owner there is",
        _claims_at_the_end,
    ),
    Difference(
        "claim for backups",
        "owned by nobody",
        "helm.sh/resource-policy: keep",
        "backups outlive the cluster in both",
        _backup_claim,
    ),
    Difference(
        "PodDisruptionBudget", "1, or 0 while it is not safe", "1", "it is written once", _budget
    ),
    Difference(
        "Secrets", "made", "brought along", "a random value would differ at each render", _secrets
    ),
    Difference(
        "management listener",
        "always",
        "management.enabled",
        "no operator calls it",
        _no_management,
    ),
    Difference(
        "Secret of management",
        "NAME-management",
        "management.existingSecret",
        "the chart makes none",
        _management_secret,
    ),
    Difference(
        "parked file",
        "set",
        "set with management",
        "else the kubelet brings a member back, as its users expect",
        _not_parked,
    ),
    Difference(
        "preStop, grace period",
        "none: the operator waits before it deletes a pod",
        "grid-member client drain, that much more",
        "the StatefulSet's controller deletes the next pod as soon as the last one is ready",
        _waiting,
    ),
    Difference(
        "ca.crt",
        "where members check by it",
        "of several always",
        "preStop checks the certificate of its member by it",
        _authority,
    ),
    Difference(
        "NetworkPolicy",
        "lets the operator in",
        "lets Jobs of the release in",
        "they call",
        _callers,
    ),
)


def _stateful_set(objects: Objects) -> Tree:
    (found,) = (found for (kind, _), found in objects.items() if kind == "StatefulSet")
    return found


def _pod(objects: Objects) -> Tree:
    spec: Tree = _stateful_set(objects)["spec"]["template"]["spec"]
    return spec


def _container(objects: Objects) -> Tree:
    container: Tree = _pod(objects)["containers"][0]
    return container


def _configuration(objects: Objects, case: Case) -> Tree:
    tree: Tree = objects["ConfigMap", f"{case.name}-config"]["data"]["grid"]
    return tree


def _without(named: list[Tree], *names: str) -> list[Tree]:
    return [one for one in named if one["name"] not in names]
