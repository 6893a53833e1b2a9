"""One reconcile: observe, render, decide, apply, and write the status if it changed.

Every trigger calls the same `reconcile`; nothing is remembered between two calls. An operator
that dies at any line below does the rest the next time, because each step is found undone again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.names import (
    OPERATOR_NAME,
    PASSWORD_KEY,
    USERNAME_KEY,
    management_secret_name,
)
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide.decision import decide
from grid_operator.decide.model import ClusterEvent, Decision, Observed
from grid_operator.ports.errors import OperatorError, Rejected
from grid_operator.reconcile.ownership import check_may_take, member_pods
from grid_operator.reconcile.refusal import (
    invalid_spec_status,
    refusal_reason,
    refused_status,
)
from grid_operator.render.children import render_children
from grid_operator.render.context import RenderContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.gridcluster import GridClusterStatus
    from grid_operator.decide.model import MemberProblem, MemberView
    from grid_operator.ports.api import Kube, Members

LOG: Final = logging.getLogger(__name__)

PASSWORD_BYTES: Final = 32
REFUSED_REQUEUE_S: Final = 60.0
"""A refusal seldom goes away by itself: a quota is raised, a webhook is repaired."""


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


class Reconciler:
    """Brings one cluster at a time closer to its spec."""

    def __init__(
        self,
        kube: Kube,
        members: Members,
        operator_namespace: str,
        now: Callable[[], datetime] = utc_now,
        make_password: Callable[[], str] = lambda: secrets.token_urlsafe(PASSWORD_BYTES),
    ) -> None:
        self._kube = kube
        self._members = members
        self._operator_namespace = operator_namespace
        self._now = now
        self._make_password = make_password

    async def reconcile(self, key: ClusterKey) -> float | None:
        """Do what can be done now.

        Returns:
            Seconds until the next look, None when there is no such cluster (any more).

        Raises:
            OperatorError: The API server was in the way; the work queue decides when to retry.
        """
        live = await self._kube.fetch_cluster(key.namespace, key.name)
        if live is None:
            return None  # owner references let Kubernetes remove the children
        try:
            cluster = GridCluster.from_kube(live)
        except InvalidClusterError as error:
            await self._write_status(live, invalid_spec_status(live, error, self._now()))
            return REFUSED_REQUEUE_S
        return await self._bring_closer(live, cluster)

    async def _bring_closer(self, live: KubeObject, cluster: GridCluster) -> float:
        children, labelled = await asyncio.gather(
            self._kube.fetch_children(live), self._kube.fetch_pods(live)
        )
        pods = member_pods(labelled, children)
        context = await self._render_context(cluster, children)
        observed = Observed(
            cluster=cluster,
            children=tuple(children),
            pods=tuple(pods),
            members=await self._ask_members(pods, context),
        )
        decision = decide(observed, render_children(cluster, context), self._now())
        uids = {ObjectRef.of(child): child["metadata"]["uid"] for child in children}
        try:
            await self._perform(live, decision, uids)
        except Rejected as refusal:
            return await self._report_refusal(live, decision.status, refusal)
        await self._write_status(live, decision.status)
        await self._record_events(live, decision.events)
        return decision.requeue_after_s

    async def _report_refusal(
        self, live: KubeObject, decided: GridClusterStatus, refusal: Rejected
    ) -> float:
        LOG.warning("%s: %s", ObjectRef.of(live), refusal)
        status = refused_status(live, decided, refusal, self._now())
        if await self._write_status(live, status):
            event = ClusterEvent("Warning", refusal_reason(refusal).value, str(refusal))
            await self._record_events(live, (event,))
        return REFUSED_REQUEUE_S

    async def _render_context(
        self, cluster: GridCluster, children: list[KubeObject]
    ) -> RenderContext:
        name = management_secret_name(cluster.metadata.name)
        ref = ObjectRef("v1", "Secret", cluster.metadata.namespace, name)
        owned = (child for child in children if ObjectRef.of(child) == ref)
        secret = next(owned, None) or await self._kube.fetch(ref)
        return RenderContext(
            operator_namespace=self._operator_namespace,
            management_username=_secret_text(secret, USERNAME_KEY) or OPERATOR_NAME,
            management_password=_secret_text(secret, PASSWORD_KEY) or self._make_password(),
        )

    async def _ask_members(
        self, pods: list[KubeObject], context: RenderContext
    ) -> dict[str, MemberView | MemberProblem]:
        with_address = [pod for pod in pods if pod.get("status", {}).get("podIP")]
        views = await asyncio.gather(
            *(
                self._members.fetch_view(
                    pod, context.management_username, context.management_password
                )
                for pod in with_address
            )
        )
        names = (pod["metadata"]["name"] for pod in with_address)
        return dict(zip(names, views, strict=True))

    async def _perform(
        self, live: KubeObject, decision: Decision, uids: dict[ObjectRef, str]
    ) -> None:
        for child in decision.apply:
            ref = ObjectRef.of(child)
            if ref not in uids:
                check_may_take(ref, await self._kube.fetch(ref), live)
            await self._kube.apply(child)
            LOG.info("%s: applied %s", ObjectRef.of(live), ObjectRef.of(child))
        for ref, uid in (
            *((ref, uids[ref]) for ref in decision.delete),
            *((ObjectRef.of(pod), pod["metadata"]["uid"]) for pod in decision.delete_pods),
        ):
            await self._kube.delete(ref, uid)
            LOG.info("%s: deleted %s", ObjectRef.of(live), ref)

    async def _record_events(self, live: KubeObject, events: tuple[ClusterEvent, ...]) -> None:
        """Record Events as far as possible: they inform people, nothing depends on them."""
        for event in events:
            LOG.info("%s: %s: %s", ObjectRef.of(live), event.reason, event.message)
            try:
                await self._kube.record_event(live, event)
            except OperatorError as error:
                LOG.warning("%s: Event %s is lost: %s", ObjectRef.of(live), event.reason, error)

    async def _write_status(self, live: KubeObject, status: GridClusterStatus) -> bool:
        """Write the status if it says something else than before; return whether it did."""
        content = status.to_kube()
        if content == live.get("status"):
            return False
        await self._kube.apply_status(live, content)
        LOG.debug("%s: status written", ObjectRef.of(live))
        return True


def _secret_text(secret: KubeObject | None, key: str) -> str:
    try:
        return base64.b64decode((secret or {}).get("data", {}).get(key, "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
