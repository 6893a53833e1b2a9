"""What a member counts about itself while it works; whoever shows it reads it when asked.

Counting is a few additions in plain Python: it stands in the way of every request.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

REQUEST_BOUNDS_S: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
)
COMMIT_BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
OTHER: Final = "other"
"""Stands for methods and paths that the interface does not have: they are the client's choice."""


class Durations:
    """How many took how long, by upper bounds; whatever takes longer is in a last bucket."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds


class Measurements:
    """The counts of one member since its start."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """How many, by method, path of the routing table and status."""
        self.durations: dict[tuple[str, str], Durations] = {}
        """How long they took, by method and path."""
        self._commits = Durations(COMMIT_BOUNDS_S)
        self._lock = threading.Lock()

    def count_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; on the event loop's thread alone."""
        method = method if method in METHODS else OTHER
        requests = self.requests
        requests[method, path, status] = requests.get((method, path, status), 0) + 1
        durations = self.durations.get((method, path))
        if durations is None:
            durations = self.durations[method, path] = Durations(REQUEST_BOUNDS_S)
        durations.add(seconds)

    def count_refusal(self, status: int) -> None:
        """Count the answer to what could not be read as a request; it took no time to tell of."""
        key = (OTHER, OTHER, status)
        self.requests[key] = self.requests.get(key, 0) + 1

    def count_commit(self, seconds: float) -> None:
        """Count a commit of the store; on any thread."""
        with self._lock:
            self._commits.add(seconds)

    def commits(self) -> Durations:
        """Return how long the commits took up to now."""
        with self._lock:
            copy = Durations(self._commits.bounds_s)
            copy.counts, copy.sum_s = list(self._commits.counts), self._commits.sum_s
        return copy
