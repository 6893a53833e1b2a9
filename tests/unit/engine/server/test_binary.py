from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.server import binary
from grid_member.engine.server.binary import find_server


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(mode)
    return path


def test_the_installed_one_is_found() -> None:
    assert find_server(None).name == "nats-server"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("echo nats-server: v2.9.0", r"is nats-server 2\.9\.0, 2\.15\.1 is the oldest"),
        ("echo nats-server: v2.15.0", r"is nats-server 2\.15\.0"),
        ("echo nats-server: v2.15.1; exit 3", "does not tell its version"),
        ("echo hello", "is no nats-server"),
    ],
)
def test_one_that_is_too_old_or_something_else_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = script(tmp_path / "nats-server", text)
    with pytest.raises(EngineError, match=f"^{re.escape(str(path))} .*{complaint}.*: install "):
        find_server(path)


@pytest.mark.parametrize("version", ["v2.15.1", "v2.15.2", "v2.16.0", "v3.0.0-RC.1", "v2.100.0"])
def test_newer_ones_will_do(tmp_path: Path, version: str) -> None:
    path = script(tmp_path / "nats-server", f"echo nats-server: {version}")
    assert find_server(path) == path


def test_a_configured_one_that_is_missing_or_no_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="does not exist: install"):
        find_server(tmp_path / "nats-server")
    path = script(tmp_path / "nats-server", "echo nats-server: v2.15.1", mode=0o644)
    with pytest.raises(EngineError, match="cannot be run: Permission denied: install"):
        find_server(path)


def test_one_that_never_answers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "_VERSION_TIMEOUT_S", 0.05)
    path = script(tmp_path / "nats-server", "exec sleep 60")
    with pytest.raises(EngineError, match="--version did not end: install"):
        find_server(path)


def test_an_old_one_in_the_path_does_not_hide_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    script(tmp_path / "old" / "nats-server", "echo nats-server: v2.9.0")
    good = script(tmp_path / "new" / "nats-server", "echo nats-server: v2.15.1")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "old" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "new"))
    assert find_server(None) == good


def test_without_any_all_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "nats-server", "echo nats-server: v2.9.0")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(binary, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(EngineError, match=r"2\.9\.0.*: install nats-server 2\.15\.1"):
        find_server(None)
    (tmp_path / "nats-server").unlink()
    with pytest.raises(EngineError, match=r"^there is no nats-server: install"):
        find_server(None)


def test_the_files_of_the_distribution_are_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_server(None)
    assert found.name == "nats-server"
    assert Path(found).is_file()
