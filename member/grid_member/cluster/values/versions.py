"""The cluster version: which `major.minor` the members agreed to speak.

A new cluster takes its first member's; from then on it changes by a call only, so that a newer
member on older data goes on as the older one would until everybody can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

MAX_NUMBER: Final = 127
"""For major and minor."""
_KEY: Final = "cluster-version"
_VERSION: Final = re.compile(
    r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,9})?(?:-[0-9A-Za-z.-]{1,64})?", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class ClusterVersion:
    """`major.minor`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def supports(self, other: ClusterVersion) -> bool:
        """Tell whether members of this version can run a cluster of the other one.

        They can run their own and that before it.
        """
        if self.minor == 0 and other.major == self.major - 1:
            return True
        return other.major == self.major and other.minor in (self.minor, self.minor - 1)


def parse_version(text: str) -> ClusterVersion | None:
    """Return the version in `major.minor[.patch][-qualifier]`, None when it is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    return ClusterVersion(major, minor) if max(major, minor) <= MAX_NUMBER else None


class Versions:
    """The cluster's version as stored, and what this member makes of it."""

    def __init__(self, store: SystemStore, own: str) -> None:
        """Take the member's own version, `major.minor.patch`.

        Raises:
            ValueError: it is no version.
        """
        parsed = parse_version(own)
        if parsed is None:
            raise ValueError("the member's own version is no major.minor.patch")
        self._store = store
        self.own_version: Final = parsed
        """What this member's own version stands for."""

    @property
    def current(self) -> ClusterVersion:
        """The cluster's version; the member's own as long as none is stored."""
        stored = self._store.system_get(_KEY)
        return (parse_version(stored.decode()) if stored else None) or self.own_version

    def problem(self, target: ClusterVersion) -> str | None:
        """Return why the cluster's version cannot become target, None when it can."""
        if target == self.current or target == self.own_version:
            return None
        if self.own_version.supports(target):
            return f"the cluster version cannot go back from {self.current} to {target}"
        return f"members of version {self.own_version} cannot run a cluster of version {target}"

    def change(self, target: ClusterVersion) -> Put:
        """Return what makes target the cluster's version."""
        return Put(_KEY, str(target).encode())

    def join_put(self) -> Put | None:
        """Return what makes a new cluster keep the version it began with, None for an old one."""
        return None if self._store.system_get(_KEY) else self.change(self.own_version)

    def join_problem(self) -> str | None:
        """Return why this member cannot run the cluster whose data it has, None when it can."""
        if self.own_version.supports(self.current):
            return None
        return (
            f"the cluster has version {self.current}, which a member of version {self.own_version} "
            "cannot run: start one of the cluster's version or of the next"
        )
