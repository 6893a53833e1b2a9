"""What the servers of a cluster show each other: the name of the cluster, a user, a password."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.identity import plain_name

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings

ROUTE_USER: Final = "grid"
"""A server at another one."""
_NAME_CHARACTERS: Final = 40
_DIGEST_CHARACTERS: Final = 8


def route_password(settings: ClusterSettings) -> str:
    """Return what the servers of the members show each other.

    It is derived: neither the file nor the wire holds the configured password, no text in it means
    anything to the server (`$2a$…` would be taken for a hash), and members of clusters with other
    names or users never fit.
    """
    said = "\0".join(("grid route 1", settings.cluster_name, settings.user)).encode()
    return hmac.new(settings.password.encode(), said, hashlib.sha256).hexdigest()


def route_cluster(cluster_name: str) -> str:
    """Return the cluster's name as servers take it: no two clusters have the same."""
    digest = hashlib.sha256(cluster_name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{plain_name(cluster_name, _NAME_CHARACTERS)}-{digest}"
