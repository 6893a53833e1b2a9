"""A Lease (coordination.k8s.io) that at most one operator holds.

A holder renews it every few seconds. One that has not managed to for `RENEW_LIMIT_S` takes itself
for deposed; others wait `DURATION_S` without a renewal, by their own clocks, before they take it.
The difference is for clocks that run at different speeds. No clock is compared with another's.

Source: the algorithm of client-go's leader election.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import Conflict, OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject
    from grid_operator.ports.kubernetes.rest import KubeRest

DURATION_S: Final = 15
RENEW_LIMIT_S: Final = 10.0
"""From the beginning of the last renewal that succeeded; then the holder stops."""
RETRY_S: Final = 2.0
"""Between two attempts to take it or renew it."""
REQUEST_TIMEOUT_S: Final = 4.0
"""For each request about it: two may fail within `RENEW_LIMIT_S`."""


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """The URL path of all Leases of the namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The URL path of the Lease."""
        return f"{self.collection}/{self.name}"


class Lease:
    """One candidate's view of the Lease."""

    def __init__(
        self, rest: KubeRest, name: LeaseName, identity: str, steady_s: Callable[[], float]
    ) -> None:
        """Make a candidate that holds nothing.

        Args:
            rest: A connection of its own, so that no other request delays a renewal.
            name: The Lease.
            identity: Tells this process from all others, also from its own restarts.
            steady_s: Seconds that pass while this process, or the machine, is stopped.
        """
        self.holder = ""
        """Who holds it, as far as is known."""
        self._rest = rest
        self._name = name
        self._identity = identity
        self._steady_s = steady_s
        self._renewed_s: float | None = None
        self._seen: tuple[object, ...] = ()
        self._seen_s = 0.0

    def held(self) -> bool:
        """Return whether this candidate holds it now and nobody else can."""
        renewed_s = self._renewed_s
        return renewed_s is not None and self._steady_s() - renewed_s < RENEW_LIMIT_S

    async def attempt(self) -> bool:
        """Take the Lease if it is free, or renew it; return whether it is held now.

        Raises:
            OperatorError: The API server was in the way; what was held before may be held still.
        """
        began_s = self._steady_s()
        live = await self._rest.get(self._name.path)
        try:
            if live is None:
                await self._rest.create(self._name.collection, self._object({}, {}))
            elif self._may_take(live, began_s):
                spec = live.get("spec") or {}
                await self._rest.replace(self._name.path, self._object(live["metadata"], spec))
            else:
                self._renewed_s = None
                return False
        except Conflict:  # another candidate was faster
            return self.held()
        self.holder = self._identity
        self._renewed_s = began_s
        return True

    async def release(self) -> None:
        """Give the Lease back at once, if it is held; nobody has to wait for its end then."""
        if not self.held():
            return
        self._renewed_s = None
        try:
            live = await self._rest.get(self._name.path)
            if live is None or live.get("spec", {}).get("holderIdentity") != self._identity:
                return
            spec = {**live["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._rest.replace(self._name.path, {**live, "spec": spec})
        except OperatorError:
            return  # it ends by itself

    def _may_take(self, live: KubeObject, now_s: float) -> bool:
        spec = live.get("spec") or {}
        self.holder = str(spec.get("holderIdentity") or "")
        seen = (self.holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_s = seen, now_s
        if self.holder in ("", self._identity):
            return True
        duration_s = max(float(spec.get("leaseDurationSeconds") or 0), DURATION_S)
        return now_s - self._seen_s > duration_s

    def _object(self, metadata: KubeObject, spec: KubeObject) -> KubeObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = spec.get("holderIdentity") == self._identity
        acquired = spec.get("acquireTime") if mine else None
        transitions = int(spec.get("leaseTransitions") or 0)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "name": self._name.name, "namespace": self._name.namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": transitions if mine or not spec else transitions + 1,
            },
        }
