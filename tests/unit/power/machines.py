"""Disks of several machines whose power fails at one instant.

    python -m tests.unit.power.machines UID GID PLACE…    one process and one thread serve them all

    stdin            stdout
                     mounted
    cut 0,1,2 -      cut [[changes, pages, syncs], …]    from here on nothing asked is answered
    lift 0,1,2       lifted                              those who wait get errors; unmounted
    mount 0,1,2      mounted                             with what is on disk

A number in place of `-` is the seed for what of the rest is on disk. Between two requests a command
is taken, so a cut is the same instant on all disks. The end of stdin unmounts everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.unit.engine.volume import privilege
from tests.unit.power.durability import Disk, Lost
from tests.unit.power.fuse import Mount

if TYPE_CHECKING:
    from collections.abc import Sequence

_STDIN: Final = 0
_AT_ONCE: Final = 32
"""So many requests of one disk are answered before another one has its turn."""
_CERTAIN: Final = "-"
_MISSING: Final = "tests of power loss need FUSE: /dev/fuse, and root or `sudo -n` to mount it"
_ROOT: Final = Path(__file__).parents[3]


class Machines:
    """Directories on disks that lose their power; the block mounts and unmounts them."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = places
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        for place in self.places:
            place.mkdir(parents=True)
        owner = (str(os.getuid()), str(os.getgid()))
        module = (sys.executable, "-m", "tests.unit.power.machines")
        self._process = subprocess.Popen(
            [*privilege(), *module, *owner, *map(str, self.places)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._expect("mounted")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=20)
            finally:
                process.kill()  # what it has mounted ends with it
                process.wait()

    def cut(self, *numbers: int, seed: int | None = None) -> list[Lost]:
        """Have the power of machines fail; whoever uses their disks waits until `lift`.

        With a seed a part of what was not synced is on disk all the same. Returns what is lost,
        or may be.
        """
        chance = _CERTAIN if seed is None else str(seed)
        self._tell(f"cut {_joined(numbers)} {chance}")
        return [Lost(*one) for one in json.loads(self._expect("cut"))]

    def lift(self, *numbers: int) -> None:
        """Unmount disks without power; only those who are ended already may wait for them."""
        self._tell(f"lift {_joined(numbers)}")
        self._expect("lifted")

    def mount(self, *numbers: int) -> None:
        """Have the disks back, with what is on them."""
        self._tell(f"mount {_joined(numbers)}")
        self._expect("mounted")

    def _tell(self, command: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def _expect(self, wanted: str) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        word, _, rest = self._process.stdout.readline().partition(" ")
        assert word.strip() == wanted, f"the process with the disks ended: {_MISSING}"
        return rest


class _Serving:
    """The process that has the disks."""

    def __init__(self, owner: tuple[int, int], places: Sequence[Path]) -> None:
        self._places = places
        self._disks = [Disk(owner) for _ in places]
        self._mounts: dict[int, Mount] = {}
        self._served: dict[int, Mount] = {}
        """By file descriptor: those that have power."""
        self._poll = select.epoll()
        self._poll.register(_STDIN, select.EPOLLIN)
        self._commands = b""

    def run(self) -> None:
        """Serve until nobody wants it any more."""
        try:
            self._mount(range(len(self._places)))
            while True:
                ready = [fd for fd, _ in self._poll.poll()]
                if _STDIN in ready and not self._commanded():
                    return
                for fd in ready:
                    self._serve(fd)
        finally:
            for mount in self._mounts.values():
                mount.unmount()

    def _serve(self, fd: int) -> None:
        mount = self._served.get(fd)
        for _ in range(_AT_ONCE):
            if mount is None or not mount.serve():
                return

    def _commanded(self) -> bool:
        """Take commands; False: there will be none any more."""
        data = os.read(_STDIN, 4096)
        *lines, self._commands = (self._commands + data).split(b"\n")
        for line in lines:
            command, numbers, *rest = line.decode().split()
            chosen = [int(number) for number in numbers.split(",")]
            if command == "cut":
                self._cut(chosen, rest[0])
            elif command == "lift":
                self._lift(chosen)
            else:
                self._mount(chosen)
        return bool(data)

    def _cut(self, numbers: Sequence[int], seed: str) -> None:
        chance = None if seed == _CERTAIN else random.Random(int(seed))
        lost = []
        for number in numbers:
            mount = self._mounts[number]
            del self._served[mount.fd]
            self._poll.unregister(mount.fd)
            self._disks[number], taken = mount.disk.lose_power(chance)
            lost.append(taken)
        _say(f"cut {json.dumps(lost)}")

    def _lift(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._mounts.pop(number).unmount()
        _say("lifted")

    def _mount(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            mount = Mount(self._places[number], self._disks[number])
            self._mounts[number] = self._served[mount.fd] = mount
            self._poll.register(mount.fd, select.EPOLLIN)
        _say("mounted")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _can_mount() -> bool:
    with (
        tempfile.TemporaryDirectory() as parent,
        contextlib.suppress(AssertionError, OSError),
        Machines([Path(parent) / "disk"]) as machines,
    ):
        return bool(os.statvfs(machines.places[0]).f_blocks)
    return False


def machines_work() -> bool:
    """Whether tests with them run: without FUSE they can not, and on a CI they fail without it."""
    return os.environ.get("CI") == "true" or _can_mount()


if __name__ == "__main__":
    uid, gid, *found = sys.argv[1:]
    _Serving((int(uid), int(gid)), [Path(place) for place in found]).run()
