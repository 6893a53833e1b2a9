"""Members to test against: one inside this process, and real processes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grid_member.config import Config
from grid_member.config.convert import convert
from grid_member.http.server.binding import bind
from grid_member.http.server.listener import Listeners
from grid_member.start.parts import make_member

if TYPE_CHECKING:
    from collections.abc import Generator

    from grid_member.config.convert import Syntax

PATIENCE_S = 30.0
"""How long a process may take until it logs what is waited for."""
ALL_GROUPS = ["DATA", "CLUSTER_READ", "CLUSTER_WRITE", "HEALTH_CHECK", "PERSISTENCE", "WAN", "CP"]


SYNTAXES: tuple[Syntax, ...] = ("yaml", "xml")
NETWORKS = ("network", "advanced-network")
_LOOPBACK = "interfaces: {enabled: true, interfaces: [127.0.0.1]}"
_LISTENERS = {
    "network": """
  network:
    port: {{port: 0}}
    {loopback}
    rest-api: {{enabled: true, endpoint-groups: {{{groups}}}}}
    management: {{enabled: true, port: {{port: 0}}, realm: ops}}""",
    "advanced-network": """
  advanced-network:
    enabled: true
    rest-server-socket-endpoint-config:
      port: {{port: 0}}
      {loopback}
      endpoint-groups: {{{groups}}}
    management-server-socket-endpoint-config:
      port: {{port: 0}}
      {loopback}
      realm: ops""",
}


def configuration(
    groups: list[str] | None = None,
    extra: str = "",
    syntax: Syntax = "yaml",
    network: str = "network",
) -> str:
    """Return a configuration with both listeners on free ports of 127.0.0.1.

    Groups are those enabled, all by default; extra is YAML below `grid`, whatever the syntax.
    """
    enabled = ALL_GROUPS if groups is None else groups
    switches = ", ".join(f"{g}: {{enabled: {str(g in enabled).lower()}}}" for g in ALL_GROUPS)
    listeners = _LISTENERS[network].format(groups=switches, loopback=_LOOPBACK)
    text = f"""grid:{listeners}
  security:
    realms:
      - name: ops
        authentication: {{simple: {{users: [{{username: op, password: s3cret}}]}}}}
  map: {{default: {{}}, short: {{time-to-live-seconds: 1}}}}
  queue: {{default: {{}}, two: {{max-size: 2}}}}
  logging: {{format: json}}
{extra}"""
    if syntax == "yaml":
        return text
    return convert(text, "test.yaml", syntax)


def file_name(text: str) -> str:
    """Return a name whose suffix says the syntax of the text."""
    return "grid.xml" if text.lstrip().startswith("<") else "grid.yaml"


def open_files(process: int | str = "self") -> set[str]:
    """Return the numbers of the files that a process has open; of this one unless told."""
    return set(os.listdir(f"/proc/{process}/fd"))


def loaded(pid: int) -> str:
    """Return a process's memory map, with the files in it."""
    return Path(f"/proc/{pid}/maps").read_text()


class RunningMember:
    """A member in this process, on ports of its own, its data in memory."""

    def __init__(self, text: str, options: dict[str, str]) -> None:
        text = text or configuration(**options)  # type: ignore[arg-type]
        self.member = make_member(
            Config.from_text(text, name=file_name(text), environment={}), "tester", "1.2.3"
        )
        self.config, self.engine = self.member.config, self.member.engine
        self.listeners = Listeners(self.member)
        self.port = 0
        self.management_port = 0

    async def open(self) -> RunningMember:
        assert self.config.rest is not None
        self.port = await self.listeners.open(self.config.rest, bind(self.config.rest))
        if self.config.management is not None:
            self.management_port = await self.listeners.open(
                self.config.management, bind(self.config.management)
            )
        self.member.address = f"127.0.0.1:{self.port}"
        return self

    async def start(self) -> RunningMember:
        await self.open()
        await self.member.join()
        return self

    async def stop(self) -> None:
        if self.engine.ready:
            await self.member.stop()
        await self.listeners.close(1)


class MemberProcess:
    """A `grid-member` process and its log."""

    patience_s = PATIENCE_S

    def __init__(
        self,
        text: str,
        directory: Path,
        environment: dict[str, str] | None = None,
        open_files: int | None = None,
        before: tuple[str, ...] = (),
    ) -> None:
        """Start a member on a file in the directory; on its defaults when the text is empty.

        With open_files it can never have more of them than that. What is before the command runs
        the member in its place.
        """
        directory.mkdir(exist_ok=True)
        file = directory / file_name(text)
        file.write_text(text)
        self.log: list[dict[str, Any]] = []
        """What was read of the log so far."""
        command = [sys.executable, "-m", "grid_member", *(["--config", str(file)] if text else [])]
        if open_files is not None:
            command = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            [*before, *command],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        self._written: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # A log that is not read loses lines, and tests wait for them.
        self._taking = threading.Thread(target=self._take, daemon=True)
        self._taking.start()

    def _take(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._written.put(line)
        self._written.put(None)

    def _entries(self) -> Generator[dict[str, Any]]:
        """Read on in the log up to its end; a process that takes too long for it is ended."""
        timer = threading.Timer(self.patience_s, self.process.kill)
        timer.start()
        try:
            while (line := self._written.get()) is not None:
                try:
                    self.log.append(json.loads(line))
                except ValueError:
                    rest = [line, *iter(self._written.get, None)]
                    raise AssertionError(f"no line of a log: {''.join(rest)}") from None
                yield self.log[-1]
            self._written.put(None)
        finally:
            timer.cancel()

    def wait_for(self, message: str) -> dict[str, Any]:
        """Read the log until a line with this message comes."""
        with contextlib.closing(self._entries()) as entries:
            for entry in entries:
                if entry["message"] == message:
                    return entry
        raise AssertionError(f"ended without {message!r}: {self.log}")

    @property
    def port(self) -> int:
        return self._listening("rest")

    @property
    def management_port(self) -> int:
        return self._listening("management")

    def _listening(self, listener: str) -> int:
        return next(int(e["port"]) for e in self.log if e.get("listener") == listener)

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self._taking.join(20)

    def end(self) -> int:
        """Read the log to its end and return the exit code."""
        for _ in self._entries():
            pass
        return self.process.wait(20)
