"""Three members as processes, each with a configuration of its own that a test may spoil."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.running import MemberProcess
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S: Final = 90.0
_LOOK_S: Final = 0.05
_REQUEST_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member answered."""

    status: int
    body: str
    error: str
    """Why not, as it is told to whoever asked."""
    retry_after: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """What the configuration of one member says."""

    name: str
    """Of its directory, and its own unless it is `called` otherwise."""
    port: int
    """Of the members."""
    members: tuple[int, ...]
    """The members' ports in its list."""
    called: str | None = None
    cluster: str = "dev"
    password: str | None = None
    """Of its identity; None: security is off."""
    tls: dict[str, str] | None = None
    base_dir: Path | None = None
    lite: bool = False
    maps: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return the configuration, which is JSON and so is YAML."""
        grid: dict[str, Any] = {
            "cluster-name": self.cluster,
            "instance-name": self.called or self.name,
            "network": {
                "port": {"port": 0},
                "public-address": HOST,
                "interfaces": {"enabled": True, "interfaces": [HOST]},
                "rest-api": {
                    "enabled": True,
                    "endpoint-groups": {
                        "DATA": {"enabled": True},
                        "CLUSTER_READ": {"enabled": True},
                    },
                },
                "cluster": {"port": {"port": self.port}},
                "join": {
                    "tcp-ip": {
                        "enabled": True,
                        "member-list": [f"{HOST}:{port}" for port in self.members],
                    }
                },
            },
            "map": {"default": {}, **self.maps},
            "queue": {"default": {}},
            "logging": {"format": "json"},
        }
        if self.tls is not None:
            grid["network"]["cluster"]["ssl"] = {"enabled": True, **self.tls}
        if self.base_dir is not None:
            grid["persistence"] = {"enabled": True, "base-dir": str(self.base_dir)}
        if self.lite:
            grid["lite-member"] = {"enabled": True}
        if self.password is not None:
            identity = {"username-password": {"username": "members", "password": self.password}}
            grid["security"] = {
                "enabled": True,
                "member-authentication": {"realm": "members"},
                "realms": [{"name": "members", "identity": identity}],
            }
        return json.dumps({"grid": grid})


def three(**fields: Any) -> list[Written]:
    """Return the configurations of three members that know each other."""
    ports = free_ports(3)
    return [Written(f"m{n}", port, tuple(ports), **fields) for n, port in enumerate(ports)]


class Member(MemberProcess):
    """A process; what it says and what it answers can be waited for."""

    patience_s = PATIENCE_S

    def said(self, *parts: str) -> str:
        """Wait until a line of its log has all these parts, and return its message."""
        for entry in self.log:
            if all(part in entry["message"] for part in parts):
                return str(entry["message"])
        with contextlib.closing(self._entries()) as entries:
            for entry in entries:
                if all(part in entry["message"] for part in parts):
                    return str(entry["message"])
        told = "\n".join(entry["message"] for entry in self.log)
        raise AssertionError(f"ended, or it took too long, without {parts}:\n{told}")

    def ready(self) -> None:
        """Wait until it has joined."""
        self.said("ready")

    @property
    def rest(self) -> int:
        self.said("listening")
        return self.port

    def ask(self, method: str, path: str, body: str | None = None) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.rest, timeout=_REQUEST_S)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            got = connection.getresponse()
            body = got.read().decode()
            error = got.getheader("X-Grid-Error", "")
            return Answer(got.status, body, error, got.getheader("Retry-After"))

    def put(self, key: str, value: str) -> Answer:
        return self.ask("POST", f"/grid/rest/maps/kept/{key}", value)

    def get(self, key: str) -> Answer:
        return self.ask("GET", f"/grid/rest/maps/kept/{key}")

    def members(self) -> int:
        """Return how many members it knows."""
        answer = self.ask("GET", "/grid/rest/cluster")
        return answer.body.count('"address"') if answer.status == 200 else 0

    def safe(self) -> bool:
        """Tell whether it says that all copies are current."""
        return self.ask("GET", "/grid/health/cluster-safe").status == 200

    def stop(self) -> int:
        """End it as an operator would; return its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()


class Days:
    """Starts members; the block ends them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Member] = []

    def __enter__(self) -> Days:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._started:
            if member.process.poll() is None:
                member.kill()

    def start(self, written: Written) -> Member:
        member = Member(written.text(), self._directory / written.name, written.environment)
        self._started.append(member)
        return member

    def formed(self, all_written: list[Written]) -> list[Member]:
        """Start members and wait until all have joined."""
        members = [self.start(written) for written in all_written]
        for member in members:
            member.ready()
        return members


def eventually(holds: Callable[[], object]) -> None:
    """Look until it holds."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, "it never came to be"
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def goes_on(*members: Member) -> Iterator[None]:
    """What members had before is there after the block, and they take more."""
    assert members[0].put("before", "1").status == 200
    yield
    for number, member in enumerate(members):
        assert member.get("before").body == "1"
        assert member.put(f"after-{number}", "2").status == 200
        assert [each.get(f"after-{number}").body for each in members] == ["2"] * len(members)
