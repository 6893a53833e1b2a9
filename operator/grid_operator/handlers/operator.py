"""Runs the operator: kopf's watches, the work queue, and the liveness endpoint."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Final

import kopf

from grid_operator.handlers.registry import make_registry
from grid_operator.handlers.settings import make_settings
from grid_operator.ports.kube import KubeClient
from grid_operator.ports.kube_rest import KubeRest
from grid_operator.ports.member import MemberClient
from grid_operator.reconcile.queue import WorkQueue
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler

LOG: Final = logging.getLogger(__name__)

FALLBACK_NAMESPACE: Final = "default"


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
    health_url: str
    """Where the liveness endpoint listens, as an http URL with port and path."""


async def run_operator(options: OperatorOptions) -> None:
    """Run until a stop signal.

    Raises:
        Rejected: There is no usable Kubernetes configuration.
    """
    rest = await KubeRest.connect(options.kubeconfig, options.context)
    try:
        async with MemberClient() as members:
            await _run(options, rest, members)
    finally:
        LOG.info("stopped after %d API writes", rest.writes)
        await rest.close()


async def _run(options: OperatorOptions, rest: KubeRest, members: MemberClient) -> None:
    home = options.own_namespace or rest.default_namespace or FALLBACK_NAMESPACE
    namespaces = () if options.all_namespaces else options.namespaces or (home,)
    LOG.info("serving %s", "all namespaces" if options.all_namespaces else ", ".join(namespaces))
    reconciler = Reconciler(KubeClient(rest, options.own_name), members, home)
    queue: WorkQueue[ClusterKey] = WorkQueue(
        reconciler.reconcile,
        random.Random(),  # noqa: S311 - jitter
    )
    registry = make_registry(
        queue.add,
        rest.credentials,
        {
            "apiWrites": lambda: rest.writes,
            "apiReads": lambda: rest.calls["GET"],
            "clusters": lambda: len(queue),
            "reconciling": lambda: queue.running,
        },
    )
    watching = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=make_settings(),
            clusterwide=options.all_namespaces,
            namespaces=namespaces,
            liveness_endpoint=options.health_url,
        ),
        name="kopf",
    )
    working = asyncio.create_task(queue.run(), name="queue")
    try:
        done, _ = await asyncio.wait([watching, working], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (watching, working):
            task.cancel()
        await asyncio.gather(watching, working, return_exceptions=True)
    for task in done:
        task.result()
