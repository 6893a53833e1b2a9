"""What answers the requests of each listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grid_member.http.metrics.request_counting import measured
from grid_member.http.server.service import Service

if TYPE_CHECKING:
    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig
    from grid_member.http.metrics.request_counting import ListenerFigures, RequestHandler
    from grid_member.http.routes.calls import ConnectionCounts
    from grid_member.http.server.wan_service import WanService
    from grid_member.wan.figures import WanFigures
    from grid_member.wan.receiver import Receiver

    ListenerService = Service | WanService


class WanParts(Protocol):
    """What a member has of WAN replication, as the listeners need it."""

    @property
    def receiver(self) -> Receiver:
        """Takes the batches of other clusters."""

    @property
    def figures(self) -> WanFigures:
        """What was counted."""


class ListenersSeen(Protocol):
    """What documents and metrics show of the listeners."""

    def counts(self) -> ConnectionCounts:
        """Return how many connections are open now."""

    def figures(self) -> list[ListenerFigures]:
        """Return what each listener has counted."""


class Services:
    """Makes the service of each listener of one member."""

    def __init__(self, member: Member, wan: WanParts | None, listeners: ListenersSeen) -> None:
        self._member = member
        self._wan = wan
        self._listeners = listeners

    def service(self, config: ListenerConfig) -> ListenerService | None:
        """Return the service of a listener, None for one that shows metrics."""
        if config.metrics:
            return None
        if not config.wan or self._wan is None:
            return Service(self._member, config, self._listeners.counts)
        from grid_member.http.server.wan_service import WanService  # loaded only where it is used

        return WanService(self._member, config, self._wan.receiver)

    def handler(self, service: ListenerService | None) -> RequestHandler:
        """Return what answers the requests of a listener with this service."""
        measurements = self._member.measurements
        if service is None:
            from grid_member.http.metrics.member import (
                MetricsService,  # loaded only where it is used
            )

            wan = None if self._wan is None else self._wan.figures
            return MetricsService(self._member, self._listeners.figures, wan).answer
        return service.answer if measurements is None else measured(service.answer, measurements)
