"""Members on machines of their own, as far as the network goes, and lines that swallow packets.

Each has a network namespace that a bridge joins to this one. A cut drops what goes between it and
the others without a word: connections stay, and nothing comes. Clients reach all of them still.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

import pytest

from tests.unit.engine.volume import privilege
from tests.unit.member.processes.processes import Members

if TYPE_CHECKING:
    from pathlib import Path

_ALONE: Final = "198.18"
"""Begins the addresses: for measurements of networks, so nobody else has them."""
_TABLE: Final = "inet cut"
_ENDS: Final = {"input": "saddr", "output": "daddr"}
BOTH_WAYS: Final = ("input", "output")
_TC: Final = ("tc", "qdisc")
_DEVICE: Final = ("dev", "eth0")


class Network:
    """Namespaces for so many members; the block makes and removes them."""

    def __init__(self, members: int) -> None:
        self._mark = secrets.token_hex(3)
        self._bridge = f"gb{self._mark}"
        self._base = _free_base()
        self._members = range(members)

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            _run("ip", "netns", "delete", self._name(member), check=False)
        _run("ip", "link", "delete", self._bridge, check=False)

    def host(self, member: int) -> str:
        """Return the member's address."""
        return f"{self._base}.{member + 2}"

    def inside(self, member: int) -> tuple[str, ...]:
        """Return what to put before a command that is to run there."""
        return (*privilege(), "ip", "netns", "exec", self._name(member))

    def cut(self, member: int, ways: tuple[str, ...] = BOTH_WAYS, percent: int = 100) -> None:
        """Drop packets between the member and the others: every one, or so many of a hundred.

        One way is "input", what comes to the member, or "output", what it sends.
        """
        run = (*self.inside(member), "nft")
        hosts = ", ".join(self.host(other) for other in self._members if other != member)
        lot = "" if percent == 100 else f"numgen random mod 100 < {percent} "
        _run(*run, f"add table {_TABLE}")
        for way in ways:
            end = _ENDS[way]
            hook = f"{{ type filter hook {way} priority 0; }}"
            _run(*run, f"add chain {_TABLE} {way} {hook}")
            _run(*run, f"add rule {_TABLE} {way} ip {end} {{ {hosts} }} {lot}drop")

    def slow(self, member: int, rate: str) -> None:
        """Let what the member sends leave at this rate, as of `tc`; what waits too long is lost."""
        limits = ("rate", rate, "burst", "4kb", "latency", "800ms")
        _run(*self.inside(member), *_TC, "replace", *_DEVICE, "root", "tbf", *limits)

    @property
    def near(self) -> str:
        """The address of this machine."""
        return f"{self._base}.1"

    def connect(
        self, member: int, address: tuple[str, int], buffer_bytes: int | None = None
    ) -> socket.socket:
        """Return a connection from there to the address; its kernel may have a small buffer."""
        with ThreadPoolExecutor(1) as thread:  # which ends, and with it its change of namespace
            return thread.submit(_connected, self._name(member), address, buffer_bytes).result()

    def silence(self, member: int) -> None:
        """Drop every packet that comes there or leaves: nothing ends, and nothing comes."""
        run = (*self.inside(member), "nft")
        _run(*run, f"add table {_TABLE}")
        for way in ("input", "output"):
            hook = f"{{ type filter hook {way} priority 0; policy drop; }}"
            _run(*run, f"add chain {_TABLE} {way} {hook}")

    def heal(self, member: int) -> None:
        """Let everything through again."""
        _run(*self.inside(member), "nft", f"delete table {_TABLE}", check=False)
        _run(*self.inside(member), *_TC, "delete", *_DEVICE, "root", check=False)

    def _name(self, member: int) -> str:
        return f"g{self._mark}-{member}"

    def _make(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self._base}.1/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for member in self._members:
            name, near = self._name(member), f"gv{self._mark}{member}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", near, "master", self._bridge, "up")
            inside = ("ip", "-n", name)
            _run(*inside, "address", "add", f"{self.host(member)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run(*inside, "link", "set", device, "up")


class Apart(Members):
    """Members with data, three by default, on machines of their own."""

    def __init__(
        self,
        directory: Path,
        network: Network,
        *,
        size: int = 3,
        persistence: str = "",
        maps: str = "",
        backup_count: int = 1,
    ) -> None:
        super().__init__(
            directory,
            durable=True,
            size=size,
            persistence=persistence,
            maps=maps,
            backup_count=backup_count,
        )
        self._network = network

    def host(self, number: int) -> str:
        return self._network.host(number)

    def inside(self, number: int) -> tuple[str, ...]:
        return self._network.inside(number)


def _free_base() -> str:
    """Return the first three numbers of addresses that no network of another test has."""
    shown = subprocess.run(
        ["ip", "-4", "-oneline", "address"], check=True, capture_output=True, text=True
    ).stdout
    free = [base for base in (f"{_ALONE}.{n}" for n in range(256)) if f" {base}." not in shown]
    return secrets.choice(free)


def _connected(namespace: str, address: tuple[str, int], buffer_bytes: int | None) -> socket.socket:
    with open(f"/run/netns/{namespace}") as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    made = socket.socket()
    if buffer_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    made.settimeout(10)
    made.connect(address)
    return made


def _run(*command: str, check: bool = True) -> None:
    before = () if command[0] in privilege() else privilege()
    subprocess.run([*before, *command], check=check, capture_output=True)


def _can_make() -> bool:
    try:
        with Network(2) as network:
            network.cut(0)
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


needs_namespaces: Final = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not (shutil.which("nft") and _can_make()),
    reason="network namespaces need `nft` and the right to make them: root, or `sudo -n`",
)
"""Marks tests with namespaces: a CI without them fails them, elsewhere they are left out."""
