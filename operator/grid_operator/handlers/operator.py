"""Runs the operator: its two ports, the election, the watches and the work queue.

kopf runs the life of the work: its start, and its end by a stop signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import kopf

from grid_operator.handlers.election import Election
from grid_operator.handlers.feeding import QueueFeed, forgetting
from grid_operator.handlers.hearing import HEARING_LIMIT_S, Hearing
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
from grid_operator.handlers.watching import WatchPace, run_watches, watch_targets
from grid_operator.ports.clock import steady_s
from grid_operator.ports.kubernetes.client import KubeClient
from grid_operator.ports.kubernetes.lease import REQUEST_TIMEOUT_S, Lease, LeaseName
from grid_operator.ports.kubernetes.rest import KubeRest
from grid_operator.ports.kubernetes.watch import KubeWatch
from grid_operator.ports.members.client import MemberClient
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.queue import WorkQueue
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

LOG: Final = logging.getLogger(__name__)

FALLBACK_NAMESPACE: Final = "default"
IDENTITY_BYTES: Final = 4
STOP_S: Final = 4.0
"""What is under way when the work ends is cancelled, and waited for no longer than this."""
RELEASE_S: Final = 3.0
"""For giving the Lease back; one that is not given back ends by itself."""


@dataclass(frozen=True, slots=True)
class OperatorPace:
    """The times of an operator that its tests shorten."""

    watch: WatchPace = field(default_factory=WatchPace)
    hearing_limit_s: float = HEARING_LIMIT_S


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


async def run_operator(
    options: OperatorOptions,
    stopping: Callable[[], None] = lambda: None,
    pace: OperatorPace | None = None,
) -> None:
    """Run until a stop signal.

    Args:
        options: What it serves, and how.
        stopping: Called when its work ends, whatever ended it.
        pace: Its times; None: the usual ones.

    Raises:
        Rejected: There is no usable Kubernetes configuration, or no right to the Lease.
        Deposed: Another operator holds the Lease now.
        Unheard: No watch has heard anything for too long.
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
        operator = _Operator(options, home, rest, members, metrics, pace or OperatorPace())
        await operator.serve(stack, election)
        if election is not None:
            await election.win()
        try:
            await operator.work(*(() if election is None else (election.guard,)))
        finally:
            stopping()
            if election is not None:
                await _release(election)


async def _release(election: Election) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RELEASE_S):
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
        pace: OperatorPace,
    ) -> None:
        self._options = options
        self._pace = pace
        self._namespaces = () if options.all_namespaces else options.namespaces or (home,)
        self._rest = rest
        self._metrics = metrics
        surroundings = Surroundings(
            home,
            serves_all=options.all_namespaces,
            may_act=lambda: rest.may_write(),
            clusters=metrics.clusters,
        )
        reconciler = Reconciler(KubeClient(rest, options.own_name), members, surroundings)
        self._rng = rng = random.Random()  # noqa: S311 - jitter
        self._hearing = Hearing(steady_s, metrics, pace.hearing_limit_s)
        look = forgetting(reconciler.reconcile, self._hearing)
        self._queue: WorkQueue[ClusterKey] = WorkQueue(look, rng, metrics=metrics)

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
            "hearing": self._hearing.shown,
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
            serving(
                *(EVERY_ADDRESS, health_port, HEALTH_PATH),
                health_handler(shown, self._hearing.hears),
            )
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
        begun, ending = asyncio.Event(), asyncio.Event()
        # kopf ends all tasks that came after it began. These come before.
        tasks = [
            asyncio.create_task(self._queue.run(), name="queue"),
            asyncio.create_task(ending.wait(), name="stop signal"),
            *(asyncio.create_task(guard(), name="guard") for guard in guards),
        ]
        try:
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(self._live(begun, ending), name="kopf"))
            tasks.append(asyncio.create_task(self._watch(begun), name="watches"))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _stop(tasks)
            LOG.info("stopped after %d API writes", self._rest.writes)
        for task in done:
            task.result()

    async def _live(self, begun: asyncio.Event, ending: asyncio.Event) -> None:
        """Let kopf run; return some time after a stop signal."""
        await kopf.operator(
            registry=make_registry(begun.set, ending.set),
            settings=make_settings(),
            # Without one kopf looks up the names of the user, which not every pod has, and of the
            # host, which stops the event loop for as long as a name service does not answer.
            identity=cast("Any", self._options.own_name),
            clusterwide=self._options.all_namespaces,
            namespaces=self._namespaces,
        )

    async def _watch(self, begun: asyncio.Event) -> None:
        """Watch until cancelled.

        Raises:
            Unheard: Nothing has been heard for too long.
        """
        await begun.wait()
        pace = self._pace.watch
        targets = list(watch_targets(self._namespaces or (None,)))
        feed = QueueFeed(self._queue, self._metrics)
        async with (
            KubeWatch.connected(
                self._rest.credentials, request_s=pace.request_s, grace_s=pace.grace_s
            ) as port,
            run_watches(targets, port, feed, self._hearing, self._rng, pace),
        ):
            await self._hearing.guard()


async def _stop(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end, within limits."""
    for task in tasks:
        task.cancel()
    _, late = await asyncio.wait(tasks, timeout=STOP_S)
    for task in late:
        LOG.warning("%s has not ended in %g s and is left", task.get_name(), STOP_S)
