"""What is asked of wrk and what is read from it."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from bench.load import oha, wrk
from bench.load.install import install_tools
from bench.load.loads import GET, POST
from bench.processes import BenchError, CpuTime, Server, parse_stat

SEEN = {
    "requests": 3000,
    "duration_us": 1_500_000,
    "p50_us": 640,
    "p99_us": 2100,
    "refused": 2,
    "broken": 1,
}
PRINTED = f"Running 1s test @ http://127.0.0.1:1\n  1 threads\nBENCH {json.dumps(SEEN)}\n"


def test_the_line_of_the_script_is_found_among_the_rest() -> None:
    assert wrk.parse(PRINTED) == SEEN


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("unable to connect to 127.0.0.1:1 Connection refused\n", "Connection refused"),
        (PRINTED.replace("3000", "0"), "no answer"),
    ],
    ids=["no line", "no requests"],
)
def test_a_run_without_figures_is_an_error(printed: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        wrk.parse(printed)


def test_the_command_names_all_that_the_script_needs() -> None:
    given = wrk.command(5701, POST, 3)
    assert given[:7] == ["wrk", "-t", "1", "-c", "64", "-d", "3s"]
    address = given.index("http://127.0.0.1:5701")
    assert given[address + 1 :] == [
        *("--", "POST", "/grid/rest/maps/bench/#", "10000", "1", "22", "1", "0")
    ]


def test_cpu_time_is_read_behind_a_name_with_brackets_and_spaces() -> None:
    text = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 77 1000 200\n"
    assert parse_stat(text, 100) == CpuTime(2.5, 0.5)


@pytest.mark.parametrize(("depth", "known"), [(1, True), (16, False)])
def test_a_sample_is_read_from_what_the_process_prints(
    depth: int, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = tmp_path / "wrk"
    played.write_text(f"#!/bin/sh\ncat <<'END'\n{PRINTED}END\n", encoding="utf-8")
    played.chmod(played.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    load = wrk.Load("GET", "/", depth=depth)
    sample = wrk.measure(Server((os.getpid(),), 1), load, 1)
    assert (sample.requests, sample.seconds, sample.bad) == (3000, 1.5, 3)
    assert math.isnan(sample.p99_ms) is not known
    assert not known or (sample.p50_ms, sample.p99_ms) == (0.64, 2.1)


def test_wrk_that_fails_is_an_error_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = tmp_path / "wrk"
    played.write_text("#!/bin/sh\necho no such option\nexit 3\n", encoding="utf-8")
    played.chmod(played.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BenchError, match="no such option"):
        wrk.measure(Server((os.getpid(),), 1), GET, 1)


def test_without_wrk_and_without_a_way_to_install_it_we_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="apt-get install wrk"):
        install_tools(open_loop=True)


def test_what_oha_prints_is_read() -> None:
    text = json.dumps(
        {
            "summary": {"requestsPerSec": 19_900.5, "total": 3.0},
            "latencyPercentiles": {"p50": 0.0005, "p90": 0.001, "p99": 0.002, "p99.9": None},
            "statusCodeDistribution": {"200": 59_000, "204": 100, "503": 4},
            "errorDistribution": {"aborted due to deadline": 7, "connection reset": 1},
        }
    )
    offer = oha.parse(text, 20_000, 55.0)
    assert (offer.wanted, offer.rate, offer.bad) == (20_000, 19_900.5, 5)
    assert offer.percentiles_ms == pytest.approx((0.5, 1.0, 2.0, 0.0))


def test_oha_is_asked_for_latencies_from_the_moment_a_request_was_due() -> None:
    given = oha.arguments(POST, 1000, 6)
    assert "--latency-correction" in given
    assert given[given.index("-q") + 1] == "1000"
    assert given[given.index("-d") + 1] == "v" * 22
    assert "-d" not in oha.arguments(GET, 1000, 6)


def test_what_is_played_here_is_what_the_script_prints() -> None:
    script = Path(wrk.__file__).with_name("requests.lua")
    text = script.read_text(encoding="utf-8")
    assert [name for name in SEEN if f'"{name}": %d' not in text] == []
    assert "BENCH {" in text
    if shutil.which("luac"):
        subprocess.run(["luac", "-p", str(script)], check=True)
