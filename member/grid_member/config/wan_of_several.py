"""Refuses WAN replication on a member of several: senders and listener run on a member alone.

The module goes, with its uses, when the members of a cluster share out the sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config.model.cluster import ClusterConfig
    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values

_REPLICATIONS: Final[Path] = ("wan-replication",)
_INSTEAD: Final = "leave it out, or list no other member in join.tcp-ip.member-list"


def several_problem(cluster: ClusterConfig | None) -> str | None:
    """Return why a member has no WAN replication, None when it may have it."""
    if cluster is None:
        return None
    return "is available on a member that is alone in its cluster, not yet with several members"


def refuse_with_several(
    values: Values, cluster: ClusterConfig | None, listener: Path | None
) -> None:
    """Complain of all elements of WAN replication that a member of several cannot serve.

    Args:
        values: the document.
        cluster: None accepts all of them.
        listener: where a WAN listener that is on was configured.
    """
    problem = several_problem(cluster)
    if problem is None:
        return
    references: list[Path] = [
        ("map", name, "wan-replication-ref") for name in values.children(("map",))
    ]
    # XML does not tell an empty element from one that is not there.
    found = [path for path in (_REPLICATIONS, *references) if any(values.children(path))]
    for path in (*([listener] if listener else []), *found):
        values.complain(path, f"{problem}: {_INSTEAD}")
