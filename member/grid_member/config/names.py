"""Which configuration a structure's name means: exact name, then wildcard, then `default`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

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


def shadowed_names(configured: Collection[str], new: str) -> list[str]:
    """Return the configured names that would mean less if `new` was configured as well."""
    if WILDCARD not in new:
        found = find({name: name for name in configured}, new)
        return [] if found is None else [found]
    wildcards = [one for one in configured if WILDCARD in one and _overlap(one, new)]
    return [one for one in wildcards if len(one) < len(new)] + [DEFAULT] * (DEFAULT in configured)


def _overlap(one: str, other: str) -> bool:
    """Tell whether two wildcards match a name in common."""
    head, _, tail = one.partition(WILDCARD)
    other_head, _, other_tail = other.partition(WILDCARD)
    heads = head.startswith(other_head) or other_head.startswith(head)
    return heads and (tail.endswith(other_tail) or other_tail.endswith(tail))


def ambiguous(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of wildcards that one name can match equally well, in the order of names.

    Each that clashes is in one of them, or clashes with one that is.
    """
    order = {name: place for place, name in enumerate(names) if name.count(WILDCARD) == 1}
    tails: dict[tuple[int, str], list[str]] = {}
    for name in order:
        head, _, tail = name.partition(WILDCARD)
        tails.setdefault((len(name), head), []).append(tail)
    # Two of one length clash when one's head begins the other's, whose tail ends the one's. Looked
    # up and not compared in pairs: a document has room for tens of thousands.
    ends: dict[tuple[int, str, int], dict[str, str]] = {}
    pairs = []
    for name in order:
        head, _, tail = name.partition(WILDCARD)
        for size in range(len(head)):
            key = (len(name), head[:size])
            if key in tails:
                if (*key, len(tail)) not in ends:
                    ends[*key, len(tail)] = _by_end(tails[key], len(tail))
                known = ends[*key, len(tail)]
                if tail in known:
                    pairs.append((f"{key[1]}{WILDCARD}{known[tail]}", name))
                    break
    return [(one, other) if order[one] < order[other] else (other, one) for one, other in pairs]


def _by_end(tails: list[str], size: int) -> dict[str, str]:
    return {tail[len(tail) - size :]: tail for tail in reversed(tails)}


def _matches(pattern: str, name: str) -> bool:
    head, _, tail = pattern.partition(WILDCARD)
    return len(name) >= len(pattern) - 1 and name.startswith(head) and name.endswith(tail)
