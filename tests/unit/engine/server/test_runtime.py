"""Directories that members which were killed have left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.server import process
from grid_member.engine.server.runtime import PREFIX, make_runtime
from tests.unit.engine.server.servers import server_of, settings
from tests.unit.ports import free_ports
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.server.runtime import Runtime

HOLD = """
import sys
from grid_member.engine.server.runtime import make_runtime
print(make_runtime().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_is_left_of_killed_members_is_removed_and_nothing_of_living_ones(
    temporary: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as taker:
        assert taker.stdout is not None
        living = taker.stdout.readline().strip()
        killed = temporary / f"{PREFIX}killed"
        killed.mkdir()
        (killed / "nats.conf").write_text("token", encoding="utf-8")
        others = temporary / "grid-nats-of-something-else"
        others.mkdir()
        own = make_runtime()
        left = {str(path) for path in temporary.iterdir()}
        assert left == {living, str(others), str(own.path)}
        taker.kill()
    own.remove()
    own = make_runtime()
    assert set(temporary.iterdir()) == {others, own.path}
    own.remove()


def test_a_link_is_not_followed(temporary: Path) -> None:
    target = temporary / "data"
    target.mkdir()
    (target / "file").touch()
    (temporary / f"{PREFIX}link").symlink_to(target)
    make_runtime().remove()
    assert (target / "file").exists()


def test_the_directory_is_private() -> None:
    own = make_runtime()
    assert own.path.stat().st_mode & 0o777 == 0o700
    own.remove()
    assert not own.path.exists()


async def test_a_start_that_is_given_up_while_its_directory_is_made_leaves_none(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, go_on = threading.Event(), threading.Event()

    def slowly() -> Runtime:
        runtime = make_runtime()
        made.set()
        go_on.wait()
        return runtime

    monkeypatch.setattr(process, "make_runtime", slowly)
    starting = asyncio.ensure_future(server_of(settings(free_ports(1)[0])).start())
    await until(made.is_set)
    starting.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not os.listdir(temporary)
