"""Which event loop a member's process runs on."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class EventLoopError(Exception):
    """The event loop that is wanted is not there; the message says what to change."""


def loop_maker(wanted: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loop: of `auto`, `asyncio` and `uvloop`.

    Raises:
        EventLoopError: uvloop is wanted and not installed.
    """
    if wanted == "asyncio":
        return asyncio.new_event_loop
    try:
        module = importlib.import_module("uvloop")
    except ImportError as error:
        if wanted == "auto":
            return asyncio.new_event_loop
        raise EventLoopError(
            f"http.event-loop is uvloop, which cannot be loaded ({error}): install it with the "
            "extra `speed`, or set http.event-loop to auto or asyncio"
        ) from None
    make: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return make
