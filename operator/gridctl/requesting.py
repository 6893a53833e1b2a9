"""`gridctl backup | restart`: a one-shot request in an annotation, followed to its end."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import GROUP
from gridctl.judging import RequestJudge, pause_text, status_of
from gridctl.waiting import Ended, await_end

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from gridctl.changing import Following
    from gridctl.kubernetes import Clusters

BACKUP: Final = "backup"
INTERRUPT: Final = "backup-interrupt"
RESTART: Final = "restart"
RANDOM_BYTES: Final = 3
UNSEEN: Final = (
    "no operator has seen this GridCluster yet, and a request that comes before that is refused: "
    "try again when gridctl status shows its state"
)
STOPPED: Final = "the cluster is stopped: gridctl start brings it back"


class NotPossibleError(Exception):
    """The request would come to nothing; the message says why and what to do."""


def new_request(now: datetime) -> str:
    """Return a request id that nobody has used: when, and some random digits."""
    return f"gridctl-{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(RANDOM_BYTES)}"


async def request(clusters: Clusters, name: str, annotation: str, following: Following) -> Ended:
    """Put the request and, when that is wanted, wait until it is carried out.

    Raises:
        NotPossibleError: It would come to nothing.
    """
    request_id = new_request(following.now())

    def put(live: KubeObject) -> KubeObject:
        check_possible(live, annotation, following.now())
        return {"metadata": {"annotations": {f"{GROUP}/{annotation}": request_id}}}

    await clusters.change(name, put)
    if not following.wait:
        return Ended(True, f"requested as {request_id}; gridctl explain {name} shows how far it is")
    judge = RequestJudge(annotation, request_id, following.now)
    return await await_end(
        lambda: clusters.fetch(name), judge, following.progress, following.timeout_s
    )


def check_possible(cluster: KubeObject, annotation: str, now: datetime) -> None:
    """Return if a request of this kind would be carried out.

    Raises:
        NotPossibleError: It would not, or another one, which it would replace, waits for its turn.
    """
    if status_of(cluster).observed_generation is None:
        raise NotPossibleError(UNSEEN)
    spec = cluster.get("spec") or {}
    backup = (spec.get("persistence") or {}).get("backup")
    if annotation == BACKUP and not backup:
        raise NotPossibleError(
            "spec.persistence.backup is not set: there is no place for backups; give it a volume "
            "or a claimName"
        )
    paused = pause_text(cluster, now)
    if paused is not None:
        raise NotPossibleError(paused)
    if spec.get("runState") == "Stopped":
        raise NotPossibleError(STOPPED)
    waiting = _unhandled(cluster, annotation)
    if waiting:
        raise NotPossibleError(
            f"the request {waiting} in the annotation {GROUP}/{annotation} was not begun yet: "
            "wait for it, or remove the annotation"
        )


def _unhandled(cluster: KubeObject, annotation: str) -> str:
    """Return the request that the annotation holds and nobody has dealt with, empty when none."""
    annotations = cluster["metadata"].get("annotations") or {}
    value = str(annotations.get(f"{GROUP}/{annotation}", ""))
    present = value.split(",")[0].strip()
    status = status_of(cluster)
    known = {h.request for h in status.handled_requests if h.annotation == annotation}
    known |= {done.request for done in status.last_operations}
    if status.operation is not None:
        known.add(status.operation.request)
    refused = any(c.type == "RequestsValid" and c.status == "False" for c in status.conditions)
    return "" if present in known or refused else present
