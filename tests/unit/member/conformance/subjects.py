"""The members under test: started when a row asks for one, and kept for the rows after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grid_member.compiled import VARIABLE
from tests.unit.member.conformance.configurations import Place, Setup, configuration
from tests.unit.member.conformance.language import Role
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    import ssl

    import pytest

    from tests.unit.member.security.certificates import Authority

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 20.0
READ_PERIOD_S = 0.01


class Nursery:
    """The process that members are forked from."""

    def __init__(self, *, compiled: bool) -> None:
        wanted = os.environ.get(VARIABLE, "auto") if compiled else "off"
        # Not in the path of the modules: this directory, whose names others have as well.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("nursery.py")), wanted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lock = threading.Lock()

    def ask(self, *order: str | int) -> Any:
        """Give one of the orders of the nursery and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order).encode())
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End it, with all members that run."""
        self._process.communicate(timeout=END_TIMEOUT_S)
        assert self._process.returncode == 0


class Subject:
    """A `grid-member` process under test. Its log goes to a file, which never fills up."""

    def __init__(
        self, nursery: Nursery, file: Path, log: Path, context: ssl.SSLContext | None
    ) -> None:
        self._nursery, self._log, self._context = nursery, log, context
        self._identity: int = nursery.ask("start", str(file), str(log))
        self.ports: dict[str, int] = {}
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            entries = self.log()
            self.ports = {e["listener"]: int(e["port"]) for e in entries if "listener" in e}
            if any(e["message"] == "ready" for e in entries):
                return
            assert self._code() is None, self._log.read_text()
            time.sleep(READ_PERIOD_S)
        raise AssertionError("the member does not get ready")

    def _code(self) -> int | None:
        code: int | None = self._nursery.ask("ended", self._identity)
        return code

    async def connect(self, role: Role, source: str | None = None) -> Wire:
        """Connect to the listener of a role, from an address of the loopback network."""
        port = self.ports["management" if role is Role.MANAGED else "rest"]
        return await Wire.connect(port, context=self._context, source=source)

    def log(self) -> list[dict[str, str]]:
        """Return the lines of the log so far."""
        if not self._log.exists():
            return []
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while (code := self._code()) is None:
            assert time.monotonic() < deadline_s, "the member does not end"
            time.sleep(READ_PERIOD_S)
        return code

    def kill(self) -> None:
        self._nursery.ask("kill", self._identity)


class Subjects:
    """The members that run for some rows."""

    def __init__(
        self,
        nurseries: dict[bool, Nursery],
        authority: Authority,
        directories: pytest.TempPathFactory,
    ) -> None:
        """Take processes to fork members from, by whether those use compiled modules."""
        self._nurseries, self._directories = nurseries, directories
        self._pair, self._trusting = authority.issue("member"), authority.client()
        self._started: dict[tuple[Role, Setup], Subject] = {}
        self._owned: list[Subject] = []

    def subject(self, role: Role, setup: Setup) -> Subject:
        """Start a member, or find the one that runs already."""
        role = Role.OPEN if role is Role.MANAGED else role
        found = self._started.get((role, setup))
        if found is None:
            found = self._start(role, setup)
            if role is Role.OWN:
                self._owned.append(found)
            else:
                self._started[role, setup] = found
        return found

    def _start(self, role: Role, setup: Setup) -> Subject:
        directory = self._directories.mktemp("subject")
        file = directory / f"grid.{setup.syntax}"
        text = configuration(role, setup, Place(directory, self._pair))
        file.write_text(text, encoding="utf-8")
        context = self._trusting if setup.tls else None
        return Subject(self._nurseries[setup.compiled], file, directory / "log", context)

    def end(self) -> None:
        for one in (*self._started.values(), *self._owned):
            one.kill()
