"""WAN replication of a member, put together: the receiver, the senders, their TLS."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from grid_member.config.names import find
from grid_member.engine.api import DataOrigin
from grid_member.engine.local.wan import WanSide
from grid_member.security.tls import TlsError, keep_fresh
from grid_member.security.tls_client import ClientTls
from grid_member.wan.agreement.part import WanReplication
from grid_member.wan.client import ClientSettings, HttpTransport
from grid_member.wan.draining import drain
from grid_member.wan.figures import WanFigures
from grid_member.wan.hello import Began, Hello
from grid_member.wan.pacing import Pacer
from grid_member.wan.protocol import PROTOCOL
from grid_member.wan.receiver import ClusterFacts, Receiver, ReceiverSettings, SourceNames
from grid_member.wan.replication import Replication, ReplicationParts

if TYPE_CHECKING:
    from grid_member.cluster.member.member import Member
    from grid_member.config.model.wan import WanPublisherConfig, WanTargetTlsConfig
    from grid_member.engine.local.engine import LocalEngine
    from grid_member.engine.wan.agreement import AgreedPublisher, Agreement, PublisherName
    from grid_member.start.wan_several import SeveralWan


class MemberWan:
    """WAN replication of one member."""

    def __init__(
        self, member: Member, engine: LocalEngine, several: SeveralWan | None = None
    ) -> None:
        self._member = member
        self._engine = engine
        self._several = several
        self._tls: dict[WanTargetTlsConfig, ClientTls] = {}
        self._refreshing: asyncio.Task[None] | None = None
        side = self._side = WanSide(engine) if several is None else WanSide(engine, several.view)
        self.figures = WanFigures(
            look=side.look,
            of_cluster=None if several is None else several.sharing.merged,
            tombstones=side.tombstones,
        )
        calls = None
        if isinstance(member.management.wan, WanReplication):
            calls = member.management.wan.calls
            calls.watch(self.figures)
            calls.problem = self._problem
        self.receiver = Receiver(
            side,
            _receiver_settings(member),
            ClusterFacts(
                is_configured=lambda name: find(member.config.maps, name) is not None,
                version_problem=partial(_version_problem, member),
                published_back=partial(_published_to, member),
                sources=SourceNames() if several is None else several.sources,
                replica=(lambda: None) if several is None else several.replica,
            ),
            self.figures,
            Pacer(time.monotonic),
        )
        self._replication = Replication(
            ReplicationParts(
                engine=side,
                figures=self.figures,
                configured=self._configured,
                transport=self._transport,
                hello=self._hello,
                jobs=None if calls is None else calls.jobs.store,
                clock=time.monotonic,
                problem=self._problem,
                sharing=None if several is None else several.sharing,
            )
        )

    def prepare(self) -> None:
        """Read the files of publishers that speak TLS.

        Raises:
            TlsError: they cannot be used.
        """
        for replication in self._member.config.wan.replications.values():
            for publisher in replication.publishers.values():
                if publisher.tls is not None:
                    self._tls_of(publisher.tls)

    def start(self) -> None:
        """Begin to send; the member has joined."""
        self._replication.start()
        if self._several is not None:
            self._several.start(self.receiver)
        # The dictionary may grow: publishers may come while the member runs.
        fresh = keep_fresh(self._tls.values(), wait=asyncio.sleep, in_thread=asyncio.to_thread)
        self._refreshing = asyncio.create_task(fresh)

    async def drain(self) -> None:
        """Wait a while for queues that would be lost, as long as their targets take changes."""
        if self._several is not None and not self._several.is_last:
            return
        publishers = self.figures.publishers
        await drain(
            self._side.queued_in_memory,
            lambda: any(each.under_way for each in publishers.values()),
            time.monotonic,
        )

    async def stop(self) -> None:
        """Send no more."""
        await self._replication.stop()
        if self._several is not None:
            await self._several.stop()
        await self.receiver.answering.close()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def _configured(self, name: PublisherName) -> WanPublisherConfig | None:
        kept = self._member.management.wan
        return kept.calls.configured(name) if isinstance(kept, WanReplication) else None

    def _transport(self, config: WanPublisherConfig) -> HttpTransport:
        context = None if config.tls is None else self._tls_of(config.tls).current
        timeout_s = config.response_timeout_ms / 1000
        return HttpTransport(ClientSettings(timeout_s, config.identity, context))

    def _problem(self, config: WanPublisherConfig) -> str:
        """Return why this member cannot reach the target of a publisher, empty when it can."""
        try:
            if config.tls is not None:
                self._tls_of(config.tls)
        except TlsError as problem:
            return str(problem)
        return ""

    def _tls_of(self, config: WanTargetTlsConfig) -> ClientTls:
        found = self._tls.get(config)
        if found is None:
            found = self._tls[config] = ClientTls(config)
        return found

    def _hello(self, agreed: AgreedPublisher, agreement: Agreement) -> Hello:
        member = self._member
        return Hello(
            protocols=(PROTOCOL,),
            cluster_name=member.config.cluster_name,
            cluster_id=agreement.cluster_id,
            target_name=agreed.cluster_name,
            replication=agreed.name.replication,
            publisher=agreed.name.publisher,
            member=member.engine.member_uuid,
            version=member.version,
            began=self._began(),
        )

    def _began(self) -> Began:
        if self._engine.origin is not DataOrigin.OWN:
            return Began.RESTORED
        return Began.EMPTY if self._member.config.data_directory is None else Began.WENT_ON


def _receiver_settings(member: Member) -> ReceiverSettings:
    config = member.config
    return ReceiverSettings(
        cluster_name=config.cluster_name,
        member=member.name,
        version=member.version,
        key_bytes=config.limits.key_bytes,
        value_bytes=config.limits.value_bytes,
        accepted_clusters=config.wan.accepted_clusters,
    )


def _version_problem(member: Member) -> str | None:
    kept = member.management.wan
    if not member.joined or not isinstance(kept, WanReplication):
        return None  # the receiver says that the member is not ready
    return kept.calls.keeper.version_problem


def _published_to(member: Member, cluster_name: str) -> tuple[str, ...]:
    kept = member.management.wan
    return kept.calls.published_to(cluster_name) if isinstance(kept, WanReplication) else ()
