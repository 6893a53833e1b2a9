"""Promise: what a report says about compiled modules is what its processes did."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.compiled import form
from bench.machine import machine
from bench.processes import ROOT
from bench.servers.members import member
from grid_member.compiled import GROUP, VARIABLE, NotCompiledError, misfit
from tests.fuzz.__main__ import main
from tests.unit.member.running import loaded

OFF = "interpreted (it is switched off)"


def found_here() -> str:
    return "compiled" if misfit() is None else f"interpreted ({misfit()})"


@pytest.mark.parametrize("wanted", ["", "auto", "off"])
def test_reports_go_by_the_variable(
    wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    expected = OFF if wanted == "off" else found_here()
    assert form() == expected
    assert f"Members: {expected}" in machine()
    arguments = ["fuzz", "run", "--target", "parameters", "--inputs", "20"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr("tests.fuzz.__main__.run", lambda *_: Nothing())
    assert main() == 0
    assert f"interpreted where guided, unguided {expected}\n" in capsys.readouterr().out


class Nothing:
    """What a run that was not made did."""

    name, inputs, problem = "parameters", 0, None


def test_what_cannot_be_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "yes")
    with pytest.raises(NotCompiledError, match="GRID_COMPILED: 'yes' is none of auto, off"):
        form()
    monkeypatch.setattr(sys, "argv", ["fuzz", "run", "--target", "parameters"])
    assert main() == 1
    assert "GRID_COMPILED: 'yes' is none of" in capsys.readouterr().out


@pytest.mark.parametrize("wanted", ["auto", "off"])
def test_a_process_says_what_it_does(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    command = [sys.executable, "-m", "bench.compiled", "bench.dictionary", "1", "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(ran.stdout) >= 0
    assert ran.stderr == f"the member's modules: {form()}\n"


@pytest.mark.parametrize(
    ("environment", "forced", "compiled"),
    [
        ("auto", None, True),
        ("off", None, False),
        ("auto", "off", False),
        ("off", "auto", True),
    ],
)
def test_members_follow_the_variable_unless_they_are_forced(
    environment: str, forced: str | None, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert misfit() is None, "make compiled"
    monkeypatch.setenv(VARIABLE, environment)
    with member(compiled=forced) as server:
        assert (GROUP in loaded(server.pids[0])) is compiled
