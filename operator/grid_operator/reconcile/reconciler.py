"""One reconcile: observe, render, decide, apply, write the status, and then call a member.

Every trigger calls the same `reconcile`; of one cluster nothing is remembered between two calls but
Events that are still to be told. An operator that dies at any line below does the rest the next
time: each step is found undone again, and a call is sent again under the same key.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.names import SHUTDOWN_FINALIZER, data_claim_name
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.api.phase import is_restoring
from grid_operator.decide.children.drift import is_same_rendering
from grid_operator.decide.decision import decide
from grid_operator.decide.events import drift_event
from grid_operator.decide.model import Decision, Observed
from grid_operator.decide.pods import has_address
from grid_operator.ports.clock import steady_s
from grid_operator.ports.cluster_metrics import ClusterCollector
from grid_operator.ports.errors import NotReady, Rejected
from grid_operator.reconcile.admissions import Admissions
from grid_operator.reconcile.calling import Caller
from grid_operator.reconcile.contests import Contests
from grid_operator.reconcile.materials import MaterialSource, new_password
from grid_operator.reconcile.outbox import Outbox
from grid_operator.reconcile.ownership import (
    STATEFUL_SET,
    check_may_take,
    check_names_are_free,
    has_orphans,
    job_pods,
    member_pods,
    unlabelled_statefulset,
)
from grid_operator.reconcile.pruning import Pruning
from grid_operator.reconcile.refusal import (
    invalid_cluster_status,
    previous_status,
    refused_status,
    told_events,
    waiting_status,
)
from grid_operator.reconcile.reporting import fetch_reports
from grid_operator.render import desired_state
from grid_operator.render.volumes import is_unlabelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.status import GridClusterStatus
    from grid_operator.decide.model import ClusterEvent, MemberProblem, MemberView
    from grid_operator.ports.api import Kube, MemberAccess, Members
    from grid_operator.reconcile.materials import Materials

LOG: Final = logging.getLogger(__name__)

REFUSED_REQUEUE_S: Final = 60.0
"""A refusal seldom goes away by itself: a quota is raised, a webhook is repaired."""
AT_ONCE_S: Final = 0.0
ADMITTED_FIELD: Final = "status.admitted"


@dataclass(frozen=True, slots=True, order=True)
class ClusterKey:
    """Names one GridCluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def utc_now() -> datetime:
    """Return the time now: the clock outside of tests."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an operator works, and by which clocks and chances."""

    operator_namespace: str
    """Where its pods run."""
    serves_all: bool = False
    """It has rights in all namespaces, which do not vanish together with one."""
    now: Callable[[], datetime] = utc_now
    steady_s: Callable[[], float] = steady_s
    make_password: Callable[[], str] = field(default=new_password, repr=False)
    may_act: Callable[[], bool] = lambda: True
    """Whether this operator may change anything now: it holds its Lease, or needs none."""
    clusters: ClusterCollector = field(default_factory=ClusterCollector)
    """Shows what each cluster is like."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What was observed of one cluster."""

    live: KubeObject
    observed: Observed
    materials: Materials


class Reconciler:
    """Brings one cluster at a time closer to its spec."""

    def __init__(self, kube: Kube, members: Members, surroundings: Surroundings) -> None:
        self._kube = kube
        self._members = members
        self._where = surroundings
        self._now = surroundings.now
        self._materials = MaterialSource(
            kube, surroundings.operator_namespace, surroundings.make_password
        )
        self._outbox = Outbox(kube, surroundings.steady_s)
        self._admissions = Admissions(kube, surroundings.steady_s)
        self._contests = Contests(surroundings.steady_s)
        self._pruning = Pruning(surroundings.steady_s)
        self._caller = Caller(
            kube, members, surroundings.now, surroundings.steady_s, surroundings.may_act
        )

    async def reconcile(self, key: ClusterKey) -> float | None:
        """Do what can be done now.

        Returns:
            Seconds until the next look, None when there is no such cluster (any more).

        Raises:
            OperatorError: The API server was in the way; the work queue decides when to retry.
        """
        live = await self._kube.fetch_cluster(key.namespace, key.name)
        if live is None:
            self._where.clusters.forget(key.namespace, key.name)
            return None  # owner references let Kubernetes remove the children
        try:
            cluster = GridCluster.from_kube(live)
        except InvalidClusterError as error:
            content = invalid_cluster_status(live, error, self._now())
            await self._let_go(await self._write_content(live, content))
            return REFUSED_REQUEUE_S
        try:
            seen = await self._observe(live, cluster)
        except Rejected as refusal:
            before = self._admissions.told(live, previous_status(live))
            return await self._report_refusal(live, before, refusal, ())
        return await self._bring_closer(seen)

    async def _let_go(self, live: KubeObject) -> None:
        """Hold up no deletion of a GridCluster that this operator cannot read."""
        held = live["metadata"].get("finalizers") or []
        if live["metadata"].get("deletionTimestamp") and SHUTDOWN_FINALIZER in held:
            others = tuple(name for name in held if name != SHUTDOWN_FINALIZER)
            await self._kube.set_finalizers(live, others)

    async def _observe(self, live: KubeObject, cluster: GridCluster) -> _Round:
        status = self._admissions.told(live, cluster.status)
        cluster = cluster.model_copy(update={"status": status})
        children, labelled, claims = await asyncio.gather(
            self._kube.fetch_children(live),
            self._kube.fetch_pods(live),
            self._kube.fetch_claims(live),
        )
        children += await unlabelled_statefulset(self._kube, live, children)
        claims += await self._fetch_unlabelled_claims(cluster, claims)
        pods = member_pods(labelled, children)
        has_pods = bool(pods) or has_orphans(labelled, cluster)
        materials = await self._materials.gather(cluster, children, pods, claims, has_pods=has_pods)
        namespace = cluster.metadata.namespace
        deleted = cluster.metadata.deletion_timestamp is not None
        observed = Observed(
            cluster=cluster,
            children=tuple(children),
            pods=tuple(pods),
            members=await self._ask_members(pods, materials.access),
            claims=tuple(claims),
            job_pods=tuple(job_pods(labelled, children)),
            contested=self._contests.contested(live),
            held=self._contests.held(live),
            dropped=self._pruning.dropped(live),
            may_hold=self._where.serves_all and namespace != self._where.operator_namespace,
            namespace_terminating=deleted and await self._kube.is_terminating(namespace),
        )
        reports = await fetch_reports(self._kube, observed, self._now())
        return _Round(live, replace(observed, reports=reports), materials)

    async def _fetch_unlabelled_claims(
        self, cluster: GridCluster, labelled: list[KubeObject]
    ) -> list[KubeObject]:
        """Return claims under members' names that somebody made before there were members.

        They are given the label in this round, so that in later rounds nothing is asked here.
        """
        if not cluster.spec.persistence.enabled or is_restoring(cluster):
            return []
        meta, known = cluster.metadata, {claim["metadata"]["name"] for claim in labelled}
        names = (data_claim_name(meta.name, ordinal) for ordinal in range(cluster.spec.size))
        refs = [
            ObjectRef("v1", "PersistentVolumeClaim", meta.namespace, name)
            for name in names
            if name not in known
        ]
        found = await asyncio.gather(*map(self._kube.fetch, refs))
        return [claim for claim in found if claim is not None and is_unlabelled(claim)]

    async def _bring_closer(self, seen: _Round) -> float:
        live, observed = seen.live, seen.observed
        desired = desired_state(observed.cluster, seen.materials.context)
        decision = decide(observed, desired, self._now())
        try:
            await self._perform(live, observed, decision)
        except Rejected as refusal:
            decided = self._admissions.told(live, decision.status)
            return await self._report_refusal(live, decided, refusal, decision.events)
        except NotReady as missing:
            decided = self._admissions.told(live, decision.status)
            await self._write_status(live, waiting_status(live, decided, missing, self._now()))
            raise
        intended_s = self._where.steady_s()
        status = self._admissions.told(live, decision.status)
        written = await self._write_status(live, status)
        self._outbox.put(live, decision.events)
        delay_s = decision.requeue_after_s
        if decision.call is not None:
            delay_s = await self._caller.carry_out(
                written, status, decision.call, seen.materials.access, intended_s
            )
        elif decision.finalizers not in (None, observed.cluster.metadata.finalizers):
            delay_s = await self._set_finalizers(written, decision.finalizers)
        await self._outbox.send(live)
        return delay_s

    async def _set_finalizers(self, live: KubeObject, finalizers: tuple[str, ...]) -> float:
        """Set them; return the seconds until the next look."""
        try:
            await self._kube.set_finalizers(live, finalizers)
        except Rejected as refusal:
            # The right to do so went with the rights in all namespaces; all else goes on.
            LOG.warning("%s: its finalizers stay: %s", ObjectRef.of(live), refusal)
            return REFUSED_REQUEUE_S
        return AT_ONCE_S

    async def _report_refusal(
        self,
        live: KubeObject,
        decided: GridClusterStatus,
        refusal: Rejected,
        events: tuple[ClusterEvent, ...],
    ) -> float:
        LOG.warning("%s: %s", ObjectRef.of(live), refusal)
        status = refused_status(live, decided, refusal, self._now())
        await self._write_status(live, status)
        self._outbox.put(live, told_events(live, status, events, refusal))
        await self._outbox.send(live)
        return REFUSED_REQUEUE_S

    async def _ask_members(
        self, pods: list[KubeObject], access: MemberAccess
    ) -> dict[str, MemberView | MemberProblem]:
        with_address = [pod for pod in pods if has_address(pod)]
        views = await asyncio.gather(
            *(self._members.fetch_view(pod, access) for pod in with_address)
        )
        names = (pod["metadata"]["name"] for pod in with_address)
        return dict(zip(names, views, strict=True))

    async def _perform(self, live: KubeObject, observed: Observed, decision: Decision) -> None:
        known = {ObjectRef.of(obj): obj for obj in (*observed.children, *observed.claims)}
        status = decision.status
        for child in decision.apply:
            ref = ObjectRef.of(child)
            current = known.get(ref) or await self._taken(live, child, status)
            if current is None or is_same_rendering(child, current):
                self._contests.note(live, ref)
            await self._admissions.write(live, child, current)
            LOG.info("%s: applied %s", ObjectRef.of(live), ref)
        for child in decision.ask_again if not decision.apply else ():
            await self._admissions.ask_again(live, status, child, known[ObjectRef.of(child)])
        for ref, uid in (
            *((ref, known[ref]["metadata"]["uid"]) for ref in decision.delete),
            *((ObjectRef.of(pod), pod["metadata"]["uid"]) for pod in decision.delete_pods),
        ):
            await self._kube.delete(ref, uid)
            LOG.info("%s: deleted %s", ObjectRef.of(live), ref)

    async def _taken(
        self, live: KubeObject, child: KubeObject, status: GridClusterStatus
    ) -> KubeObject | None:
        """Return what is there under a child's name and was not among the children.

        Somebody took its label or its owner away; or there is nothing.

        Raises:
            NotReady, Rejected: It belongs to somebody else.
        """
        ref = ObjectRef.of(child)
        found = await self._kube.fetch(ref)
        check_may_take(ref, found, live)
        if found is None and child["kind"] == STATEFUL_SET:
            check_names_are_free(await self._kube.fetch_pods(live), live, self._now())
        if found is not None and is_same_rendering(child, found):
            self._outbox.put(live, [drift_event(child, found, status)])
        return found

    async def _write_status(self, live: KubeObject, status: GridClusterStatus) -> KubeObject:
        """Write the status if it says something else than before; return the cluster as it is."""
        written = await self._write_content(live, status.to_kube())
        if ADMITTED_FIELD not in (self._pruning.dropped(live) or ()):
            self._admissions.forget(live)
        return written

    async def _write_content(self, live: KubeObject, content: KubeObject) -> KubeObject:
        self._where.clusters.note(live, content)
        if self._pruning.is_written(live, content):
            return live
        written = await self._kube.apply_status(live, content)
        self._pruning.note(written, content)
        LOG.debug("%s: status written", ObjectRef.of(live))
        return written
