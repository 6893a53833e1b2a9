"""What the manual says of three members on one machine, as whoever pastes it in sees it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from grid_member.config.model.cluster import MEMBERS_PORT_OFFSET
from tests.unit.ports import free_run

MANUAL: Final = (Path(__file__).parents[5] / "docs" / "cluster.md").read_text(encoding="utf-8")
SECTION: Final = MANUAL.partition("## Three members on one machine")[2].partition("\n## ")[0]
FILES: Final = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
COMMANDS: Final = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
STATE: Final = "`(curl -d .*cluster/state)`"
PATIENCE_S: Final = 120.0
pytestmark = pytest.mark.timeout(240)


def moved(text: str, first: int) -> str:
    """Return the text with other REST ports in place of 5701 to 5703."""
    text = text.replace("localhost:570$n", f"localhost:$(({first - 1} + n))")
    return re.sub("570([1-3])", lambda port: str(first + int(port[1]) - 1), text)


def pasted(directory: Path, commands: str, first: int) -> str:
    """Return what the commands write to standard output; the members that they start end."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GRID_")}
    # The REST port is the default one on a machine that runs nothing else.
    port = {"PORT": str(first), "AUTOINCREMENT": "true"}
    plain |= {f"GRID_MEMBER_NETWORK_PORT_{name}": value for name, value in port.items()}
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
    first = free_run(3, MEMBERS_PORT_OFFSET)
    (tmp_path / "grid.yaml").write_text(moved(FILES[0], first), encoding="utf-8")
    out = pasted(tmp_path, moved(COMMANDS[0], first), first)
    assert out.startswith("hello{")
    assert out.count('"memberVersion"') == 3


def test_with_identity_and_tls_as_well(tmp_path: Path) -> None:
    first = free_run(3, MEMBERS_PORT_OFFSET)
    (asks,) = re.findall(STATE, SECTION)
    (tmp_path / "grid.yaml").write_text(moved(FILES[2], first), encoding="utf-8")
    out = pasted(tmp_path, moved(f"{COMMANDS[1]}{COMMANDS[0]}{asks}", first), first)
    assert out.startswith("hello{")
    assert out.endswith('{"status":"success","state":"active"}')
    assert "certificate" not in "".join(log.read_text() for log in tmp_path.glob("m?.log"))
