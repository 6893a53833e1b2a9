"""Promise: what ends or stops a process where Python cannot see it is a finding, with its input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest

from grid_member.compiled import VARIABLE
from tests.fuzz import jobs
from tests.fuzz.jobs import Order, run
from tests.fuzz.present import Present, Shown
from tests.fuzz.target import seeds
from tests.fuzz.targets import target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.jobs import Outcome

FAULT: Final = """
import ctypes, itertools, os, signal, sys, time, zlib
import tests.fuzz.parameters_target as t

def fault():
    {fault}

def run(self, data, real=t.ParametersTarget.run):
    if zlib.crc32(data) % 300 == 7:
        fault()
    return real(self, data)

t.ParametersTarget.run = run
"""
BLOCKED: Final = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF, signal.SIGALRM])"
SILENT: Final = {
    "blocked": f"{BLOCKED}\n    while True: pass",
    "machine code": "sum(itertools.repeat(0))",
    "locked": "ctypes.PyDLL(None).sleep(600)",
}
ENDS: Final = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "ended by SIGSEGV",
    "ctypes.string_at(0)": "ended by SIGSEGV",
    "os.kill(os.getpid(), signal.SIGKILL)": "ended by SIGKILL",
    "os._exit(0)": "ended with status 0",
    "sys.exit(3)": "ended with status 3",
}


def is_faulty(data: bytes) -> bool:
    return crc32(data) % 300 == 7


def planted(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes do something at one input of some hundred."""
    assert not any(map(is_faulty, seeds(target("parameters"))))
    (tmp_path / "sitecustomize.py").write_text(FAULT.format(fault=fault), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{jobs.ROOT}")
    monkeypatch.setenv(VARIABLE, "off")  # too late for that when the target is loaded


def outcome_of(order: Order, findings: Path) -> Outcome:
    return run(target("parameters"), order, findings, lambda _: None)


@pytest.mark.parametrize("fault", SILENT)
@pytest.mark.parametrize("guided", [True, False])
def test_an_input_that_never_ends_is_found(
    guided: bool, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 1.0 if guided else 0.0)
    monkeypatch.setattr(jobs, "MAX_STILL_S", 2.0)
    planted(SILENT[fault], tmp_path, monkeypatch)
    outcome = outcome_of(Order(100_000, 50, 1), tmp_path / "findings")
    (file,) = (tmp_path / "findings").iterdir()
    assert is_faulty(file.read_bytes())
    assert outcome.problem is not None
    assert "did nothing new for 2 s" in outcome.problem
    assert f"python -m tests.fuzz replay parameters {file}" in outcome.problem


@pytest.mark.parametrize("fault", ENDS)
def test_an_input_that_ends_the_process_is_found(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 0.0)
    planted(fault, tmp_path, monkeypatch)
    outcome = outcome_of(Order(100_000, 50, 1), tmp_path / "findings")
    (file,) = (tmp_path / "findings").iterdir()
    assert is_faulty(file.read_bytes())
    assert outcome.problem is not None
    assert ENDS[fault] in outcome.problem
    assert f"python -m tests.fuzz replay parameters {file}" in outcome.problem


def test_what_ended_a_process_is_seen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted("ctypes.string_at(0)", tmp_path, monkeypatch)
    file = tmp_path / "input"
    file.write_bytes(
        next(data for data in map(str.encode, map(str, range(9999))) if is_faulty(data))
    )
    command = [sys.executable, "-m", "tests.fuzz", "replay", "parameters", str(file)]
    ran = subprocess.run(command, cwd=jobs.ROOT, capture_output=True, text=True, timeout=50)
    assert ran.returncode == -signal.SIGSEGV
    assert f"{file.stat().st_size} bytes" in ran.stdout
    assert "in fault" in ran.stderr


def test_what_is_found_again_is_a_finding_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 0.0)
    planted("raise ValueError", tmp_path, monkeypatch)
    for _ in range(2):
        outcome = outcome_of(Order(100_000, 50, 1), tmp_path / "findings")
        assert "FOUND SOMETHING" in str(outcome.problem)


@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM"])
def test_an_end_that_was_asked_for_is_no_finding(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 0.0)
    # What a job in the background inherits ignores SIGINT.
    kill = f"signal.signal(signal.{which}, signal.SIG_DFL); os.kill(os.getpid(), signal.{which})"
    planted(f"{kill}; time.sleep(9)", tmp_path, monkeypatch)
    outcome = outcome_of(Order(100_000, 50, 1), tmp_path / "findings")
    assert f"ended by {which}" in str(outcome.problem)
    assert list((tmp_path / "findings").iterdir()) == []


def test_a_process_that_hangs_before_its_first_input_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 0.0)
    monkeypatch.setattr(jobs, "MAX_START_S", 1.0)
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(600)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{jobs.ROOT}")
    outcome = outcome_of(Order(100, 50, 1), tmp_path / "findings")
    assert "did nothing new for 1 s" in str(outcome.problem)
    assert "left no input behind" in str(outcome.problem)


def test_a_process_that_goes_on_is_let_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inputs are slow, each less than what is allowed and all of them far more."""
    monkeypatch.setattr(jobs, "GUIDED_SHARE", 0.0)
    monkeypatch.setattr(jobs, "MAX_STILL_S", 2.0)
    planted("time.sleep(0.3)", tmp_path, monkeypatch)
    began_s = time.monotonic()
    outcome = outcome_of(Order(5000, 50, 1), tmp_path / "findings")
    assert outcome.problem is None
    assert time.monotonic() - began_s > 2.0


def test_the_present_input_is_seen_from_outside(tmp_path: Path) -> None:
    file = tmp_path / "present"
    outside = Present.create(file, 8)
    seen = []

    class Looking:
        name, words, max_bytes = "looking", (), 8

        def run(self, data: bytes) -> int:
            seen.append((outside.number, outside.data))
            if data == b"end":
                raise KeyboardInterrupt
            return len(data)

    shown = Shown(Looking(), Present(file))
    assert (outside.number, outside.data) == (0, None)
    assert [shown.run(data) for data in (b"", b"12345678", b"1\x00")] == [0, 8, 2]
    assert (outside.number, outside.data) == (3, None)
    with pytest.raises(KeyboardInterrupt):
        shown.run(b"end")
    assert (outside.number, outside.data) == (4, b"end")
    assert seen == [(1, b""), (2, b"12345678"), (3, b"1\x00"), (4, b"end")]


def test_signals_have_names() -> None:
    assert jobs.ending(-signal.SIGSEGV) == "ended by SIGSEGV"
    assert jobs.ending(-63) == "ended by signal 63"
    assert jobs.ending(os.EX_USAGE) == "ended with status 64"
