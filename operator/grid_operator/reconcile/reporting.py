"""Asks for the Events of what is missing or stuck, which nothing but Events explains."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_operator.decide.reports import asked_about, read_events, unreadable
from grid_operator.ports.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed
    from grid_operator.ports.api import Kube

LIMIT_S: Final = 2.0
"""For the answer. What is decided afterwards is decided on pods and members as they were before."""


async def fetch_reports(kube: Kube, observed: Observed, now: datetime) -> Mapping[str, str]:
    """Return what Kubernetes reports, by the name of the pod, claim or Job that it is about."""

    async def of(obj: KubeObject) -> dict[str, str]:
        try:
            async with asyncio.timeout(LIMIT_S):
                events = await kube.fetch_events(obj)
        except (Unavailable, TimeoutError):
            return {}  # nothing waits for what only explains
        return unreadable(observed, obj) if events is None else read_events(obj, events)

    reports: dict[str, str] = {}
    for found in await asyncio.gather(*(of(obj) for obj in asked_about(observed, now))):
        reports |= found
    return dict(sorted(reports.items()))
