"""Members that replicate a map, and members that take it."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import (
    HOST,
    START_PATIENCE_S,
    BenchError,
    Server,
    answers,
    free_port,
    running,
)
from bench.servers.cluster import SIZE, three_members
from bench.servers.members import MAP, Tree, get_request, joined, member_command
from bench.servers.wan_site import REPLICATION, WanSite

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = "tokyo"
TARGET: Final = "london"
COMPARING: Final = TARGET
"""The id of a publisher whose synchronisations compare."""
FULL: Final = "london-in-full"
"""The id of one whose synchronisations send everything."""
QUEUE_CAPACITY: Final = 10_000_000
"""No queue of a measurement gets as long: what does not fit would be counted as sent."""
_USER: Final = {"username": "bench", "password": "bench"}
_LISTENING_REALM: Final = {"name": "wan", "authentication": {"simple": {"users": [_USER]}}}
_SENDING_REALM: Final = {"name": "to-others", "identity": {"username-password": _USER}}
_LOOK_S: Final = 0.02
_STRATEGIES: Final = {COMPARING: "MERKLE_TREES", FULL: "NONE"}


@dataclass(frozen=True, slots=True)
class Publishing:
    """How a cluster replicates.

    Attributes:
        ports: of the target's WAN listeners.
        state: in which the publishers begin; only their being there costs nothing.
        referred: whether the map is replicated, or no map is.
        compression: of the publishers.
        publishers: their ids.
        target: the name of the cluster that takes it.
    """

    ports: tuple[int, ...]
    state: str = "REPLICATING"
    referred: bool = True
    compression: str = "AUTO"
    publishers: tuple[str, ...] = (COMPARING,)
    target: str = TARGET


def listening(port: int) -> Tree:
    """Return the settings of a member that takes what others send."""
    return {
        "network": {"wan": {"enabled": True, "realm": "wan", "port": {"port": port}}},
        "security": {"realms": [_LISTENING_REALM]},
    }


def sending(publishing: Publishing | None) -> Tree:
    """Return the settings of a member that replicates as said, or has no WAN replication at all."""
    if publishing is None:
        return {}
    publishers = {
        publisher: {
            "cluster-name": publishing.target,
            "target-endpoints": ",".join(f"{HOST}:{port}" for port in publishing.ports),
            "realm": "to-others",
            "initial-publisher-state": publishing.state,
            "queue-capacity": QUEUE_CAPACITY,
            "compression": publishing.compression,
            "sync": {"consistency-check-strategy": _STRATEGIES.get(publisher, "MERKLE_TREES")},
        }
        for publisher in publishing.publishers
    }
    reference: Tree = {"wan-replication-ref": {REPLICATION: {}}}
    return {
        "security": {"realms": [_SENDING_REALM]},
        "wan-replication": {REPLICATION: {"batch-publisher": publishers}},
        "map": {MAP: reference} if publishing.referred else {},
    }


@contextlib.contextmanager
def wan_source(
    publishing: Publishing | None, data_directory: Path | None = None
) -> Iterator[WanSite]:
    """Run a member that replicates as said; below a data directory it persists what it has."""
    with _member(SOURCE, sending(publishing), data_directory) as source:
        if publishing is not None:
            _wait_for_target(source)
        yield source


@contextlib.contextmanager
def wan_target() -> Iterator[tuple[WanSite, tuple[int, ...]]]:
    """Run a member that takes what a source sends; yield it and its WAN listener's port."""
    port = free_port()
    with _member(TARGET, listening(port)) as target:
        yield target, (port,)


@contextlib.contextmanager
def wan_pair() -> Iterator[tuple[WanSite, WanSite]]:
    """Run two members that replicate the map to each other."""
    source_port, target_port = free_port(), free_port()
    there = Publishing((target_port,))
    back = Publishing((source_port,), publishers=(SOURCE,), target=SOURCE)
    one, other = (
        joined(listening(port), sending(publishing))
        for port, publishing in ((source_port, there), (target_port, back))
    )
    with _member(SOURCE, one) as source, _member(TARGET, other) as target:
        for site in (source, replace(target, publisher=SOURCE)):
            _wait_for_target(site)
        yield source, replace(target, publisher=SOURCE)


@contextlib.contextmanager
def wan_sources(publishing: Publishing | None) -> Iterator[WanSite]:
    """Run three members that replicate as said."""
    with _members(SOURCE, [sending(publishing)] * SIZE) as sources:
        if publishing is not None:
            _wait_for_target(sources)
        yield sources


@contextlib.contextmanager
def wan_targets() -> Iterator[tuple[WanSite, tuple[int, ...]]]:
    """Run three members that take what sources send; yield them and their WAN listeners' ports."""
    ports = tuple(free_port() for _ in range(SIZE))
    with _members(TARGET, [listening(port) for port in ports]) as targets:
        yield targets, ports


def _wait_for_target(source: WanSite) -> None:
    until = time.monotonic() + START_PATIENCE_S
    while not source.connected():
        if time.monotonic() > until:
            raise BenchError("a source has no connection to its target")
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def _member(name: str, more: Tree, data_directory: Path | None = None) -> Iterator[WanSite]:
    port, metrics_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(dir=data_directory) as directory:
        own: Tree = {
            "network": {
                "port": {"port": port, "auto-increment": False},
                "interfaces": {"enabled": True, "interfaces": [HOST]},
                "rest-api": {"enabled": True, "endpoint-groups": {"DATA": {"enabled": True}}},
            },
            "map": {"default": {}},
        }
        if data_directory is not None:
            own["persistence"] = {"enabled": True, "base-dir": str(Path(directory) / "persistence")}
        config = Path(directory) / "grid.yaml"
        tree = joined(joined(own, _common(name, metrics_port)), more)
        config.write_text(json.dumps({"grid": tree}), encoding="utf-8")
        with running(member_command(config)) as server:
            server.wait_until(lambda: answers(port, get_request("none")))
            itself = Server((server.process.pid,), port)
            yield WanSite(name, TARGET, (itself,), (metrics_port,))


@contextlib.contextmanager
def _members(name: str, more: list[Tree]) -> Iterator[WanSite]:
    ports = [free_port() for _ in more]
    settings = [joined(_common(name, port), each) for port, each in zip(ports, more, strict=True)]
    with three_members(settings=settings) as members:
        cluster = members.all
        servers = tuple(member.both for member in cluster)
        yield WanSite(name, TARGET, servers, tuple(ports), cluster)


def _common(name: str, metrics_port: int) -> Tree:
    return {
        "cluster-name": name,
        "network": {"rest-api": {"endpoint-groups": {"WAN": {"enabled": True}}}},
        "metrics": {
            "enabled": True,
            "port": {"port": metrics_port},
            "interfaces": {"enabled": True, "interfaces": [HOST]},
        },
    }
