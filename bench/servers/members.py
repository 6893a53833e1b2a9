"""Members to measure: real processes with a configuration file of their own."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.processes import Server, answers, ask, free_port, running
from grid_member.compiled import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

Tree = dict[str, Any]
"""A configuration, as JSON is read."""
MAP: Final = "bench"
QUEUE: Final = "bench"
# Patience is long, so that a crowd of slow connections stays a crowd for a whole measurement.
_CONFIG: Final = """
grid:
  network:
    port: {{port: {port}, auto-increment: false}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    rest-api: {{enabled: true, endpoint-groups: {{DATA: {{enabled: true}}}}}}
  map: {{default: {{}}}}
  queue: {{default: {{}}}}
  http:
    lane: {{enabled: {fast_path}}}
    event-loop: {event_loop}
    max-connections: 30000
    head-timeout-seconds: 3600
  persistence: {persistence}
"""


def joined(tree: Tree, more: Tree) -> Tree:
    """Return a configuration with more: elements of both are joined, lists one after the other."""
    return tree | {key: _both(tree.get(key), value) for key, value in more.items()}


def _both(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return joined(one, other)
    return one + other if isinstance(one, list) else other


def member_command(config: Path, module: str = "grid_member") -> list[str]:
    """Return the command that runs a member with this configuration file."""
    return [sys.executable, "-m", module, "--config", str(config)]


def configuration(
    port: int, *, fast_path: bool, base_dir: Path | None, event_loop: str = "auto"
) -> str:
    """Return the text of a configuration; with a base directory every write is synced to it."""
    where = {} if base_dir is None else {"base-dir": str(base_dir)}
    persistence = json.dumps({"enabled": base_dir is not None, **where})
    return _CONFIG.format(
        port=port, fast_path=str(fast_path).lower(), event_loop=event_loop, persistence=persistence
    )


@contextlib.contextmanager
def member(
    *,
    fast_path: bool = True,
    data_directory: Path | None = None,
    event_loop: str = "auto",
    compiled: str | None = None,
) -> Iterator[Server]:
    """Run a member until the end of the block; below a data directory it persists what it has.

    Compiled modules are used as `grid_member.compiled.use` is told, by the environment of this
    process when nothing is said.
    """
    with tempfile.TemporaryDirectory(dir=data_directory) as directory:
        port = free_port()
        base_dir = Path(directory) / "persistence" if data_directory else None
        config = Path(directory) / "grid.yaml"
        text = configuration(port, fast_path=fast_path, base_dir=base_dir, event_loop=event_loop)
        config.write_text(text, encoding="utf-8")
        environment = {} if compiled is None else {VARIABLE: compiled}
        with running(member_command(config), environment=environment) as server:
            server.wait_until(lambda: answers(port, get_request("none")))
            yield Server((server.process.pid,), port)


def get_request(key: str) -> bytes:
    """Return a GET of one entry of the map."""
    return f"GET /grid/rest/maps/{MAP}/{key} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def post_request(key: str, value: bytes) -> bytes:
    """Return a POST of one entry of the map."""
    head = f"POST /grid/rest/maps/{MAP}/{key} HTTP/1.1\r\nHost: bench\r\n"
    return f"{head}Content-Length: {len(value)}\r\n\r\n".encode() + value


def queue_size(port: int) -> int:
    """Return how many items the queue holds."""
    request = f"GET /grid/rest/queues/{QUEUE}/size HTTP/1.1\r\nHost: bench\r\n\r\n"
    return int(ask(port, request.encode()).partition(b"\r\n\r\n")[2])
