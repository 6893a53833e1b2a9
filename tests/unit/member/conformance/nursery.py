"""A process that has read the code of a member and becomes one, forked, for each line it is told.

To start an interpreter and read the code takes most of the time until a member answers, and the
table has a hundred of them. What is forked is a process of its own as one that a user starts: its
own configuration file, listeners, signals and exit code.

Each line it reads is a JSON list, each line it writes the answer:

    ["start", FILE, LOG]    the id of a member on the configuration file; its log goes to LOG
    ["ended", ID]           its exit code, null while it runs
    ["kill", ID]            null, when it is gone

It ends the members that are left when nothing more is to be read. The word after its name says
whether they use compiled modules: one of `grid_member.compiled.WANTED`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from grid_member.command.line import main as run
from grid_member.compiled import VARIABLE, use

if TYPE_CHECKING:
    from collections.abc import Callable


class Nursery:
    """The members that were started."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._codes: dict[int, int] = {}

    def start(self, file: str, log: str) -> int:
        identity = os.fork()
        if identity == 0:
            _write_to(log)
            sys.exit(run(["--config", file]))
        self._running.add(identity)
        return identity

    def ended(self, identity: int) -> int | None:
        if identity in self._running:
            self._await(identity, os.WNOHANG)
        return self._codes.get(identity)

    def kill(self, identity: int) -> None:
        if identity in self._running:
            os.kill(identity, signal.SIGKILL)
            self._await(identity, 0)

    def end(self) -> None:
        for identity in tuple(self._running):
            self.kill(identity)

    def _await(self, identity: int, options: int) -> None:
        found, status = os.waitpid(identity, options)
        if found == identity:
            self._running.remove(identity)
            self._codes[identity] = os.waitstatus_to_exitcode(status)


def _write_to(log: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)


ORDER_BYTES = 4096
"""More than an order has: each is written at once, and the next only after the answer."""


def read(compiled: str) -> None:
    """Read the code of members, which use compiled modules as the word says."""
    os.environ[VARIABLE] = compiled
    use(compiled)
    # `run` itself reads this one only when a member is run, which is after the fork.
    import grid_member.command.member  # noqa: F401


def main() -> None:
    nursery = Nursery()
    does: dict[str, Callable[..., int | None]]
    does = {"start": nursery.start, "ended": nursery.ended, "kill": nursery.kill}
    while order := os.read(0, ORDER_BYTES):
        verb, *arguments = json.loads(order)
        os.write(1, json.dumps(does[verb](*arguments)).encode() + b"\n")
    nursery.end()


if __name__ == "__main__":
    read(sys.argv[1])
    main()
