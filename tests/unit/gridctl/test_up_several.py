"""`gridctl up` of several members: one cluster of real processes, by one command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from gridctl.local_state import LocalState
from tests.unit.gridctl.running import READY, children, is_alive, pod_of, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.gridctl.running import Up

SIZE = 3
SOON = {"drainSeconds": 1}


def members(up: Up) -> dict[str, int]:
    """Return the process of each pod."""
    return {pod_of(pid): pid for pid in children(up.pid) if pod_of(pid)}


def ready(up: Up) -> int:
    return sum(up.call("GET", READY, member=n)[0] == 200 for n in range(SIZE))


def test_three_members_are_one_cluster_that_outlives_one_of_them(up: Up, tmp_path: Path) -> None:
    up.write(size=SIZE, security={"enabled": True})
    up.start()
    before = members(up)
    assert sorted(before) == ["demo-0", "demo-1", "demo-2"]
    assert up.call("POST", "maps/default/a", b"1", member=0)[0] == 200
    for member in range(SIZE):
        assert up.call("GET", "maps/default/a", member=member) == (200, b"1")
        shown = json.loads(up.call("GET", "cluster", member=member)[1])
        assert len({one["address"] for one in shown["members"]}) == SIZE
        assert "grid_ready 1.0" in up.metrics(member)
    data = tmp_path / "data" / "default"
    assert {path.name for path in (data / "demo").glob("demo-*")} == set(before)
    assert "demo-identity" in {path.name for path in (data / ".secrets").iterdir()}

    servers = [pid for member in before.values() for pid in children(member)]
    assert len(servers) == SIZE
    os.kill(before["demo-1"], signal.SIGKILL)
    assert up.call("POST", "maps/default/a", b"2", member=2)[0] == 200
    until(lambda: up.call("GET", "maps/default/a", member=1) == (200, b"2"), "it is not back")
    until(lambda: up.state().get("readyMembers") == SIZE, "not counted again")
    assert len(members(up)) == SIZE
    until(lambda: up.status().stdout.splitlines()[1].split()[2:5] == ["3", "True", "Active"], "row")

    everyone = [*children(up.pid), *servers]
    assert up.stop() == 0
    assert not any(map(is_alive, everyone))
    up.start()
    assert up.call("GET", "maps/default/a", member=2) == (200, b"2")
    assert up.stop() == 0


def test_a_change_takes_one_member_at_a_time(up: Up) -> None:
    up.write(size=SIZE, shutdown=SOON)
    up.start()
    before = members(up)
    assert up.call("POST", "maps/default/a", b"1")[0] == 200
    fewest = SIZE
    up.write(size=SIZE, shutdown=SOON, maps=[{"name": "default", "maxIdleSeconds": 600}])

    def rolled() -> bool:
        nonlocal fewest
        fewest = min(fewest, ready(up))
        now = members(up)
        return not set(now.values()) & set(before.values()) and ready(up) == SIZE

    until(rolled, "not rolled out")
    assert fewest == SIZE - 1, "one at a time"
    for member in range(SIZE):
        assert up.call("GET", "maps/default/a", member=member) == (200, b"1")
    until(lambda: (up.ended("Restart") or {}).get("outcome") == "Succeeded", "not written down")

    everyone = [pid for member in members(up).values() for pid in (member, *children(member))]
    assert len(everyone) == 2 * SIZE
    up.stop(signal.SIGKILL)
    until(lambda: not any(map(is_alive, everyone)), "members or their servers outlive gridctl")


def test_the_size_stays_what_it_was(up: Up) -> None:
    up.start()
    up.write(size=3)
    until(lambda: "spec.size: 3 instead of 1" in up.text(), "no word about it")
    assert len(children(up.pid)) == 1
    assert up.call("POST", "maps/default/a", b"1")[0] == 200
    assert up.stop() == 0
    up.write()
    up.start()
    assert up.stop() == 0
    up.write(size=2)
    command = up.command("up", "-f", str(up.file), "--address", up.address)
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert refused.returncode == 1
    assert "set spec.size back to 1" in refused.stderr
    assert "size 2 is no safer than 1" in refused.stderr


@pytest.mark.parametrize("kept", [{"stopped": True}, {"resumeState": "Active"}])
def test_a_cluster_that_was_stopped_does_not_come_back_larger(
    up: Up, kept: dict[str, object]
) -> None:
    up.write(size=5)
    state = LocalState.of(up.directory / "data", "default", up.name)
    state.make_room(SIZE)
    state.remember({"metadata": {"name": up.name}, "status": kept})
    command = up.command("up", "-f", str(up.file), "--address", up.address)

    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)

    assert refused.returncode == 1
    assert "set spec.size back to 3, start it" in refused.stderr
    assert state.kept_size() == SIZE, "there is nothing of the new members"


def test_a_first_run_that_was_cut_off_at_once_tells_its_size(tmp_path: Path) -> None:
    state = LocalState(tmp_path / "demo")
    assert state.kept_size() == 0

    def made(path: Path, **_: object) -> None:
        os.makedirs(path)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlib.Path.mkdir", made)
        with pytest.raises(KeyboardInterrupt):
            state.make_room(SIZE)
    assert state.kept_size() == SIZE
    state.make_room(SIZE)
    assert len(list(state.directory.iterdir())) == SIZE
