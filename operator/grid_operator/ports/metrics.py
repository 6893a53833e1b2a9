"""What the operator counts, for Prometheus. Each operator has a registry of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from grid_operator.ports.cluster_metrics import ClusterCollector

if TYPE_CHECKING:
    from collections.abc import Callable


PREFIX: Final = "grid_operator_"
RECONCILE_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
REQUEST_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)
WATCH_LABELS: Final = ("resource", "namespace")
DEFECT: Final = "defect"
"""The result of a reconcile, or the reason of a watch's restart, after an unexpected exception."""
WAIT_BUCKETS_S: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class OperatorMetrics:
    """The operator's metrics. No label but those of `clusters` holds a name that users choose."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.clusters: Final = ClusterCollector()
        self.registry.register(self.clusters)
        self._waits = self._histogram(
            "queue_wait_seconds",
            "From the time when a key was due to its reconcile.",
            (),
            WAIT_BUCKETS_S,
        )
        self._reconciles = self._histogram(
            "reconcile_duration_seconds",
            "Reconciles of one cluster, by how they ended: done, gone, not_ready, conflict, "
            "rejected, deposed, unavailable, timeout, defect.",
            ("result",),
            RECONCILE_BUCKETS_S,
        )
        # Prometheus sees no increase in a series that begins with 1.
        self._reconciles.labels(DEFECT)
        self._members = self._histogram(
            "member_request_duration_seconds",
            "Exchanges with members: the questions of one view together, or a call. Outcomes of a "
            "call: done, refused, unknown; of a view: done, problem.",
            ("endpoint", "outcome"),
            REQUEST_BUCKETS_S,
        )
        self._api = Counter(
            f"{PREFIX}api_requests_total",
            "Requests to the API server, watches left out; status 0: no answer.",
            ("verb", "status"),
            registry=self.registry,
        )
        self._events = Counter(
            f"{PREFIX}watch_events_total",
            "Events of the watches that made a key due, by resource.",
            ("resource",),
            registry=self.registry,
        )
        self._silences = Gauge(
            f"{PREFIX}watch_silence_seconds",
            "Since a watch gave a sign of life, bookmarks included; namespace *: all.",
            WATCH_LABELS,
            registry=self.registry,
        )
        self._failing = Gauge(
            f"{PREFIX}watch_failing",
            "1 while a watch is refused, broken or not answered, and begun again and again.",
            WATCH_LABELS,
            registry=self.registry,
        )
        self._restarts = Counter(
            f"{PREFIX}watch_restarts_total",
            "Times that a watch was begun again with a list, by reason: expired, refused, "
            "silent, unavailable, defect.",
            (*WATCH_LABELS, "reason"),
            registry=self.registry,
        )

    def waited(self, seconds: float) -> None:
        """Count the time that a due key waited for a worker."""
        self._waits.observe(seconds)

    def reconciled(self, result: str, seconds: float) -> None:
        """Count a reconcile."""
        self._reconciles.labels(result).observe(seconds)

    def member_asked(self, endpoint: str, outcome: str, seconds: float) -> None:
        """Count an exchange with a member."""
        self._members.labels(endpoint, outcome).observe(seconds)

    def api_called(self, verb: str, status: int) -> None:
        """Count a request to the API server."""
        self._api.labels(verb, str(status)).inc()

    def watch_event(self, resource: str) -> None:
        """Count an event of a watch."""
        self._events.labels(resource).inc()

    def show_watch(
        self,
        resource: str,
        namespace: str,
        silence_s: Callable[[], float],
        failing: Callable[[], bool],
    ) -> None:
        """Show how long a watch has been silent, and whether it fails."""
        self._silences.labels(resource, namespace).set_function(silence_s)
        self._failing.labels(resource, namespace).set_function(lambda: float(failing()))
        self._restarts.labels(resource, namespace, DEFECT)

    def watch_restarted(self, resource: str, namespace: str, reason: str) -> None:
        """Count that a watch has to be begun again."""
        self._restarts.labels(resource, namespace, reason).inc()

    def show(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Show a value that is asked for whenever somebody reads the metrics."""
        Gauge(PREFIX + name, words, registry=self.registry).set_function(value)

    def _histogram(
        self, name: str, words: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(PREFIX + name, words, labels, buckets=buckets, registry=self.registry)
