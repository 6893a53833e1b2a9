"""Several members on one machine: real processes, each with the nats-server that it started."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import HOST, BenchError, Server, answers, children, free_port, running
from bench.servers.members import Tree, get_request, joined, member_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.processes import Running

SIZE: Final = 3
_READY: Final = b"GET /grid/health/ready HTTP/1.1\r\nHost: bench\r\n\r\n"
_SAFE: Final = b"GET /grid/health/cluster-safe HTTP/1.1\r\nHost: bench\r\n\r\n"
_PATIENCE_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """One of several: who answers, and the server that keeps its log."""

    server: Server
    """The process of the member, or of the bare client, alone."""
    log_pid: int
    """Of its nats-server."""

    @property
    def both(self) -> Server:
        """Both processes as one server."""
        return Server((*self.server.pids, self.log_pid), self.server.port)


class Places:
    """Files and ports of members that know each other."""

    def __init__(self, directory: Path, *, durable: bool, settings: Sequence[Tree] = ()) -> None:
        self.ports = [free_port() for _ in range(2 * SIZE)][:SIZE]
        own = [free_port() for _ in range(SIZE)]
        self.files = []
        for number, more in enumerate(settings or [{}] * SIZE):
            tree = joined(_configuration(number, self.ports[number], own), more)
            base_dir = {"base-dir": str(directory / f"m{number}")} if durable else {}
            tree["persistence"] = {"enabled": durable, **base_dir}
            file = directory / f"m{number}.yaml"
            file.write_text(json.dumps({"grid": tree}), encoding="utf-8")
            self.files.append(file)


def _configuration(number: int, port: int, of_members: Sequence[int]) -> Tree:
    members = [f"{HOST}:{each}" for each in of_members]
    return {
        "instance-name": f"m{number}",
        "network": {
            "port": {"port": port, "auto-increment": False},
            "public-address": HOST,
            "interfaces": {"enabled": True, "interfaces": [HOST]},
            "cluster": {"port": {"port": of_members[number]}},
            "rest-api": {"enabled": True, "endpoint-groups": {"DATA": {"enabled": True}}},
            "join": {"tcp-ip": {"enabled": True, "member-list": members}},
        },
        "map": {"default": {}},
        "queue": {"default": {}},
    }


class Members:
    """Processes that can be ended and started one by one; they end with the block."""

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool,
        module: str = "grid_member",
        settings: Sequence[Tree] = (),
    ) -> None:
        self._places = Places(directory, durable=durable, settings=settings)
        self._module = module
        self._processes: dict[int, Running] = {}
        self._ends: dict[int, contextlib.ExitStack] = {}

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(*self._ends)

    def start(self, *numbers: int) -> float:
        """Start members at one moment; return the seconds until all of them answer a GET."""
        began = time.monotonic()
        for number in numbers:
            self._ends[number] = contextlib.ExitStack()
            self._processes[number] = self._ends[number].enter_context(
                running(member_command(self._places.files[number], self._module))
            )
        for number in numbers:
            port = self._places.ports[number]
            self._processes[number].wait_until(lambda port=port: answers(port, get_request("none")))  # type: ignore[misc]
        return time.monotonic() - began

    def stop(self, *numbers: int) -> None:
        """End members as an operator would, one after the other."""
        for number in numbers:
            self._processes[number].process.send_signal(signal.SIGTERM)
        for number in numbers:
            with contextlib.suppress(BenchError):  # it did not end by itself
                self._ends.pop(number).close()

    def kill(self, *numbers: int) -> None:
        """End members as a crash would, all at once."""
        for number in numbers:
            self._processes[number].process.kill()
        self.stop(*numbers)

    def settle(self) -> None:
        """Wait until every member is ready and says that all copies are current.

        Raises:
            BenchError: that took too long.
        """
        until = time.monotonic() + _PATIENCE_S
        for port in self._places.ports:
            while not (answers(port, _READY) and answers(port, _SAFE)):
                if time.monotonic() > until:
                    raise BenchError("the copies of the members did not become current")
                time.sleep(_LOOK_AGAIN_S)

    def count(self, words: str) -> int:
        """Return how often those that run wrote something in their logs."""
        return sum(process.count(words) for process in self._processes.values())

    @property
    def all(self) -> tuple[ClusterMember, ...]:
        """The members that run, and their servers."""
        return tuple(
            _with_server(Server((process.process.pid,), self._places.ports[number]))
            for number, process in sorted(self._processes.items())
        )


@contextlib.contextmanager
def three_members(
    data_directory: Path | None = None,
    module: str = "grid_member",
    settings: Sequence[Tree] = (),
) -> Iterator[Members]:
    """Run members until the end of the block; they persist what they have below a directory.

    They are what the module is when it is run; it takes the arguments of `grid-member`. Each member
    has settings of its own beside those that all three have.
    """
    with (
        tempfile.TemporaryDirectory(dir=data_directory) as directory,
        Members(
            Path(directory), durable=data_directory is not None, module=module, settings=settings
        ) as members,
    ):
        members.start(*range(SIZE))
        members.settle()
        yield members


@contextlib.contextmanager
def three_engines() -> Iterator[tuple[ClusterMember, ...]]:
    """Run the engines of three members without HTTP until the end of the block, in memory."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        places = Places(Path(directory), durable=False)
        engines = []
        for port, file in zip(places.ports, places.files, strict=True):
            module = ["bench.compiled", "bench.servers.bare_engine"]
            command = [sys.executable, "-m", *module, str(file), str(port)]
            engines.append((stack.enter_context(running(command)), port))
        for engine, port in engines:
            engine.wait_until(lambda port=port: answers(port, b"ready\n"))  # type: ignore[misc]
        yield tuple(_with_server(Server((each.process.pid,), port)) for each, port in engines)


def _with_server(server: Server) -> ClusterMember:
    (log_pid,) = children(server.pids[0])
    return ClusterMember(server, log_pid)
