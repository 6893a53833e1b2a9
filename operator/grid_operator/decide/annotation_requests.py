"""Requests: annotations that ask for something once.

The value starts with a request id that whoever asks picks: `backup: monday-1`. An id that was
carried out, or refused, is never carried out again. Starting a member without its data needs the
GridCluster's uid as well, so that a copy of the object cannot repeat it.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import GROUP
from grid_operator.api.status import (
    MAX_STATUS_TEXT_LENGTH,
    FinishedOperation,
    HandledRequest,
    OperationKind,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.status import GridClusterStatus

BACKUP: Final = "backup"
BACKUP_INTERRUPT: Final = "backup-interrupt"
RESTART: Final = "restart"
PARTIAL_START: Final = "partial-start"
FORCE_START: Final = "force-start"
ACKNOWLEDGE: Final = "acknowledge-data-loss"

OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    BACKUP: frozenset(),
    BACKUP_INTERRUPT: frozenset(),
    RESTART: frozenset(),
    PARTIAL_START: frozenset({ACKNOWLEDGE}),
    FORCE_START: frozenset({ACKNOWLEDGE}),
}
"""The annotations, after `gridcluster.io/`, and the options that each must have."""
KINDS: Final[Mapping[str, OperationKind]] = {
    BACKUP: OperationKind.BACKUP,
    RESTART: OperationKind.RESTART,
    PARTIAL_START: OperationKind.PARTIAL_START,
    FORCE_START: OperationKind.FORCE_START,
}
ACCEPTED: Final = "Accepted"
REFUSED: Final = "Refused"
SUCCEEDED: Final = "Succeeded"
INHERITED: Final = (
    "the annotation came with this GridCluster, so that it may be a request of a former one, and "
    "nothing is done: ask under another request id"
)
OLD_DEFINITION: Final = "its CustomResourceDefinition is older than this operator"
APPLY_DEFINITION: Final = (
    "apply that of the operator's version: kubectl apply -f crds/gridcluster.yaml"
)
_UNMARKED: Final = (
    "the operator cannot tell whether this is a request of a former GridCluster, as the API server "
    f"drops status.observedUid, and nothing is done: {OLD_DEFINITION}; {APPLY_DEFINITION}, and ask "
    "under another request id"
)
_MARK: Final = "status.observedUid"
MAX_VALUE_LENGTH: Final = 256
SIMILAR: Final = 0.75
"""How alike an unknown annotation is to a known one to be taken for a slip."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")


@dataclass(frozen=True, slots=True)
class Requests:
    """What the annotations of a cluster ask for."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """By annotation: request ids that are well-formed and were not dealt with yet."""
    problems: tuple[str, ...] = ()
    """A line per annotation that asks for nothing that can be done: which, and what to change."""


def read_requests(cluster: GridCluster) -> Requests:
    """Return what the annotations ask for that was not dealt with yet."""
    ids: dict[str, str] = {}
    problems: list[str] = []
    for key, value in sorted(cluster.metadata.annotations.items()):
        group, slash, name = key.rpartition("/")
        if not slash or group != GROUP:
            continue
        if name not in OPTIONS:
            alike = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=SIMILAR)
            if alike:
                problems.append(f"{GROUP}/{name[:63]} is unknown: write {GROUP}/{alike[0]}")
            continue
        request, comma, rest = value.partition(",")
        if was_handled(cluster.status, name, request):
            continue
        problem = _problem(name, value, request, rest if comma else None, cluster.metadata.uid)
        if problem is None:
            ids[name] = request
        else:
            problems.append(f"{GROUP}/{name}: {problem}")
    return Requests(ids, tuple(problems))


def inherited(cluster: GridCluster, requests: Requests) -> dict[str, str]:
    """Return the requests that were there before the operator first saw this very object.

    A GridCluster that is made again from a saved manifest carries what its former self was asked
    for, and its status, which tells that it was done, is lost. What names this object's uid is not
    a former one's.
    """
    if cluster.status.observed_uid == cluster.metadata.uid:
        return {}
    return {n: request for n, request in requests.ids.items() if ACKNOWLEDGE not in OPTIONS[n]}


def with_refused(
    status: GridClusterStatus, inherited: Mapping[str, str], dropped: Collection[str] = ()
) -> GridClusterStatus:
    """Return the status with the inherited requests refused.

    Args:
        status: what is known to be handled.
        inherited: ids by annotation.
        dropped: fields of the status that the API server does not keep.
    """
    text = _UNMARKED if _MARK in dropped else INHERITED
    for name, request in inherited.items():
        handled = with_handled(status, name, request, REFUSED, text)
        status = status.model_copy(update={"handled_requests": handled})
    return status


def was_handled(status: GridClusterStatus, name: str, request: str) -> bool:
    """Return whether this request was accepted or refused before."""
    if any((h.annotation, h.request) == (name, request) for h in status.handled_requests):
        return True
    kind = KINDS.get(name)
    return any((f.kind, f.request) == (kind, request) for f in status.last_operations)


def _problem(name: str, value: str, request: str, rest: str | None, uid: str) -> str | None:
    if len(value) > MAX_VALUE_LENGTH or not _ID.fullmatch(request):
        return "the value must start with a request id of 1 to 63 letters, digits, '.', '_', '-'"
    options = [part.partition("=") for part in rest.split(",")] if rest is not None else []
    names = [option for option, _, _ in options]
    if len(set(names)) != len(names) or set(names) - OPTIONS[name]:
        known = ", ".join(sorted(OPTIONS[name])) or "none"
        return f"options after the request id are, once each: {known}"
    given = {option: text for option, _, text in options}
    if ACKNOWLEDGE in OPTIONS[name] and given.get(ACKNOWLEDGE) != uid:
        return f"data will be lost: add ,{ACKNOWLEDGE}= and the metadata.uid of this GridCluster"
    return None


def with_handled(
    status: GridClusterStatus, name: str, request: str, outcome: str, message: str = ""
) -> tuple[HandledRequest, ...]:
    """Return the requests that were dealt with, this one among them."""
    others = tuple(h for h in status.handled_requests if h.annotation != name)
    text = message[:MAX_STATUS_TEXT_LENGTH]
    new = HandledRequest(annotation=name, request=request, outcome=outcome, message=text)
    return tuple(sorted((*others, new), key=lambda handled: handled.annotation))


def after_finish(
    status: GridClusterStatus, finished: FinishedOperation
) -> tuple[HandledRequest, ...]:
    """Return the requests that were dealt with, those of an ended operation with its outcome."""
    changed = status.handled_requests
    for name, kind in KINDS.items():
        if kind is finished.kind and any(
            (h.annotation, h.request) == (name, finished.request) for h in changed
        ):
            changed = with_handled(
                status, name, finished.request, finished.outcome.value, finished.message
            )
    if finished.kind is not OperationKind.BACKUP:
        return changed
    return tuple(_interrupt_ended(handled) for handled in changed)


def _interrupt_ended(handled: HandledRequest) -> HandledRequest:
    if handled.annotation != BACKUP_INTERRUPT or handled.outcome != ACCEPTED:
        return handled
    return handled.model_copy(update={"outcome": SUCCEEDED})
