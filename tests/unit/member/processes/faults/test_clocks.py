"""A member whose clock jumps: what is kept for a time is kept by the log's time, not by its own."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.nats.client.blocking import BlockingClient
from tests.unit.member.processes.bad_days import Days, eventually, three

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)
JUMPS: Final = {signal.SIGUSR1: 3600, signal.SIGUSR2: -3600}
SHIM: Final = """
import pathlib, signal, time

offset_s, at_s, at_ns = 0, time.time, time.time_ns
time.time = lambda: at_s() + offset_s
time.time_ns = lambda: at_ns() + offset_s * 10**9


def jump(number, frame):
    global offset_s
    offset_s = JUMPS[number]
    pathlib.Path(__file__).with_name("jumped").touch()


for number in JUMPS:
    signal.signal(number, jump)
"""
SHORT_S: Final = 4
LOOK_S: Final = 3.0
MANY_RECORDS: Final = 150
"""Three members' heartbeats in that time are some twenty."""


@pytest.mark.parametrize("jump", JUMPS, ids=["ahead", "back"])
def test_nothing_expires_early_when_the_clock_of_a_member_jumps(
    tmp_path: Path, jump: signal.Signals
) -> None:
    shim = tmp_path / "shim"
    shim.mkdir()
    code = f"JUMPS = { {int(each): offset_s for each, offset_s in JUMPS.items()} }\n{SHIM}"
    (shim / "sitecustomize.py").write_text(code, encoding="utf-8")
    paths = os.pathsep.join(filter(None, (str(shim), os.environ.get("PYTHONPATH"))))
    maps = {"short": {"time-to-live-seconds": SHORT_S}, "long": {"time-to-live-seconds": 1800}}
    written = three(maps=maps)
    written[0] = replace(written[0], environment={"TMPDIR": str(tmp_path)})
    written[1] = replace(written[1], environment={"PYTHONPATH": paths})
    with Days(tmp_path) as days:
        members = days.formed(written)
        for name in ("short", "long"):
            assert members[1].ask("POST", f"/grid/rest/maps/{name}/before", "1").status == 200
        members[1].process.send_signal(jump)
        eventually((shim / "jumped").exists)
        begun_s = time.monotonic()
        for name in ("short", "long"):
            assert members[1].ask("POST", f"/grid/rest/maps/{name}/after", "2").status == 200
        seen = [each.ask("GET", "/grid/rest/maps/short/after").body for each in members]
        assert seen == ["2"] * 3 or time.monotonic() - begun_s > SHORT_S
        for key, value in (("before", "1"), ("after", "2")):
            for each in members:
                eventually(
                    lambda each=each, key=key: (  # type: ignore[misc]
                        each.ask("GET", f"/grid/rest/maps/short/{key}").status == 204
                    )
                )
                assert each.ask("GET", f"/grid/rest/maps/long/{key}").body == value
        assert records_in(tmp_path, LOOK_S) < MANY_RECORDS
        assert not any("clock of shard" in line["message"] for each in members for line in each.log)
        assert [each.members() for each in members] == [3, 3, 3]


def records_in(temporary: Path, seconds: float) -> int:
    """Return how many records the shards get in some time in which nobody writes."""
    (place,) = temporary.glob("grid-nats*")
    text = (place / "nats.conf").read_text(encoding="ascii")
    found = re.search(r'user: grid, password: "([^"]+)"', text)
    assert found is not None
    (ports,) = place.glob("*.ports")
    host, port = json.loads(ports.read_bytes())["nats"][0].removeprefix("nats://").split(":")
    with BlockingClient((host, int(port)), "grid", found[1], LOOK_S) as client:

        def last() -> int:
            infos = [client.request(b"$JS.API.STREAM.INFO.shard-%d" % n, b"") for n in range(3)]
            return sum(int(json.loads(info.payload)["state"]["last_seq"]) for info in infos)

        before = last()
        time.sleep(seconds)
        return last() - before
