"""What clients of two clusters know of keys, and what both clusters must hold at last.

A key has one client in each cluster that writes it. A client looks at what its cluster has before
it writes: a value of the other cluster that it has seen there is older than what it writes then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Write:
    """A put, or a removal, that was begun."""

    site: str
    number: int
    value: str | None
    """None is a removal."""
    answered: bool = False


class Ledger:
    """The writes since the clusters were compared last."""

    def __init__(self) -> None:
        self._writes: dict[str, list[Write]] = defaultdict(list)
        """Those of each key that may be the last one."""
        self._settled: dict[str, str | None] = {}
        """What both clusters held when they were compared."""
        self._number = 0

    @property
    def touched(self) -> list[str]:
        """The keys that were written since then."""
        return list(self._writes)

    @property
    def all(self) -> list[str]:
        """The keys that were ever written."""
        return list({**self._settled, **self._writes})

    def begin(self, site: str, key: str, *, removes: bool) -> Write:
        """Note that a client begins a write."""
        self._number += 1
        write = Write(site, self._number, None if removes else f"{site} {self._number}")
        self._writes[key].append(write)
        return write

    def answer(self, key: str, write: Write, seen: str | None) -> None:
        """Note that a write was answered, before which its client has seen a value.

        A write without an answer may be done at any time, as long as nobody has seen its value.
        """
        write.answered = True
        up_to = max(
            (one.number for one in self._writes[key] if _is_seen(one, write, seen)), default=0
        )

        def is_over(one: Write) -> bool:
            if one is write:
                return False
            own = one.site == write.site
            return one.number == up_to or (one.answered and (own or one.number < up_to))

        self._writes[key] = [one for one in self._writes[key] if not is_over(one)]

    def problems(
        self, here: Mapping[str, str | None], there: Mapping[str, str | None]
    ) -> list[str]:
        """Return what two clusters must not hold; they are compared by this."""
        found = []
        for key, value in here.items():
            allowed = self._allowed(key)
            if value != there[key]:
                found.append(f"diverged: {key} is {value} here and {there[key]} there")
            for one in {value, there[key]} - allowed:
                verdict = "resurrected" if allowed == {None} else "lost"
                found.append(
                    f"{verdict}: {key} is {one}, and must be of {sorted(map(str, allowed))}"
                )
            self._settled[key] = value
            self._writes.pop(key, None)
        return found

    def _allowed(self, key: str) -> set[str | None]:
        writes = self._writes.get(key, [])
        allowed = {one.value for one in writes}
        if not any(one.answered for one in writes):
            allowed.add(self._settled.get(key))
        return allowed


def _is_seen(one: Write, write: Write, seen: str | None) -> bool:
    """Tell whether a value is one of the other cluster; its own tells nothing of that one."""
    return seen is not None and one.value == seen and one.site != write.site
