"""What the API server drops of a status, because its CustomResourceDefinition is an older one.

It drops a field that the definition does not have and reports success. The operator compares its
answer with what was sent. It does not read the definition: an operator for single namespaces has
no right to.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_operator.api.objects import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_operator.api.objects import KubeObject

    Place: TypeAlias = tuple[str, ...]
    """The names on the way to a field; `_ITEM` stands for the items of a list."""

LOG: Final = logging.getLogger(__name__)

RETRY_PERIOD_S: Final = 300.0
"""Between two writes of a status that differs from the live one in dropped fields alone: the write
finds out whether somebody has applied the definition."""
MAX_CLUSTERS: Final = 2_000
"""That are remembered; beyond it the ones that were written first are forgotten."""
_ITEM: Final = "[]"


@dataclass(frozen=True, slots=True)
class _Answer:
    dropped: frozenset[Place]
    time_s: float


class Pruning:
    """Remembers of each cluster what was dropped. A restart of the operator forgets it."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        """Know of nothing; `steady_s` is a monotonic clock, in seconds."""
        self._steady_s = steady_s
        self._answers: dict[str, _Answer] = {}
        """By uid of the GridCluster."""

    def dropped(self, cluster: KubeObject) -> tuple[str, ...] | None:
        """Return the fields that the API server drops, None while this is not known."""
        answer = self._answers.get(cluster["metadata"]["uid"])
        if answer is None:
            return None
        return tuple(sorted("status." + _text(place) for place in answer.dropped))

    def is_written(self, cluster: KubeObject, content: KubeObject) -> bool:
        """Return whether writing this status would change nothing."""
        live = cluster.get("status")
        if content == live:
            self._note(cluster, frozenset())
            return True
        answer = self._answers.get(cluster["metadata"]["uid"])
        if answer is None or self._steady_s() - answer.time_s >= RETRY_PERIOD_S:
            return False
        return _without(content, answer.dropped) == live

    def note(self, written: KubeObject, content: KubeObject) -> None:
        """Note what the API server made of a status that was sent."""
        self._note(written, frozenset(_lacking(content, written.get("status"))))

    def _note(self, cluster: KubeObject, dropped: frozenset[Place]) -> None:
        before = self._answers.pop(cluster["metadata"]["uid"], None)
        if len(self._answers) >= MAX_CLUSTERS:
            del self._answers[next(iter(self._answers))]
        self._answers[cluster["metadata"]["uid"]] = _Answer(dropped, self._steady_s())
        if dropped and (before is None or before.dropped != dropped):
            places = ", ".join(sorted(map(_text, dropped)))
            LOG.warning(
                "%s: the API server drops fields of the status: %s", ObjectRef.of(cluster), places
            )


def _text(place: Place) -> str:
    return ".".join(place).replace("." + _ITEM, _ITEM)


def _lacking(sent: object, kept: object, place: Place = ()) -> Iterator[Place]:
    """Yield the fields that were sent and are not there."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            if name in kept:
                yield from _lacking(value, kept[name], (*place, name))
            else:
                yield (*place, name)
    elif isinstance(sent, list) and isinstance(kept, list):
        for one, other in zip(sent, kept, strict=False):
            yield from _lacking(one, other, (*place, _ITEM))


def _without(sent: object, dropped: frozenset[Place], place: Place = ()) -> object:
    if isinstance(sent, dict):
        return {
            name: _without(value, dropped, (*place, name))
            for name, value in sent.items()
            if (*place, name) not in dropped
        }
    if isinstance(sent, list):
        return [_without(item, dropped, (*place, _ITEM)) for item in sent]
    return sent
