"""The id of a cluster: what tells it from every other one of the same name.

It follows from the moment at which the cluster's first stream was made. Servers agree on that: of
members that make it at once one is first, all see the same, and it stays as long as the stream. So
a cluster that begins anew, as its servers lost it or its streams were deleted, is another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.identity import of_cluster
from grid_member.engine.nats.admin.streams import NoStreamError, ask_successfully
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import OpenIdentity
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient

RETRY_S: Final = 0.1
_CHARACTERS: Final = 16
_SHORT: Final = 8
"""Of an id's characters, for people."""
_log: Final = logging.getLogger("grid.engine.nats")


def short(cluster: str) -> str:
    """Return what is shown of a cluster's id."""
    return cluster[:_SHORT]


async def fix_cluster_id(
    client: NatsClient,
    settings: ClusterSettings,
    first_stream: str,
    opened: OpenIdentity,
    waiting: Callable[[str], None],
) -> OpenIdentity:
    """Return the identity with the id of the cluster, which is kept with the data then.

    Raises:
        EngineError: it cannot be kept.
        NoStreamError: the stream was deleted, as a rescue does: it has to be made again.
    """
    while True:
        try:
            cluster = await _cluster_id(client, settings.cluster_name, first_stream)
        except NoStreamError:
            raise
        except NatsError as error:
            waiting(str(error))
            await asyncio.sleep(RETRY_S)
        else:
            break
    if cluster == opened.identity.cluster:
        return opened
    _log.info("the cluster %s has the id %s", settings.cluster_name, short(cluster))
    return await asyncio.to_thread(of_cluster, opened, settings.cluster_name, cluster)


async def _cluster_id(client: NatsClient, cluster_name: str, first_stream: str) -> str:
    info = await ask_successfully(client, f"STREAM.INFO.{first_stream}")
    said = "\0".join(("grid cluster 1", cluster_name, str(info["created"])))
    return hashlib.sha256(said.encode()).hexdigest()[:_CHARACTERS]
