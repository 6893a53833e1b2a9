"""The command `grid-member`: one member, from its configuration to its end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.cluster.logs import event, set_up
from grid_member.cluster.member import Member
from grid_member.cluster.structures import ConfiguredStructures
from grid_member.config import ConfigError, default_config, load_config
from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.http.listener import Listeners, PortError, bind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.config import ListenerConfig, MemberConfig

EXIT_CONFIG: Final = 2
EXIT_START: Final = 3
STOP_GRACE_S: Final = 20.0
"""How long a graceful stop waits for answers under way; below Kubernetes' 30 s."""
HURRY_GRACE_S: Final = 0.05
"""The same after a second signal; aiohttp takes 0 for no limit."""
_log: Final = logging.getLogger("grid.member")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a member until it is stopped; return the exit code."""
    parser = argparse.ArgumentParser(prog="grid-member", description="Run one grid member.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (YAML)")
    parser.add_argument("--version", action="version", version=f"grid-member {version('grid')}")
    chosen = parser.parse_args(arguments)
    try:
        config = load_config(chosen.config) if chosen.config else default_config()
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"{problem}\n")
        return EXIT_CONFIG
    set_up(config.logging)
    try:
        asyncio.run(run(config))
    except (PortError, EngineError) as error:
        event(_log, logging.ERROR, f"cannot start: {error}")
        return EXIT_START
    return 0


async def run(config: MemberConfig) -> None:
    """Run one member until a signal or a REST call stops it.

    Raises:
        PortError: a port could not be taken.
        EngineError: the data could not be opened.
    """
    engine = open_engine(ConfiguredStructures(config), config.data_directory)
    name = config.instance_name or f"grid-{socket.gethostname()}"
    member = Member(config, engine, name, _plain_version(version("grid")))
    listeners = Listeners(member)
    hurry = asyncio.Event()
    _watch_signals(member, hurry)
    try:
        await _open(member, listeners)
        joining = asyncio.create_task(member.join())
        await joining
        event(
            _log,
            logging.INFO,
            "ready",
            cluster=config.cluster_name,
            member=name,
            address=member.address,
            persistence=config.data_directory is not None,
        )
        await member.stop_wanted()
    finally:
        await _stop(member, listeners, hurry)


async def _open(member: Member, listeners: Listeners) -> None:
    config = member.config
    wanted: list[ListenerConfig] = [c for c in (config.rest, config.management) if c]
    bound = [(c, bind(c, config.interfaces)) for c in wanted]
    for listener, sockets in bound:
        port = await listeners.open(listener, sockets)
        if not member.address:
            member.address = _address(config, port)
    if not member.address:
        member.address = _address(config, 0)


async def _stop(member: Member, listeners: Listeners, hurry: asyncio.Event) -> None:
    member.request_stop()
    event(_log, logging.INFO, "stopping")
    engine = asyncio.create_task(_stop_engine(member))
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait({engine, hurried}, return_when=asyncio.FIRST_COMPLETED)
    if not hurried.done():
        closing = asyncio.create_task(listeners.close(STOP_GRACE_S))
        await asyncio.wait({closing, hurried}, return_when=asyncio.FIRST_COMPLETED)
        # Two closings at once would wait for each other's requests.
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
    if hurried.done():
        # Without its connections the engine has nothing left to wait for.
        await listeners.close(HURRY_GRACE_S)
    hurried.cancel()
    await engine
    event(_log, logging.INFO, "stopped")


async def _stop_engine(member: Member) -> None:
    if member.engine.ready:
        await member.engine.stop()


def _watch_signals(member: Member, hurry: asyncio.Event) -> None:
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        event(_log, logging.INFO, "signal", name=number.name)
        if seen:
            hurry.set()
        seen.append(number)
        member.request_stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def _address(config: MemberConfig, port: int) -> str:
    host = config.public_address
    if host is None:
        first = config.interfaces[0]
        host = _own_address() if first == "*" else first
    elif _has_port(host):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _has_port(address: str) -> bool:
    return address.count(":") == 1 or "]:" in address


def _own_address() -> str:
    # Connecting a datagram socket sends nothing; it only asks which address would be used.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _plain_version(full: str) -> str:
    parts = [
        "".join(c for c in part if c.isdigit()) or "0" for part in full.split("+")[0].split(".")
    ]
    return ".".join([*parts, "0", "0"][:3])


if __name__ == "__main__":
    sys.exit(main())
