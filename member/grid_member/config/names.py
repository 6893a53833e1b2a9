"""Which configuration a structure's name means: exact name, then wildcard, then `default`."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")
WILDCARD: Final = "*"
DEFAULT: Final = "default"


def find(configured: Mapping[str, T], name: str) -> T | None:
    """Return what is configured for name; of several wildcards the most literal one."""
    exact = configured.get(name)
    if exact is not None:
        return exact
    patterns = [p for p in configured if WILDCARD in p and _matches(p, name)]
    if patterns:
        return configured[max(patterns, key=len)]
    return configured.get(DEFAULT)


def ambiguous(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of wildcards that one name can match equally well."""
    patterns = [name for name in names if name.count(WILDCARD) == 1]
    return [
        (one, other)
        for one, other in combinations(patterns, 2)
        if len(one) == len(other) and _overlap(one, other)
    ]


def _matches(pattern: str, name: str) -> bool:
    head, _, tail = pattern.partition(WILDCARD)
    return len(name) >= len(pattern) - 1 and name.startswith(head) and name.endswith(tail)


def _overlap(one: str, other: str) -> bool:
    head, _, tail = one.partition(WILDCARD)
    other_head, _, other_tail = other.partition(WILDCARD)
    heads = head.startswith(other_head) or other_head.startswith(head)
    tails = tail.endswith(other_tail) or other_tail.endswith(tail)
    return heads and tails
