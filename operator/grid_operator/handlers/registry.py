"""What kopf runs: the life of the process, from its start to a stop signal.

kopf has no event handlers here, and so neither watches nor writes; see `watching` and ADR 0043.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from collections.abc import Callable


def make_registry(
    begun: Callable[[], object], ending: Callable[[], object]
) -> kopf.OperatorRegistry:
    """Return the handlers.

    Args:
        begun: Called when kopf is at work: from then on it hears stop signals.
        ending: Called when a stop signal has come.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def on_startup(**_: Any) -> None:
        begun()

    @kopf.on.cleanup(registry=registry)
    async def on_cleanup(**_: Any) -> None:
        ending()

    @kopf.on.login(registry=registry)
    async def on_login(**_: Any) -> None:
        # kopf asks the API server which resources there are before it looks for handlers of them.
        # It has none, so it gets no credentials, and no answer of an API server can end it.
        await asyncio.Event().wait()

    return registry
