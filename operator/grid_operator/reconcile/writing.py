"""Writes one child, and says what of it the API server keeps otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.objects import ObjectRef
from grid_operator.decide.children.drift import differences
from grid_operator.ports.errors import Conflict, Rejected, Unavailable
from grid_operator.ports.kubernetes.rest import INVALID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.children.drift import Difference
    from grid_operator.ports.api import Kube

INDEX_DIGITS: Final = 10
MAX_ATTEMPTS: Final = 5
"""To take something away from an object whose status somebody writes meanwhile."""
END: Final = "-"
"""The index behind the last one, in a JSON pointer."""


async def write_child(
    kube: Kube, rendered: KubeObject, applied: KubeObject, live: KubeObject | None
) -> tuple[Difference, ...]:
    """Apply a child, take away what was added to it, and return what differs after that.

    What differs in the answer to the operator's own write is not drift: admission made it so.

    Args:
        kube: Where to write.
        rendered: What the live object is compared with.
        applied: What is sent, see `applied_form`.
        live: The object as it was read, None when there was none.

    Raises:
        OperatorError: The API server was in the way.
    """
    try:
        answer = await kube.apply(applied)
    except Rejected as refusal:
        if refusal.reason != INVALID or live is None:
            raise
        await _mend(kube, applied, live, refusal)
        answer = await kube.apply(_unconditional(applied))
    answer = await _without_additions(kube, applied, answer)
    return differences(rendered, answer)


async def would_differ(
    kube: Kube, rendered: KubeObject, applied: KubeObject
) -> frozenset[str] | None:
    """Return the places that would differ if the child was written now; None: not known.

    Nothing is written. A webhook with side effects refuses to be asked.
    """
    try:
        live = await kube.fetch(ObjectRef.of(rendered))
        if live is None:
            return None
        answer = await kube.apply(_unconditional(applied), dry_run=True)
        added = _additions(applied, live)
        kept = await kube.patch(live, _removals(added), dry_run=True) if added else live
    except (Rejected, Conflict, Unavailable):
        return None
    changed = {d.place for d in differences(rendered, answer) if not d.is_addition}
    return frozenset(changed | {d.place for d in _additions(rendered, kept)})


async def _mend(kube: Kube, applied: KubeObject, live: KubeObject, refusal: Rejected) -> None:
    """Put right in one write what an apply cannot; what was refused before stays the error.

    Server-side apply joins. When a hand edit has changed what a list is joined by (the port of a
    Service), or set a field that excludes another one (`minAvailable`), what is joined is invalid.
    """
    found = differences(applied, live)
    changes = [_setting(difference) for difference in found if not difference.is_addition]
    operations = [*changes, *_removals(d for d in found if d.is_addition)]
    if not operations:
        raise refusal
    try:
        await kube.patch(live, operations)
    except (Rejected, Unavailable):
        raise refusal from None


async def _without_additions(kube: Kube, applied: KubeObject, answer: KubeObject) -> KubeObject:
    """Take away what was added, as far as it can go; return the object as it is then."""
    for attempt in range(MAX_ATTEMPTS):
        added = _additions(applied, answer)
        if not added:
            return answer
        try:
            return await _without(kube, answer, _removals(added))
        except Conflict:
            # A controller has written the status: what was written before woke it.
            if attempt + 1 == MAX_ATTEMPTS:
                raise
        answer = await kube.fetch(ObjectRef.of(applied)) or answer
    return answer


async def _without(kube: Kube, obj: KubeObject, removals: list[KubeObject]) -> KubeObject:
    try:
        return await kube.patch(obj, removals)
    except Rejected as refusal:
        if refusal.reason != INVALID:
            raise
    if len(removals) == 1:
        return obj
    # One of them cannot go, which must not keep the others.
    for removal in removals:
        obj = await _without(kube, obj, [removal])
    return obj


def _additions(wanted: KubeObject, live: KubeObject) -> tuple[Difference, ...]:
    return tuple(d for d in differences(wanted, live) if d.is_addition)


def _unconditional(applied: KubeObject) -> KubeObject:
    """Return it without the version that was observed: another write has come after it."""
    metadata = {k: v for k, v in applied["metadata"].items() if k != "resourceVersion"}
    return {**applied, "metadata": metadata}


def _setting(difference: Difference) -> KubeObject:
    """Return the operation that makes a value what it should be."""
    is_there = difference.has is not None and not difference.pointer.endswith(f"/{END}")
    operation = "replace" if is_there else "add"
    return {"op": operation, "path": difference.pointer, "value": difference.wanted}


def _removals(added: Iterable[Difference]) -> list[KubeObject]:
    """Return the operations that remove them, of a list the last item first."""
    pointers = sorted((difference.pointer for difference in added), key=_order, reverse=True)
    return [{"op": "remove", "path": pointer} for pointer in pointers]


def _order(pointer: str) -> list[str]:
    return [part.zfill(INDEX_DIGITS) if part.isdecimal() else part for part in pointer.split("/")]
