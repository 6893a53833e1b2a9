"""`grid-member [--config FILE]`: one member, from its configuration to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import resource
import signal
import threading
from typing import TYPE_CHECKING, Final

from grid_member.command import EXIT_CONFIG, EXIT_START, EXIT_UNCONFIRMED
from grid_member.command.event_loop import EventLoopError, loop_maker
from grid_member.config.tree import ConfigError
from grid_member.engine.api import EngineError
from grid_member.http.server.binding import PortError
from grid_member.security.audit import keep_auditing
from grid_member.security.tls import TlsError
from grid_member.start import MemberHandle, StopError
from grid_member.telemetry.logs import event, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.config.load import Config

THREADS_GRACE_S: Final = 2.0
"""How long a member that has stopped waits for threads that wait for a disk."""
FEWEST_FILES: Final = 64
"""Open files that a member needs: the log, the store, its nats-server, listeners, some clients."""
TOO_FEW_FILES: Final = (
    f"the limit of open files is below {FEWEST_FILES}: raise the hard limit (ulimit -Hn)"
)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_log: Final = logging.getLogger("grid.member")


def run_member(config: Config, interpreted: str | None) -> int:
    """Run a member until it is stopped; return the exit code.

    Args:
        config: the member's.
        interpreted: why its sources are, for the log; None when compiled modules are used.
    """
    set_up(config.model.logging)
    keep_auditing()
    if interpreted is None:
        event(_log, logging.INFO, "the data path is compiled")
    else:
        event(_log, logging.INFO, "the data path is interpreted", reason=interpreted)
    files = _allow_many_files()
    if files < FEWEST_FILES:
        event(_log, logging.ERROR, f"cannot start: {TOO_FEW_FILES}", limit=files)
        return EXIT_START
    try:
        with asyncio.Runner(loop_factory=loop_maker(config.model.http.event_loop)) as runner:
            runner.run(_run(config))
            end = _end_soon()
        end.cancel()
    except (EventLoopError, PortError, TlsError, EngineError) as error:
        event(_log, logging.ERROR, f"cannot start: {error}")
        return EXIT_START
    except ConfigError as error:
        # Added while it ran before; the file, which was fine by itself, has changed since.
        for problem in error.problems:
            event(_log, logging.ERROR, f"cannot start: {problem}")
        return EXIT_CONFIG
    return 0


def _end_soon() -> threading.Timer:
    """End the process a little later: threads may wait for ever, and leaving waits for them.

    Everything is safe and closed by now; they only want to know how large the disk is.
    """
    end = threading.Timer(THREADS_GRACE_S, os._exit, (0,))
    end.daemon = True
    end.start()
    return end


def _allow_many_files() -> float:
    """Raise the limit of open files as far as it goes; return it."""
    # The usual soft limit of 1024 is for programs that select(); a member may have more.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return math.inf if soft == resource.RLIM_INFINITY else soft


async def _run(config: Config) -> None:
    try:
        await _run_until_stopped(MemberHandle(config))
    except StopError:
        # Not by returning: that would wait for the threads that wait for the disk.
        logging.shutdown()
        os._exit(EXIT_UNCONFIRMED)


async def _run_until_stopped(member: MemberHandle) -> None:
    with _watch_signals(member):
        await member.start()
        # A full collection would look at each object of the replayed data, over and over, and hold
        # up every request for tenths of a second for a million entries. None is part of a cycle:
        # what is removed later is freed all the same. Only here: in a program with members in it,
        # the garbage collector is that program's.
        gc.freeze()
        await member.wait_stopped()


@contextlib.contextmanager
def _watch_signals(member: MemberHandle) -> Iterator[None]:
    """Stop the member at the first signal, hurry at the second; ignore those behind the stop.

    SIGTERM lets the member drain first; one more signal ends the drain. SIGINT and SIGHUP come from
    a terminal, whose user waits: the member does not drain. Signals behind the stop would make
    another end of it than a graceful one. Not by the loop's handlers of signals: as those are
    removed there is a moment in which a signal ends the process.
    """
    loop = asyncio.get_running_loop()
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        event(_log, logging.INFO, "signal", name=number.name)
        # The shell and the system both tell of a terminal that has gone.
        if seen and not member.draining and number is not signal.SIGHUP:
            member.hurry()
        member.request_stop(drain=number is signal.SIGTERM and not seen)
        seen.append(number)

    def on_signal(number: int, _: object) -> None:
        loop.call_soon_threadsafe(stop, signal.Signals(number))

    former = {number: signal.signal(number, on_signal) for number in _stop_signals()}
    try:
        yield
    except BaseException:
        for number, handler in former.items():
            signal.signal(number, handler)
        raise
    for number in former:
        signal.signal(number, signal.SIG_IGN)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that stop the member: SIGHUP not where nohup(1) has it ignored."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in _SIGNALS if not (nohup and number is signal.SIGHUP)]
