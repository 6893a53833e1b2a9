"""What a fuzz target is: one input in, what became of it out, and an exception for a finding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

CORPUS: Final = Path(__file__).parent / "corpus"
"""A directory for each target: seeds, and every input that once found something."""


class FindingError(AssertionError):
    """The code under test did something that it promises not to do."""


class Target(Protocol):
    """One entry point of the code, with an oracle."""

    @property
    def name(self) -> str:
        """The name on the command line and of the corpus directory."""

    @property
    def words(self) -> tuple[bytes, ...]:
        """The dictionary: what the syntax is made of."""

    @property
    def max_bytes(self) -> int:
        """How long an input may become."""

    def run(self, data: bytes) -> Hashable:
        """Try one input and return what became of it; inputs with a new outcome are kept.

        Raises:
            Exception: a finding, whatever it is.
        """


def seeds(target: Target) -> list[bytes]:
    """Return the corpus of a target, in the order of the file names."""
    return [path.read_bytes() for path in corpus_files(target)]


def corpus_files(target: Target) -> list[Path]:
    """Return the files of a target's corpus.

    Raises:
        FileNotFoundError: it has none.
    """
    found = sorted(path for path in (CORPUS / target.name).iterdir() if path.is_file())
    if not found:
        raise FileNotFoundError(f"no corpus for {target.name}")
    return found
