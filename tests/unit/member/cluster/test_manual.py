"""What the manual says of three members on one machine, as whoever pastes it in sees it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.unit.engine.cluster.clusters import HOST

MANUAL: Final = (Path(__file__).parents[4] / "docs" / "cluster.md").read_text(encoding="utf-8")
SECTION: Final = MANUAL.partition("## Three members on one machine")[2].partition("\n## ")[0]
FILES: Final = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
COMMANDS: Final = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
STATE: Final = "`(curl -d .*cluster/state)`"
PATIENCE_S: Final = 120.0
pytestmark = pytest.mark.timeout(240)


def moved(text: str) -> str:
    """Return the text with ports that nobody has in place of 5711 to 5713 and 5721 to 5723."""
    return text.replace("571", _tens()).replace("572", _tens())


_taken: Final[set[int]] = set()


def _tens() -> str:
    """Return all digits but the last of ports of which the first, second and third are free."""
    for tens in range(1100, 3200):
        if tens in _taken:
            continue
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_ones:
            for port in range(10 * tens + 1, 10 * tens + 4):
                open_ones.enter_context(socket.create_server((HOST, port)))
            _taken.add(tens)
            return str(tens)
    raise AssertionError("no three ports are free")


def pasted(directory: Path, commands: str) -> str:
    """Return what the commands write to standard output; the members that they start end."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GRID_")}
    shell = subprocess.Popen(
        ["bash", "-c", f"{commands}\nkill $(jobs -p); wait"],
        cwd=directory,
        env={**plain, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        return shell.communicate(timeout=PATIENCE_S)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def test_three_members_are_pasted_in(tmp_path: Path) -> None:
    file, commands = moved(f"{FILES[0]}\0{COMMANDS[0]}").split("\0")
    (tmp_path / "m1.yaml").write_text(file, encoding="utf-8")
    out = pasted(tmp_path, commands)
    assert out.startswith("hello{")
    assert out.count('"memberVersion"') == 3


def test_with_identity_and_tls_as_well(tmp_path: Path) -> None:
    (asks,) = re.findall(STATE, SECTION)
    given = "\0".join((FILES[1], COMMANDS[1], COMMANDS[0], asks))
    file, makes, starts, asks = moved(given).split("\0")
    (tmp_path / "m1.yaml").write_text(file, encoding="utf-8")
    out = pasted(tmp_path, f"{makes}{starts}{asks}")
    assert out.startswith("hello{")
    assert out.endswith('{"status":"success","state":"active"}')
    assert "certificate" not in "".join(log.read_text() for log in tmp_path.glob("m?.log"))
