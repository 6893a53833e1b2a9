"""Members to test against: one inside this process, and real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from grid_member.cluster.member import Member
from grid_member.cluster.structures import ConfiguredStructures
from grid_member.config import parse_config
from grid_member.engine import open_engine
from grid_member.http.listener import Listeners, bind

if TYPE_CHECKING:
    from pathlib import Path

ALL_GROUPS = ["DATA", "CLUSTER_READ", "CLUSTER_WRITE", "HEALTH_CHECK", "PERSISTENCE", "WAN", "CP"]


def configuration(groups: list[str] | None = None, extra: str = "") -> str:
    enabled = ALL_GROUPS if groups is None else groups
    switches = ", ".join(f"{g}: {{enabled: {str(g in enabled).lower()}}}" for g in ALL_GROUPS)
    return f"""grid:
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    rest-api: {{enabled: true, endpoint-groups: {{{switches}}}}}
    management: {{enabled: true, port: {{port: 0}}, realm: ops}}
  security:
    realms:
      - name: ops
        authentication: {{simple: {{users: [{{username: op, password: s3cret}}]}}}}
  map: {{default: {{}}, short: {{time-to-live-seconds: 1}}}}
  queue: {{default: {{}}, two: {{max-size: 2}}}}
  logging: {{format: json}}
{extra}"""


class RunningMember:
    """A member in this process, on ports of its own, its data in memory."""

    def __init__(self, text: str, options: dict[str, str]) -> None:
        self.config = parse_config(text or configuration(**options), "test.yaml", {})  # type: ignore[arg-type]
        self.engine = open_engine(ConfiguredStructures(self.config))
        self.member = Member(self.config, self.engine, "tester", "1.2.3")
        self.listeners = Listeners(self.member)
        self.port = 0
        self.management_port = 0

    async def open(self) -> RunningMember:
        assert self.config.rest is not None
        self.port = await self.listeners.open(
            self.config.rest, bind(self.config.rest, self.config.interfaces)
        )
        if self.config.management is not None:
            self.management_port = await self.listeners.open(
                self.config.management, bind(self.config.management, self.config.interfaces)
            )
        self.member.address = f"127.0.0.1:{self.port}"
        return self

    async def start(self) -> RunningMember:
        await self.open()
        await self.member.join()
        return self

    async def stop(self) -> None:
        if self.engine.ready:
            await self.engine.stop()
        await self.listeners.close(1)


class MemberProcess:
    """A `grid-member` process and its log."""

    def __init__(self, text: str, file: Path) -> None:
        file.write_text(text)
        self.log: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grid_member", "--config", str(file)],
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, message: str) -> dict[str, Any]:
        """Read the log until a line with this message comes."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line))
            if self.log[-1]["message"] == message:
                return self.log[-1]
        raise AssertionError(f"ended without {message!r}: {self.log}")

    @property
    def port(self) -> int:
        return next(int(e["port"]) for e in self.log if e.get("listener") == "rest")

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def end(self) -> int:
        """Read the log to its end and return the exit code."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line))
        return self.process.wait(20)
