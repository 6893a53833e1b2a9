"""What members of one cluster show each other, and what speaks against another one.

They let in who shows the same cluster name and identity, and speaks TLS as they do or plain text as
they do. So members are never given another one in turn: who has it would wait for the rest, and the
rest for it.
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
MEMBERS_TLS: Final = "members-tls"
"""In the StatefulSet's record while members speak TLS with each other. Of an operator that did not
know of it they do not, and it is in no record of such a one."""
MEMBERS_TLS_ENTRY: Final = "1"
_NONE: Final = "none"
_KEY_END: Final = ":"
_NAME_FIELD: Final = "spec.clusterName"
_SECURITY_FIELD: Final = "spec.security.enabled"
_TLS_FIELD: Final = "spec.tls"
_MEMBERS_TLS_FIELD: Final = "spec.tls.members"


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


def has_members_tls(cluster: GridCluster, context: RenderContext) -> bool | None:
    """Return whether the members that there are speak TLS with each other.

    None: a single one does not speak, and of a new cluster there are none. When somebody has taken
    the record or the StatefulSet away, the status of this very object tells.
    """
    if cluster.spec.is_alone:
        return None
    if context.recorded:
        return MEMBERS_TLS in context.recorded
    status = cluster.status
    if status.members_tls is not None and status.observed_uid == cluster.metadata.uid:
        return status.members_tls
    return None if context.has_nobody else False


def with_settled_tls(cluster: GridCluster, context: RenderContext) -> GridCluster:
    """Return the cluster with what `spec.tls.members` means where it is left out.

    Members that are there go on as they are: a new version of the operator divides nobody.
    """
    tls = cluster.spec.tls
    if tls is None or tls.members is not None:
        return cluster
    return cluster.with_members_tls(has_members_tls(cluster, context) is not False)


def with_present_tls(cluster: GridCluster, context: RenderContext) -> GridCluster:
    """Return the cluster with what its members speak until a stop has ended all of them.

    A pod that is made again meanwhile would speak otherwise than the rest, and so would all that
    are made if the stop is taken back.
    """
    if cluster.spec.run_state is not RunState.STOPPED or context.has_nobody:
        return cluster
    present = has_members_tls(cluster, context)
    return cluster if present is None else cluster.with_members_tls(present)


def shown_otherwise(
    cluster: GridCluster, context: RenderContext, wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the fields by which members of now and members that start would not meet.

    An entry that an earlier operator did not make, or of another key, cannot be compared.
    """
    if cluster.spec.is_alone:
        return ()
    recorded = context.recorded or {}
    fields = []
    if recorded.get(CLUSTER_NAME, wanted[CLUSTER_NAME]) != wanted[CLUSTER_NAME]:
        fields.append(_NAME_FIELD)
    before, after = recorded.get(IDENTITY, wanted[IDENTITY]), wanted[IDENTITY]
    if (before == _NONE) != (after == _NONE):
        fields.append(_SECURITY_FIELD)
    elif before != after and _key(before) == _key(after):
        fields.append(f"Secret {identity_secret_name(cluster.metadata.name)}")
    if has_members_tls(cluster, context) is (not cluster.spec.encrypts_members):
        fields.append(_TLS_FIELD if cluster.spec.tls is None else _MEMBERS_TLS_FIELD)
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
    if not fields or stops or context.has_nobody:
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
