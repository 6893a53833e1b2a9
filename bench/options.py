"""What the command line chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """How long and how often each thing is measured.

    Attributes:
        seconds: of one run of the load generator.
        rounds: how many of them; each figure is their median.
        data_directory: on the disk that is measured with persistence.
        entries: how many a map holds where it grows.
        load_limit_s: how long the filling of the largest map may take.
        crowd: how many idle and trickling connections there are.
        starts: how many starts of a member are timed.
    """

    seconds: int
    rounds: int
    data_directory: Path
    entries: tuple[int, ...]
    load_limit_s: int
    connections: tuple[int, ...]
    crowd: int
    starts: int
