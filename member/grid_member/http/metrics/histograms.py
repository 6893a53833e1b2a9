"""Durations in the form that the client library of Prometheus takes."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from grid_member.telemetry.measurements import Durations


def buckets(durations: Durations) -> list[tuple[str, float]]:
    """Return upper bounds and how many took no longer."""
    bounds = [*map(floatToGoString, durations.bounds_s), "+Inf"]
    return list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
