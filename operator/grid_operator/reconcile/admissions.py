"""What admission makes of children: noted after a write, looked at again once in a while.

The notes are in the status of the GridCluster. Between a write of a child and the status that
tells of it they are kept here, so that a status that could not be written costs no second write.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_operator.api.objects import ObjectRef
from grid_operator.decide.children.admission import admitted_fields, object_name, with_admitted
from grid_operator.reconcile.writing import would_differ, write_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import AdmittedField, GridClusterStatus
    from grid_operator.ports.api import Kube

LOG: Final = logging.getLogger(__name__)

PROBE_PERIOD_S: Final = 300.0
"""Between two questions whether the API server would still keep a field otherwise. The first one
comes so long after the operator first saw that it does."""
MAX_CLUSTERS: Final = 2_000
MAX_CHILDREN: Final = 10_000
"""Whose time is remembered; of others it begins anew."""
CLAIM_TEMPLATES: Final = "volumeClaimTemplates"


class Admissions:
    """Writes children and notes what the API server keeps otherwise."""

    def __init__(self, kube: Kube, steady_s: Callable[[], float]) -> None:
        """Know of nothing; `steady_s` is a monotonic clock, in seconds."""
        self._kube = kube
        self._steady_s = steady_s
        self._untold: dict[str, dict[str, tuple[AdmittedField, ...]]] = {}
        """By uid of the GridCluster and name of the child."""
        self._asked: dict[ObjectRef, float] = {}

    def told(self, cluster: KubeObject, status: GridClusterStatus) -> GridClusterStatus:
        """Return the status with all that is known."""
        untold = self._untold.get(cluster["metadata"]["uid"])
        if untold is None:
            return status
        fields = status.admitted or ()
        for name, found in untold.items():
            fields = with_admitted(fields, name, found)
        return status.model_copy(update={"admitted": fields or None})

    def forget(self, cluster: KubeObject) -> None:
        """Keep nothing more of a cluster: its status tells all."""
        self._untold.pop(cluster["metadata"]["uid"], None)

    async def write(self, cluster: KubeObject, child: KubeObject, live: KubeObject | None) -> None:
        """Write one child and note what the API server keeps otherwise."""
        left = await write_child(self._kube, child, applied_form(child, live), live)
        fields = admitted_fields(child, left)
        uid = cluster["metadata"]["uid"]
        if uid not in self._untold and len(self._untold) >= MAX_CLUSTERS:
            del self._untold[next(iter(self._untold))]
        self._untold.setdefault(uid, {})[object_name(child)] = fields
        if fields:
            self._asked[ObjectRef.of(child)] = self._steady_s()
            places = ", ".join(field.field for field in fields)
            LOG.info("%s: kept otherwise by the API server: %s", ObjectRef.of(child), places)

    async def ask_again(
        self,
        cluster: KubeObject,
        status: GridClusterStatus,
        child: KubeObject,
        live: KubeObject,
    ) -> None:
        """Write a child if its time has come and the API server would keep less of it otherwise."""
        if not self._is_due(ObjectRef.of(child)):
            return
        places = await would_differ(self._kube, child, applied_form(child, live))
        name = object_name(child)
        noted = {field.field for field in status.admitted or () if field.object == name}
        if places is not None and noted - places:
            LOG.info("%s: no longer kept otherwise, and written", ObjectRef.of(child))
            await self.write(cluster, child, live)

    def _is_due(self, ref: ObjectRef) -> bool:
        now = self._steady_s()
        last = self._asked.pop(ref, None)
        due = last is not None and now - last >= PROBE_PERIOD_S
        self._asked[ref] = now if due or last is None else last
        while len(self._asked) > MAX_CHILDREN:
            del self._asked[next(iter(self._asked))]
        return due


def applied_form(child: KubeObject, live: KubeObject | None) -> KubeObject:
    """Return what is sent for a child.

    Of a StatefulSet with the version that was observed as its precondition: an operator that was
    held up since must not scale down what another one has started. Other children change nothing
    in what members hold. What its claims are never changes, so that of the live one is sent:
    admission may have made it otherwise when the StatefulSet was created.
    """
    if child["kind"] != "StatefulSet" or live is None:
        return child
    version = live["metadata"].get("resourceVersion")
    metadata = (
        child["metadata"] if version is None else {**child["metadata"], "resourceVersion": version}
    )
    claims = live["spec"].get(CLAIM_TEMPLATES)
    spec = child["spec"] if not claims else {**child["spec"], CLAIM_TEMPLATES: claims}
    return {**child, "metadata": metadata, "spec": spec}
