"""`grid-member [--config FILE]`: one member, from its configuration to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from typing import TYPE_CHECKING, Final

from grid_member.cluster.logs import event, set_up
from grid_member.engine.api import EngineError
from grid_member.http.listener import PortError
from grid_member.start import MemberHandle

if TYPE_CHECKING:
    from grid_member.config.programmatic import Config

EXIT_START: Final = 3
"""The exit code when a port is taken or the data cannot be opened."""
_log: Final = logging.getLogger("grid.member")


def run_member(config: Config) -> int:
    """Run a member until it is stopped; return the exit code."""
    set_up(config.model.logging)
    _allow_many_connections()
    try:
        asyncio.run(_run(config))
    except (PortError, EngineError) as error:
        event(_log, logging.ERROR, f"cannot start: {error}")
        return EXIT_START
    return 0


def _allow_many_connections() -> None:
    # The usual soft limit of 1024 files is for programs that select(); a member may have more.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(config: Config) -> None:
    member = MemberHandle(config)
    _watch_signals(member)
    await member.start()
    await member.stopped()


def _watch_signals(member: MemberHandle) -> None:
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        event(_log, logging.INFO, "signal", name=number.name)
        if seen:
            member.hurry()
        seen.append(number)
        member.request_stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
