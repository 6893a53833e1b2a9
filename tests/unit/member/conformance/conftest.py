from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.conformance.configurations import Place, Setup, configuration
from tests.unit.member.conformance.language import Role
from tests.unit.member.security.certificates import Authority
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

START_TIMEOUT_S = 30.0
READ_PERIOD_S = 0.01


class Subject:
    """A `grid-member` process under test. Its log goes to a file, which never fills up."""

    def __init__(
        self, text: str, directory: Path, suffix: str, context: ssl.SSLContext | None
    ) -> None:
        file = directory / f"grid.{suffix}"
        file.write_text(text, encoding="utf-8")
        self._context = context
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "grid_member", "--config", str(file)], stderr=log
            )
        self.ports: dict[str, int] = {}
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            ended = self._process.poll() is not None
            assert not ended, self._log.read_text()
            entries = self.log()
            self.ports = {e["listener"]: int(e["port"]) for e in entries if "listener" in e}
            if any(e["message"] == "ready" for e in entries):
                return
            time.sleep(READ_PERIOD_S)
        raise AssertionError("the member does not get ready")

    async def connect(self, role: Role, source: str | None = None) -> Wire:
        """Connect to the listener of a role, from an address of the loopback network."""
        port = self.ports["management" if role is Role.MANAGED else "rest"]
        return await Wire.connect(port, context=self._context, source=source)

    def log(self) -> list[dict[str, str]]:
        """Return the lines of the log so far."""
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait(20)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(20)


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Subject]]:
    """Give a function that starts a member under test, or finds the one that runs already."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    pair, trusting = authority.issue("member"), authority.client()
    started: dict[tuple[Role, Setup], Subject] = {}
    owned: list[Subject] = []

    def subject(role: Role, setup: Setup) -> Subject:
        role = Role.OPEN if role is Role.MANAGED else role
        found = started.get((role, setup))
        if found is not None:
            return found
        directory = tmp_path_factory.mktemp("subject")
        text = configuration(role, setup, Place(directory, pair))
        made = Subject(text, directory, setup.syntax, trusting if setup.tls else None)
        if role is Role.OWN:
            owned.append(made)
        else:
            started[role, setup] = made
        return made

    yield subject
    for one in (*started.values(), *owned):
        one.kill()
