"""What members of one cluster show each other, and what speaks against another one.

They let in who shows the same cluster name and identity, so members are never given another one in
turn: who has it would wait for the rest, and the rest for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import ConfigValidReason
from grid_operator.api.desired import SpecProblem
from grid_operator.api.lifecycle import RunState
from grid_operator.api.names import USERNAME_KEY, identity_secret_name
from grid_operator.render.secrets import keyed_digest, password_of
from grid_operator.render.volumes import has_member_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.render.context import RenderContext

IDENTITY: Final = "identity"
"""In the StatefulSet's record, by itself: with it in another entry, an operator that records it
for the first time would restart everybody."""
CLUSTER_NAME: Final = "config/cluster-name"
_NONE: Final = "none"
_KEY_END: Final = ":"
_NAME_FIELD: Final = "spec.clusterName"
_SECURITY_FIELD: Final = "spec.security.enabled"


def identity_entry(cluster: GridCluster, context: RenderContext) -> str:
    """Return what the record has of the identity: a digest of the key, and one under that key.

    The former tells whether the latter can be compared: the key is the management password.
    """
    if not cluster.spec.security.enabled:
        return _NONE
    name = identity_secret_name(cluster.metadata.name)
    content = context.secrets.get(name)
    user = "" if content is None else content.data.get(USERNAME_KEY, "")
    shown = keyed_digest(context, IDENTITY, user, password_of(context, name))
    return f"{keyed_digest(context)}{_KEY_END}{shown}"


def has_nobody(context: RenderContext) -> bool:
    """Return whether there is no pod, and none is about to be made of the former template."""
    return not context.has_pods and context.replicas == 0


def shown_otherwise(
    cluster: GridCluster, recorded: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the fields by which members of now and members that start would not meet.

    An entry that an earlier operator did not make, or of another key, cannot be compared.
    """
    if cluster.spec.is_alone:
        return ()
    fields = []
    if recorded.get(CLUSTER_NAME, wanted[CLUSTER_NAME]) != wanted[CLUSTER_NAME]:
        fields.append(_NAME_FIELD)
    before, after = recorded.get(IDENTITY, wanted[IDENTITY]), wanted[IDENTITY]
    if (before == _NONE) != (after == _NONE):
        fields.append(_SECURITY_FIELD)
    elif before != after and _key(before) == _key(after):
        fields.append(f"Secret {identity_secret_name(cluster.metadata.name)}")
    return tuple(fields)


def identity_problem(
    cluster: GridCluster, context: RenderContext, fields: tuple[str, ...]
) -> SpecProblem | None:
    """Return what speaks against another identity, None when there is nobody to be divided.

    A stop may begin with it: all members go, and all of them come back with the new one.

    Args:
        cluster: The cluster.
        context: What there is besides.
        fields: What `shown_otherwise` returned.
    """
    if _NAME_FIELD in fields and has_member_data(cluster, context):
        return SpecProblem(
            ConfigValidReason.IMMUTABLE_IDENTITY,
            f"{_NAME_FIELD}: the data of several members is of the cluster of its former name, and "
            "no member of another name starts on it: set it back; for another name make a backup "
            "and create a new GridCluster with restoreFrom, or delete this one and its claims if "
            "nothing is stored yet",
        )
    stops = cluster.spec.run_state is RunState.STOPPED
    if not fields or stops or has_nobody(context):
        return None
    lost = "" if cluster.spec.persistence.enabled else "; what they have in memory only is lost"
    return SpecProblem(
        ConfigValidReason.IMMUTABLE_IDENTITY,
        f"{' and '.join(fields)}: members of now and members that start with the change would "
        "never join each other: set it back, or set spec.runState: Stopped, wait for the condition "
        f"Stopped, and set Running again, so that all members change at once{lost}",
    )


def _key(entry: str) -> str:
    return entry.partition(_KEY_END)[0]
