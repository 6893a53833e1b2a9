"""What a member loads: at its start nothing that a plain one never uses, for its data nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.command import member as member_command
from grid_member.command.line import main
from grid_member.compiled import VARIABLE
from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grid_member import Config

START_TIMEOUT_S: Final = 20.0
LOADED: Final = "import time:"
AUTHORITIES: Final = "SSL_CERT_FILE"
NOT_FOR_A_PLAIN_START: Final = {
    *("command.documents", "command.restore"),
    *("config.convert", "config.schema.json_schema", "config.schema.__main__"),
    *("config.schema.xsd", "config.xml.elements", "config.xml.source"),
    *("engine.backup.restore", "engine.backup.salvage"),
    *("http.openapi.description", "http.openapi.answer_types", "http.openapi.rows"),
}
"""Modules of the member that write documents, read other syntaxes, or repair and restore stores."""
NOT_IN_MEMORY: Final = {
    *("lmdb.compaction", "lmdb.log", "lmdb.pages", "lmdb.space"),
    *("lmdb.tables", "backup.backup", "storage.manifest"),
    *("storage.store", "storage.exchange", "storage.identity"),
}
"""Modules of the engine that keep data on a disk."""
NOT_AT_ALL: Final = {
    *("grid_operator", "hypothesis", "jsonschema", "kubernetes", "pyexpat", "pytest"),
    "zipfile",  # of importlib.metadata, which takes long
}


class Loading:
    """A member process that tells which modules it loads."""

    def __init__(self, text: str, directory: Path, environment: dict[str, str]) -> None:
        file = directory / "grid.yaml"
        file.write_text(text)
        self._told = directory / "told"
        command = [sys.executable, "-X", "importtime", "-m", "grid_member", "--config", str(file)]
        with self._told.open("w") as told:
            self._process = subprocess.Popen(
                command, stderr=told, env={**os.environ, **environment}
            )

    def loaded(self) -> set[str]:
        """Return the modules that are loaded by now."""
        lines = self._told.read_text().splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith(LOADED)}

    def ready(self) -> int:
        """Wait until the member is ready; return its port."""
        ends_s = time.monotonic() + START_TIMEOUT_S
        while '"ready"' not in self._told.read_text():
            assert self._process.poll() is None
            assert time.monotonic() < ends_s
            time.sleep(0.01)
        return int(next(e["port"] for e in self._log() if e.get("listener") == "rest"))

    def _log(self) -> Iterator[dict[str, Any]]:
        for line in self._told.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(START_TIMEOUT_S)


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest) -> str:
    """Where the member keeps its data."""
    return str(request.param)


@pytest.fixture
def member(kept: str, tmp_path: Path) -> Iterator[Loading]:
    extra = f"  persistence: {{enabled: true, base-dir: {tmp_path}/data}}\n"
    # Nobody writes into it: whoever reads the system's authorities waits for ever.
    os.mkfifo(tmp_path / "authorities")
    started = Loading(
        configuration(extra=extra if kept == "disk" else ""),
        tmp_path,
        {AUTHORITIES: str(tmp_path / "authorities")},
    )
    yield started
    started.end()


def test_a_start_loads_what_a_plain_member_needs(member: Loading, kept: str) -> None:
    member.ready()
    loaded = member.loaded()
    assert "grid_member.http.server.listener" in loaded
    disk = {name for name in NOT_IN_MEMORY if f"grid_member.engine.{name}" in loaded}
    assert "storage.store" in disk if kept == "disk" else not disk
    assert not loaded & {f"grid_member.{name}" for name in NOT_FOR_A_PLAIN_START}
    assert not {name.partition(".")[0] for name in loaded} & NOT_AT_ALL


async def test_no_request_for_data_or_health_waits_for_a_module(member: Loading) -> None:
    port = member.ready()
    before = member.loaded()
    entry, queue = "/grid/rest/maps/default/k", "/grid/rest/queues/default"
    async with await Wire.connect(port) as wire:
        for method, path, body, status in (
            ("GET", "/grid/health/ready", None, 200),
            ("POST", entry, b"v", 200),
            ("GET", entry, None, 200),
            ("GET", "/grid/rest/maps/default/a%2Fb", None, 204),
            ("DELETE", entry, None, 200),
            ("POST", queue, b"v", 200),
            ("GET", f"{queue}/size", None, 200),
            ("DELETE", f"{queue}/1", None, 200),
            ("DELETE", f"{queue}/0", None, 204),
            ("POST", "/grid/rest/maps/default/form", b"v", 200),
            ("GET", "/grid/rest/nothing", None, 404),
        ):
            reply = await wire.call(method, path, body)
            assert (method, path, reply.status) == (method, path, status)
    assert member.loaded() == before


@pytest.mark.parametrize("former", [None, "/of/the/system"])
def test_a_member_that_runs_finds_the_authorities_of_the_system(
    monkeypatch: pytest.MonkeyPatch, former: str | None
) -> None:
    monkeypatch.delenv(AUTHORITIES, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)  # this process has read the sources
    if former is not None:
        monkeypatch.setenv(AUTHORITIES, former)
    seen: list[str | None] = []

    def run_member(_: Config, __: str | None) -> int:
        seen.append(os.environ.get(AUTHORITIES))
        return 0

    monkeypatch.setattr(member_command, "run_member", run_member)
    assert main([]) == 0
    assert seen == [former]
