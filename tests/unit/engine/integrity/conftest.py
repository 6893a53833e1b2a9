from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.integrity import watermarks
from tests.unit.engine.integrity.notes import Servers, note_streams

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(watermarks, "peers", servers.peers)
    monkeypatch.setattr(watermarks, "BEGUN_S", 0.01)
    monkeypatch.setattr(watermarks, "LOOK_S", 0.01)
    monkeypatch.setattr(watermarks, "OTHER_MEMBERS_ANSWER_S", 0.05)
    return servers


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    note_streams(tmp_path)
    return tmp_path
