"""Promise: a run is the same again, ends what does not end, and says what to do with a finding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest

from bench.compiled import form
from grid_member.compiled import VARIABLE
from tests.fuzz import drive as driving
from tests.fuzz import jobs
from tests.fuzz.__main__ import PART_INPUTS, orders_for, replay
from tests.fuzz.drive import CaughtError, drive, smaller
from tests.fuzz.jobs import MAX_GROWN_BYTES, MAX_GROWN_OBJECTS, Memory, Order, run
from tests.fuzz.memory import Held, held, read
from tests.fuzz.targets import target

if TYPE_CHECKING:
    from pathlib import Path

POOL = [b"one 1", b"two 22", b"three"]


@dataclass
class Listening:
    """Takes everything, but for what holds a certain word."""

    wrong: bytes = b"\x00never\x00"
    name: str = "listening"
    words: tuple[bytes, ...] = (b"wrong", b"\xff")
    max_bytes: int = 64
    seen: list[bytes] = field(default_factory=list)

    def run(self, data: bytes) -> int:
        self.seen.append(data)
        if self.wrong in data:
            raise ValueError("wrong")
        return len(data)


def test_the_same_seed_makes_the_same_inputs() -> None:
    one, same, other = Listening(), Listening(), Listening()
    for listening, seed in ((one, 1), (same, 1), (other, 2)):
        assert drive(listening, POOL, seed, 500).inputs == 500
    assert one.seen == same.seen != other.seen
    assert one.seen[:3] == POOL
    assert max(map(len, one.seen)) <= Listening.max_bytes
    assert len(set(one.seen)) > 400


def test_a_finding_is_told_with_its_input_and_made_smaller() -> None:
    finding = Listening(wrong=b"wrong")
    with pytest.raises(CaughtError) as caught:
        drive(finding, POOL, 1, 5000)
    assert b"wrong" in caught.value.data
    assert isinstance(caught.value.__cause__, ValueError)
    assert smaller(finding, b"a lot and wrong and a lot") == b"wrong"


def test_an_input_that_does_not_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "MAX_INPUT_S", 0.1)

    class Endless(Listening):
        def run(self, data: bytes) -> int:
            while data == POOL[1]:
                pass
            return 0

    with pytest.raises(CaughtError) as caught:
        drive(Endless(), POOL, 1, 100)
    assert caught.value.data == POOL[1]
    assert "CPU time" in str(caught.value.__cause__)


@pytest.mark.parametrize("wanted", ["auto", "off"])
@pytest.mark.parametrize("guided", [True, False])
def test_a_long_run_counts(
    guided: bool, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    if not guided:
        monkeypatch.setattr(jobs, "guided_here", lambda: False)
    outcome = run(target("parameters"), Order(3000, 50, 1), tmp_path, lambda _: None)
    assert (outcome.problem, outcome.inputs) == (None, 3000)
    assert [memory.guided for memory in outcome.memory] == ([True, False] if guided else [False])
    assert all(memory.looks[-1].peak_bytes > 1 << 20 for memory in outcome.memory)
    assert "nothing found" in str(outcome)
    assert str(outcome).count("RSS") == len(outcome.memory)
    assert ("\n    guided, interpreted: RSS" in str(outcome)) is guided
    assert f"\n    unguided, {form()}: RSS" in str(outcome)


def test_what_a_run_remembers_is_not_taken_for_the_targets() -> None:
    class Forgetting(Listening):
        def run(self, data: bytes) -> int:
            return crc32(data)

    grown = {}
    for one in (Forgetting(), Listening()):
        figures = drive(one, POOL, 1, 8000)
        grown[type(one)] = figures.end.objects - figures.begin.objects
    assert grown[Forgetting] < 500
    assert grown[Listening] > 5000


KEEPS: Final = {
    "objects": "t.kept.append([[[body]]])",
    "MiB": "t.more.extend(b'x' * 4096)",
}


@pytest.mark.parametrize("what", KEEPS)
@pytest.mark.parametrize("guided", [True, False])
def test_memory_that_grows_is_a_finding(
    guided: bool, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guided:
        monkeypatch.setattr(jobs, "guided_here", lambda: False)
    code = (
        "import tests.fuzz.parameters_target as t\n"
        "t.kept, t.more, t.real = [], bytearray(), t._parameters\n"
        f"t._parameters = lambda body, count: ({KEEPS[what]}, t.real(body, count))[1]\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{jobs.ROOT}")
    monkeypatch.setenv(VARIABLE, "off")  # too late for that when the target is loaded
    outcome = run(target("parameters"), Order(20_000, 50, 1), tmp_path / "f", lambda _: None)
    assert outcome.memory[-1].guided is guided
    assert outcome.problem is not None
    assert outcome.problem.startswith("memory grew")
    assert what in outcome.problem


def test_memory_may_grow_by_so_much() -> None:
    begin = Held(1000, 1 << 20, 2 << 20)
    objects = replace(begin, objects=1000 + MAX_GROWN_OBJECTS)
    size = replace(begin, resident_bytes=begin.resident_bytes + MAX_GROWN_BYTES)
    for allowed in (objects, size):
        assert Memory(False, (begin, begin, allowed)).problem is None
    for end in (
        replace(objects, objects=objects.objects + 1),
        replace(size, resident_bytes=size.resident_bytes + 1),
    ):
        assert "memory grew" in str(Memory(False, (begin, begin, end)).problem)
    assert "without" in str(Memory(False, (begin, begin)).problem)


def test_what_is_held_is_written_and_read() -> None:
    one, other = held(), Held(1, 2, 3)
    assert read(f"#1\n{one}\nholds nothing\n{other}\n") == [one, other]


def test_a_long_run_that_stops_early_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "guided_here", lambda: False)
    outcome = run(target("parameters"), Order(10**9, 0.5, 1), tmp_path, lambda _: None)
    assert outcome.problem is not None
    assert "stopped early" in outcome.problem


@pytest.mark.parametrize("guided", [True, False])
def test_a_long_run_leaves_what_it_found(
    guided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guided:
        monkeypatch.setattr(jobs, "guided_here", lambda: False)
    # Read by the process before anything else: its reference is another one.
    code = "import tests.fuzz.parameters_target as t\nt._unescaped = lambda _: 'x'\n"
    (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{jobs.ROOT}")
    monkeypatch.setenv(VARIABLE, "off")  # too late for that when the target is loaded
    findings = tmp_path / "findings"
    outcome = run(target("parameters"), Order(100_000, 50, 1), findings, lambda _: None)
    (file,) = findings.iterdir()
    assert outcome.problem is not None
    assert f"python -m tests.fuzz replay parameters {file}" in outcome.problem


def test_a_long_run_is_divided_among_processes() -> None:
    orders = orders_for({"fast-path": PART_INPUTS + 1, "xml": 5}, 60, 9)
    assert [(name, order.inputs, order.seed) for name, order in orders] == [
        ("fast-path", PART_INPUTS, 9),
        ("xml", 5, 9),
        ("fast-path", 1, 10),
    ]


def test_what_was_found_can_be_seen_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"/a%zz")
    assert replay("path", file) == 0
    assert "nothing found" in capsys.readouterr().out
