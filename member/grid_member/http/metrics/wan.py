"""What a member tells of WAN replication in metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from grid_member.engine.wan.agreement import PublisherState
from grid_member.http.metrics.histograms import buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from grid_member.wan.figures import WanFigures

_PUBLISHER: Final = ("replication", "publisher")
_MS_PER_S: Final = 1000


def wan_metrics(figures: WanFigures) -> Iterator[Metric]:
    """Yield what is known of publishers and sources."""
    yield from _sent(figures)
    yield from _progress(figures)
    yield from _jobs(figures)
    received = CounterMetricFamily(
        "grid_wan_received_changes",
        "Changes that other clusters sent, by what became of them.",
        labels=["source", "result"],
    )
    for source, results in sorted(figures.received.items()):
        for result, count in sorted(results.items()):
            received.add_metric([source, result], count)
    yield received
    yield GaugeMetricFamily(
        "grid_wan_tombstones",
        "Removed keys of replicated maps that are remembered.",
        figures.tombstones(),
    )


def _sent(figures: WanFigures) -> Iterator[Metric]:
    connected = GaugeMetricFamily(
        "grid_wan_connected",
        "1 while the target answers this member, on members that send.",
        labels=_PUBLISHER,
    )
    blocked = GaugeMetricFamily(
        "grid_wan_blocked_maps", "Maps whose changes the target refuses.", labels=_PUBLISHER
    )
    changes = CounterMetricFamily(
        "grid_wan_sent_changes", "Changes that the target has taken.", labels=_PUBLISHER
    )
    sent_bytes = CounterMetricFamily(
        "grid_wan_sent_bytes", "Bytes of the batches that were answered.", labels=_PUBLISHER
    )
    durations = HistogramMetricFamily(
        "grid_wan_batch_duration_seconds",
        "From when a batch was sent until it was answered.",
        labels=_PUBLISHER,
    )
    for name, found in figures.shown():
        if found.lanes:  # another member has the connection if this one does not send
            connected.add_metric(name, int(found.connected))
            blocked.add_metric(name, len(found.blocked))
        changes.add_metric(name, found.sent_changes)
        sent_bytes.add_metric(name, found.sent_bytes)
        durations.add_metric(name, buckets(found.batches), found.batches.sum_s)
    yield from (connected, blocked, changes, sent_bytes, durations)


def _progress(figures: WanFigures) -> Iterator[Metric]:
    queued = GaugeMetricFamily(
        "grid_wan_queued_keys",
        "Keys that this member took in and the target has not got.",
        labels=_PUBLISHER,
    )
    by_all = GaugeMetricFamily(
        "grid_wan_queued_keys_all", "The same of all members.", labels=_PUBLISHER
    )
    lag = GaugeMetricFamily(
        "grid_wan_lag_seconds",
        "The age of the oldest change that the target has not got.",
        labels=_PUBLISHER,
    )
    states = GaugeMetricFamily(
        "grid_wan_state",
        "1 for the state that the publisher is in on this member.",
        labels=[*_PUBLISHER, "state"],
    )
    unsynced = GaugeMetricFamily(
        "grid_wan_needs_sync",
        "Maps of which the target may miss changes that are in no queue.",
        labels=_PUBLISHER,
    )
    for name, _ in figures.shown():
        look = figures.look(name)
        if look is None:
            continue
        queued.add_metric(name, look.queued)
        by_all.add_metric(name, look.queued_by_all)
        lag.add_metric(name, look.lag_ms / _MS_PER_S)
        unsynced.add_metric(name, figures.unsynced(name))
        for state in PublisherState:
            states.add_metric([*name, state.value], int(state is look.state))
    yield from (queued, by_all, lag, states, unsynced)


def _jobs(figures: WanFigures) -> Iterator[Metric]:
    progress = GaugeMetricFamily(
        "grid_wan_job_progress",
        "The part of the publisher's synchronisation or check that is done, from 0 to 1.",
        labels=_PUBLISHER,
    )
    differences = GaugeMetricFamily(
        "grid_wan_check_differences",
        "Keys that differed in the last consistency checks of all maps.",
        labels=_PUBLISHER,
    )
    for name, _ in figures.shown():
        done, found = figures.jobs(name)
        if done is not None:
            progress.add_metric(name, done)
        if found is not None:
            differences.add_metric(name, found)
    yield from (progress, differences)
