"""The processes that run a layer's tests side by side leave out no file, and run none twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import side_by_side
from tests.side_by_side import COMPILED, E2E, ONE_KUBERNETES, UNIT, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
IGNORE = "--ignore="


def files_of_tests(top: str) -> Iterator[Path]:
    yield from (ROOT / top).rglob("test_*.py")


def runs(words: tuple[str, ...], file: Path) -> bool:
    """Tell whether a process with these arguments runs the tests of a file."""
    named = [ROOT / word for word in words if word.startswith("tests/")]
    left_out = [ROOT / word.removeprefix(IGNORE) for word in words if word.startswith(IGNORE)]
    assert all(path.exists() for path in (*named, *left_out))
    within = (file, *file.parents)
    return any(path in within for path in named) and not any(path in within for path in left_out)


@pytest.mark.parametrize(
    ("layer", "top"), [(UNIT, "tests/unit"), (E2E, "tests/e2e"), (ONE_KUBERNETES, "tests/e2e")]
)
def test_one_process_runs_each_file(layer: Layer, top: str) -> None:
    processes = [words for words in (*layer.shown, *layer.beside) if words is not COMPILED]
    counted = {
        str(file): sum(runs(words, file) for words in processes) for file in files_of_tests(top)
    }
    assert len(counted) > 5
    assert {file: number for file, number in counted.items() if number != 1} == {}


@pytest.mark.parametrize(
    ("shown", "beside", "status"),
    [
        ((0, 5), (0,), 0),
        ((5, 5), (5,), 5),
        ((0, 0), (1,), 1),
        ((5, 2), (0,), 2),
    ],
)
def test_the_status_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    shown: tuple[int, ...],
    beside: tuple[int, ...],
    status: int,
) -> None:
    def words(ends: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        return tuple((f"import sys; print('ended', {end}); sys.exit({end})",) for end in ends)

    layer = Layer(shown=words(shown), beside=words(beside))
    monkeypatch.setattr(side_by_side, "PYTEST", (sys.executable, "-c"))
    monkeypatch.setattr(side_by_side, "layer_named", lambda name: layer)
    assert side_by_side.main(["some layer"]) == status
    assert capfd.readouterr().out.split() == [
        word for end in (*shown, *beside) for word in ("ended", str(end))
    ]


@pytest.mark.parametrize("arguments", [[], ["uint"]])
def test_a_layer_that_does_not_exist_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="unit or e2e"):
        side_by_side.main(arguments)
