"""Shards that lost their data: what waited in them for other clusters is gone as well.

A shard in memory is lost when no member has it any more, as after all members were stopped. It
begins empty, without an agreement. The store has noted that every shard had one: that is how a
shard that was lost is told from one that is new. The names of the maps that the shard held are not
known any more: each replicated map whose data is in memory may be one of them.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import carry_out
from grid_member.config.names import find
from grid_member.engine.state.operations import WanMemberState
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.telemetry.logs import event
from grid_member.wan.agreement.store import lost_put, told_put

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grid_member.cluster.values.system_store import Put
    from grid_member.config.model.member import MemberConfig
    from grid_member.engine.api import Refused
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.wan.agreement import Agreement
    from grid_member.wan.agreement.store import WanStore
    from grid_member.wan.jobs.store import JobStore

_NOTHING: Final = WanMemberState(PublisherName("", ""), bytes(16), PublisherState.REPLICATING)
"""Of no publisher, so it changes nothing: applied, it tells that a shard is current."""
_log: Final = logging.getLogger("grid.wan")


class LostShards:
    """Notes, before shards that were lost are told anything, which maps need a synchronisation."""

    def __init__(
        self,
        stored: WanStore,
        jobs: JobStore,
        config: Callable[[], MemberConfig],
        keep: Callable[..., Awaitable[Refused | None]],
    ) -> None:
        """Note nothing yet.

        Args:
            stored: what the members agreed on, and the marks.
            jobs: those under way: they began before the loss, so they do not take marks away.
            config: returns this member's configuration.
            keep: carries out puts; returns a refusal.
        """
        self._stored = stored
        self._jobs = jobs
        self._config = config
        self._keep = keep

    async def note_told(self, agreement: Agreement) -> None:
        """Note that every shard goes by an agreement of this cluster."""
        if not self._stored.was_told(agreement.cluster_id):
            await self._keep(told_put(agreement.cluster_id))

    async def note_lost(self, lacking: Sequence[Shard], agreement: Agreement) -> bool:
        """Note the maps of shards that were lost; tell whether the shards may be told now.

        Args:
            lacking: the shards of this member that do not go by the agreement.
            agreement: what they are to go by.
        """
        if not self._stored.was_told(agreement.cluster_id):
            return True
        empty = [shard for shard in lacking if _is_empty(shard)]
        # A shard that reads its log from the begin has not come to the agreement yet.
        current = [partial(shard.propose, _NOTHING, size_bytes=0) for shard in empty]
        if any(await carry_out(*current)):
            return False
        if not any(map(_is_empty, empty)):
            return True
        puts = self._marks(agreement)
        if not puts:
            return True
        if await self._keep(*puts) is not None:
            return False
        event(
            _log,
            logging.WARNING,
            "data in memory was lost, and changes that waited: maps need a synchronisation",
            publishers=len(puts),
        )
        return True

    def _marks(self, agreement: Agreement) -> list[Put]:
        config = self._config()
        in_memory: list[tuple[str, str]] = []
        for name, reference in agreement.maps:
            own = find(config.maps, name)
            kept = config.data_directory is not None and own is not None and own.persistent
            if reference is not None and not kept:
                in_memory.append((name, reference.replication))
        found: list[Put] = []
        for agreed in agreement.publishers:
            names = [name for name, of in in_memory if of == agreed.name.replication]
            if names:
                jobs = self._jobs.open_jobs()
                before = [job.uuid for job in jobs if job.publisher == agreed.name]
                known = self._stored.lost_marks(agreed.name)
                found.append(lost_put(agreed.name, known | dict.fromkeys(names, before)))
        return found


def _is_empty(shard: Shard) -> bool:
    return shard.state.wan.agreement is None
