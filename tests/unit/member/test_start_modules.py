"""What a member loads: at its start nothing that a plain one never uses, for its data nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_TIMEOUT_S: Final = 20.0
LOADED: Final = "import time:"
NOT_FOR_A_PLAIN_START: Final = {
    *("command.documents", "command.restore"),
    *("config.convert", "config.schema", "config.schema_json", "config.schema_xsd"),
    *("config.write", "config.xml_elements", "config.xml_source"),
    *("engine.newest", "engine.recovery", "engine.restore"),
    *("http.openapi", "http.openapi_documents", "http.openapi_rows", "http.openapi_schemas"),
}
"""Modules of the member that write documents, read other syntaxes, or repair and restore stores."""
NOT_AT_ALL: Final = {
    *("grid_operator", "hypothesis", "jsonschema", "kubernetes", "pyexpat", "pytest"),
    "zipfile",  # of importlib.metadata, which takes long
}


class Loading:
    """A member process that tells which modules it loads."""

    def __init__(self, text: str, directory: Path) -> None:
        file = directory / "grid.yaml"
        file.write_text(text)
        self._told = directory / "told"
        command = [sys.executable, "-X", "importtime", "-m", "grid_member", "--config", str(file)]
        with self._told.open("w") as told:
            self._process = subprocess.Popen(command, stderr=told)

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
def member(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Loading]:
    extra = f"  persistence: {{enabled: true, base-dir: {tmp_path}/data}}\n"
    started = Loading(configuration(extra=extra if request.param == "disk" else ""), tmp_path)
    yield started
    started.end()


def test_a_start_loads_what_a_plain_member_needs(member: Loading) -> None:
    member.ready()
    loaded = member.loaded()
    assert "grid_member.http.listener" in loaded
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
