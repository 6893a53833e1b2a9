from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gridctl import arguments, waiting
from gridctl.__main__ import main
from tests.unit.gridctl.fake_api import FakeApi
from tests.unit.gridctl.running import Up

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PATIENCE_S = 20.0
"""How long a command waits for what should come at once."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command ended with."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Console:
    """Runs gridctl against the fake API."""

    api: FakeApi
    directory: Path
    capture: pytest.CaptureFixture[str]

    async def run(self, *arguments: str) -> Shown:
        self.capture.readouterr()
        command = [*arguments, "--kubeconfig", self.api.kubeconfig(self.directory)]
        code = await asyncio.to_thread(main, command)
        shown = self.capture.readouterr()
        return Shown(code, shown.out, shown.err)

    def write(self, text: str, name: str = "file.yaml") -> str:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)


@pytest.fixture
async def console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Console]:
    monkeypatch.setattr(waiting, "PERIOD_S", 0.001)
    monkeypatch.setattr(arguments, "TIMEOUT_S", PATIENCE_S)
    api = await FakeApi().start()
    try:
        yield Console(api, tmp_path, capsys)
    finally:
        await api.stop()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    running.write()
    try:
        yield running
    finally:
        running.kill()
