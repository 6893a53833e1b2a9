"""Fields that the API server keeps otherwise than the operator applied them.

A webhook or a policy rewrites an image, a limit is put in, a field cannot be changed: the answer to
an apply still differs from what was rendered. The operator notes such a field in the status with a
digest of both values, and takes it as settled for as long as both stay the same. Another value in
the live object is drift, another one in the rendering is a change: both are applied.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from grid_operator.api.status import AdmittedField
from grid_operator.decide.children.drift import Difference, differences

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus

DIGEST_LENGTH: Final = 16
"""Hexadecimal digits kept of a SHA-256: enough to notice a change."""
MAX_ADMITTED: Final = 256
"""Fields that are noted of one cluster. A status has room for no more; those beyond it count as
drift, which is set back once a minute at most."""
MAX_PLACE_LENGTH: Final = 512


def object_name(obj: KubeObject) -> str:
    """Return kind and name of a child."""
    return f"{obj['kind']} {obj['metadata']['name']}"


def unsettled(
    rendered: KubeObject, live: KubeObject, status: GridClusterStatus
) -> tuple[Difference, ...]:
    """Return what differs in the live object and was not admitted so."""
    found = differences(rendered, live)
    if not found:
        return ()
    known = set(status.admitted or ())
    return tuple(d for d in found if _admitted(rendered, d) not in known)


def admitted_fields(rendered: KubeObject, left: Iterable[Difference]) -> tuple[AdmittedField, ...]:
    """Return what to note of the differences that are left after an apply."""
    return tuple(_admitted(rendered, difference) for difference in left)


def still_admitted(
    status: GridClusterStatus, children: Iterable[KubeObject], live: Iterable[KubeObject]
) -> tuple[AdmittedField, ...]:
    """Return the noted fields that still differ, of children that are rendered.

    What is not rendered any more, or is as rendered by now, is forgotten. Where the values are
    others by now the child is written in this round, and the field is noted again after that.
    """
    if not status.admitted:
        return ()
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    current: set[tuple[str, str]] = set()
    for child in children:
        there = found.get((child["kind"], child["metadata"]["name"]))
        if there is not None:
            fields = admitted_fields(child, differences(child, there))
            current.update((field.object, field.field) for field in fields)
    return tuple(field for field in status.admitted if (field.object, field.field) in current)


def with_admitted(
    before: Iterable[AdmittedField], name: str, fields: Iterable[AdmittedField]
) -> tuple[AdmittedField, ...]:
    """Return the noted fields with those of one object replaced, in an order of their own."""
    others = (field for field in before if field.object != name)
    together = sorted({*others, *fields}, key=lambda f: (f.object, f.field, f.digest))
    return tuple(together[:MAX_ADMITTED])


def admitted_text(fields: Iterable[AdmittedField]) -> str:
    """Return objects and fields for people. Never a value: it may be a credential."""
    places: dict[str, list[str]] = {}
    for field in fields:
        places.setdefault(field.object, []).append(field.field)
    return "; ".join(f"{name}: {', '.join(found)}" for name, found in places.items())


def _admitted(rendered: KubeObject, difference: Difference) -> AdmittedField:
    # Nothing of a Secret's content goes where more people may read it, not even a digest.
    secret = rendered["kind"] == "Secret" and difference.place.startswith("data")
    values = [] if secret else [difference.wanted, difference.has]
    text = json.dumps([difference.place, *values], sort_keys=True)
    return AdmittedField(
        object=object_name(rendered),
        field=difference.place[:MAX_PLACE_LENGTH],
        digest=hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH],
    )
