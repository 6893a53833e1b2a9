"""What the connections of one listener share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.http.wire.receipts import Receipts
from grid_member.http.wire.watch import Departures, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.model.member import HttpConfig, Limits
    from grid_member.http.wire.answers import Answer
    from grid_member.http.wire.uploads import Uploads


class ConnectionContext:
    """Made once for a listener, on its event loop."""

    def __init__(
        self, limits: Limits, http: HttpConfig, uploads: Uploads, refuse: Callable[[], Answer]
    ) -> None:
        """Take what connections need.

        Args:
            limits: of requests.
            http: times that connections have.
            uploads: counts the bytes of bodies.
            refuse: counts a connection that is one too many, and returns its answer.
        """
        self.limits = limits
        self.http = http
        self.uploads = uploads
        self.refuse = refuse
        self.on_refusal: Callable[[int], None] = lambda _: None
        """Hears of the answers to what is no request."""
        self.draining: Callable[[], bool] = lambda: False
        """Tells whether a connection ends as soon as all that came on it is answered."""
        self.watch = Watch()
        """Every connection that is open, or just accepted, but for refused ones."""
        self.departures = Departures()
        self.receipts = Receipts(http.write_timeout_s)
        # In place of a timer for each connection; the watch does that.
        self.no_timer = asyncio.Handle(lambda: None, (), asyncio.get_running_loop())
