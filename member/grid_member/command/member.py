"""`grid-member [--config FILE]`: one member, from its configuration to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
from typing import TYPE_CHECKING, Final

from grid_member.cluster.logs import event, set_up
from grid_member.command import EXIT_CONFIG, EXIT_START
from grid_member.config.tree import ConfigError
from grid_member.engine.api import EngineError
from grid_member.http.listener import PortError
from grid_member.security.audit import keep_auditing
from grid_member.security.tls import TlsError
from grid_member.start import MemberHandle

if TYPE_CHECKING:
    from grid_member.config.programmatic import Config

_log: Final = logging.getLogger("grid.member")


def run_member(config: Config) -> int:
    """Run a member until it is stopped; return the exit code."""
    set_up(config.model.logging)
    keep_auditing()
    _allow_many_connections()
    try:
        asyncio.run(_run(config))
    except (PortError, TlsError, EngineError) as error:
        event(_log, logging.ERROR, f"cannot start: {error}")
        return EXIT_START
    except ConfigError as error:
        # Added while it ran before; the file, which was fine by itself, has changed since.
        for problem in error.problems:
            event(_log, logging.ERROR, f"cannot start: {problem}")
        return EXIT_CONFIG
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
    # A full collection would look at each object of the replayed data, over and over, and hold up
    # every request for tenths of a second for a million entries. None is part of a cycle: what is
    # removed later is freed all the same. Only here: in a program with members in it, the garbage
    # collector is that program's.
    gc.freeze()
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
