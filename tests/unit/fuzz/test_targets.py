"""Promise: no input makes the fast path, the loaders or the parser do what they do not say they do.

The same few thousand inputs each time; `make fuzz` tries millions of others.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest

from tests.fuzz.drive import drive
from tests.fuzz.target import corpus_files, seeds
from tests.fuzz.targets import TARGETS, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED: Final = 7
INPUTS: Final = {
    "fast-path": 4000,
    "yaml": 1000,
    "xml": 3000,
    "overrides": 500,
    "python": 3000,
    "parameters": 8000,
    "path": 3000,
    "wan": 3000,
    "wanjson": 2000,
}
MAX_GROWN_OBJECTS: Final = 2000
"""Of caches, which fill up with the first inputs."""
KEPT: Final = [(name, file) for name in TARGETS for file in corpus_files(target(name))]


@pytest.mark.parametrize(("name", "file"), KEPT, ids=[f"{name}-{file.stem}" for name, file in KEPT])
def test_kept_inputs_find_nothing(name: str, file: Path) -> None:
    """A target raises when it finds something."""
    target(name).run(file.read_bytes())


@pytest.fixture
def unlogged() -> Iterator[None]:
    """Pytest keeps what is logged, and failures of the engine are planted."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs_find_nothing(name: str) -> None:
    chosen = target(name)
    figures = drive(chosen, seeds(chosen), SEED, INPUTS[name])
    assert figures.inputs == INPUTS[name]
    assert figures.outcomes > len(seeds(chosen)) / 2, "the inputs are too much alike"
    grown = figures.end.objects - figures.begin.objects
    assert grown < MAX_GROWN_OBJECTS, "something stays of the inputs"
