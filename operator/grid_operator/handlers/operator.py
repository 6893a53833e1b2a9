"""Runs the operator: its two ports, the election, kopf's watches and the work queue."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import kopf

from grid_operator.handlers.election import Election
from grid_operator.handlers.registry import make_registry
from grid_operator.handlers.serving import (
    EVERY_ADDRESS,
    HEALTH_PATH,
    METRICS_PATH,
    health_handler,
    metrics_handler,
    serving,
)
from grid_operator.handlers.settings import make_settings
from grid_operator.handlers.watching import WatchAges, connect
from grid_operator.ports.clock import steady_s
from grid_operator.ports.kube import KubeClient
from grid_operator.ports.kube_rest import KubeRest
from grid_operator.ports.lease import REQUEST_TIMEOUT_S, Lease, LeaseName
from grid_operator.ports.member import MemberClient
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.queue import WorkQueue
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

LOG: Final = logging.getLogger(__name__)

FALLBACK_NAMESPACE: Final = "default"
IDENTITY_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What the command line and the environment say."""

    kubeconfig: str | None
    """None: the pod's service account."""
    context: str | None
    namespaces: tuple[str, ...]
    all_namespaces: bool
    own_namespace: str | None
    """Where the operator's pod runs; None outside of a cluster."""
    own_name: str
    health_port: int
    """Of GET /healthz; 0: any free port."""
    metrics_port: int | None
    """Of GET /metrics; None: nowhere."""
    lease: str | None
    """Name of the Lease, in the operator's own namespace; None: it works without one."""


async def run_operator(options: OperatorOptions) -> None:
    """Run until a stop signal.

    Raises:
        Rejected: There is no usable Kubernetes configuration, or no right to the Lease.
        Deposed: Another operator holds the Lease now.
    """
    metrics = OperatorMetrics()
    async with contextlib.AsyncExitStack() as stack:
        rest = await stack.enter_async_context(_connection(options, metrics))
        home = options.own_namespace or rest.default_namespace or FALLBACK_NAMESPACE
        election = None
        if options.lease is not None:
            own = await stack.enter_async_context(
                _connection(options, metrics, timeout_s=REQUEST_TIMEOUT_S)
            )
            election = _election(own, LeaseName(home, options.lease), options.own_name)
            rest.may_write = lambda: election.holds
        members = await stack.enter_async_context(MemberClient(metrics=metrics))
        operator = _Operator(options, home, rest, members, metrics)
        await operator.serve(stack, election)
        if election is None:
            await operator.work()
            return
        await election.win()
        try:
            await operator.work(election.guard)
        finally:
            await election.release()


@contextlib.asynccontextmanager
async def _connection(
    options: OperatorOptions, metrics: OperatorMetrics, **more: float
) -> AsyncIterator[KubeRest]:
    rest = await KubeRest.connect(options.kubeconfig, options.context, metrics, **more)
    try:
        yield rest
    finally:
        await rest.close()


def _election(rest: KubeRest, name: LeaseName, own_name: str) -> Election:
    # The pod's name alone is not enough: its container may be restarted.
    identity = f"{own_name}_{secrets.token_hex(IDENTITY_BYTES)}"
    rng = random.Random()  # noqa: S311 - jitter
    return Election(Lease(rest, name, identity, steady_s), rng)


class _Operator:
    """The parts of one running operator."""

    def __init__(
        self,
        options: OperatorOptions,
        home: str,
        rest: KubeRest,
        members: MemberClient,
        metrics: OperatorMetrics,
    ) -> None:
        self._options = options
        self._namespaces = () if options.all_namespaces else options.namespaces or (home,)
        self._rest = rest
        self._metrics = metrics
        surroundings = Surroundings(
            home, serves_all=options.all_namespaces, may_act=lambda: rest.may_write()
        )
        reconciler = Reconciler(KubeClient(rest, options.own_name), members, surroundings)
        rng = random.Random()  # noqa: S311 - jitter
        self._queue: WorkQueue[ClusterKey] = WorkQueue(reconciler.reconcile, rng, metrics=metrics)

    async def serve(self, stack: contextlib.AsyncExitStack, election: Election | None) -> None:
        """Open the operator's own ports until the stack is left."""
        rest, queue = self._rest, self._queue

        def holds() -> bool:
            return election is None or election.holds

        shown: dict[str, Callable[[], object]] = {
            "apiWrites": lambda: rest.writes,
            "apiReads": lambda: rest.calls["GET"],
            "clusters": lambda: len(queue),
            "reconciling": lambda: queue.running,
            "leader": holds,
        }
        metrics = self._metrics
        metrics.show(
            "queue_depth", "Keys that are due and wait for a worker.", lambda: queue.waiting
        )
        metrics.show("clusters", "GridClusters that are known.", lambda: len(queue))
        metrics.show("reconciling", "Reconciles under way.", lambda: queue.running)
        metrics.show("leader", "1 while this operator may work.", lambda: float(holds()))
        health_port = self._options.health_port
        await stack.enter_async_context(
            serving(EVERY_ADDRESS, health_port, HEALTH_PATH, health_handler(shown))
        )
        if self._options.metrics_port is not None:
            handler = metrics_handler(metrics.registry)
            await stack.enter_async_context(
                serving(EVERY_ADDRESS, self._options.metrics_port, METRICS_PATH, handler)
            )

    async def work(self, *guards: Callable[[], Coroutine[None, None, None]]) -> None:
        """Watch and reconcile until a stop signal, or until a guard ends; then nothing runs."""
        everywhere = self._options.all_namespaces
        LOG.info("serving %s", "all namespaces" if everywhere else ", ".join(self._namespaces))
        tasks = [
            asyncio.create_task(self._queue.run(), name="queue"),
            *(asyncio.create_task(guard(), name="guard") for guard in guards),
        ]
        # When it stops, kopf waits 5 seconds for all tasks that came after it began. These come
        # before, with those that they make in their first turn.
        try:
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(self._watch(), name="kopf"))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            LOG.info("stopped after %d API writes", self._rest.writes)
        for task in done:
            task.result()

    async def _watch(self) -> None:
        await kopf.operator(
            registry=self._registry(),
            settings=make_settings(),
            clusterwide=self._options.all_namespaces,
            namespaces=self._namespaces,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        ages = WatchAges(steady_s, self._metrics)

        async def log_in() -> kopf.AiohttpSession:
            return connect(await self._rest.credentials(), ages)

        return make_registry(self._queue.add, log_in, self._metrics.watch_event)
