"""The operator's watches: a task for each resource in each namespace; none depends on another.

A task lists, watches from where the list ended, and goes on from where each watch ended. Whatever
else happens (an answer that refuses, no answer, a broken or silent connection, nonsense, a defect
of this code), the task waits for a growing, jittered time and begins again with a list. It never
ends by itself.

Between two lists the task remembers which version of each object it has passed on. So a list, the
first one or a later one, passes on exactly the objects that changed or went without an event, and
those that the work queue has forgotten although they are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from grid_operator.api.names import API_VERSION, CLUSTER_LABEL, PLURAL
from grid_operator.ports.errors import Conflict, OperatorError, Silent, Unavailable
from grid_operator.ports.kubernetes.client import LABELLED_KINDS
from grid_operator.ports.kubernetes.watch import GRACE_S, REQUEST_S, WatchTarget

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from grid_operator.handlers.hearing import Hearing, WatchState
    from grid_operator.ports.kubernetes.watch import KubeWatch, ObjectMeta, WatchEvent

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchPace:
    """Times of a watch, in seconds."""

    life_s: tuple[int, int] = (25, 35)
    """The API server is asked to end each watch after a time between these. A connection that has
    fallen silent is noticed when its end does not come: before `HEARING_LIMIT_S` is over."""
    request_s: float = REQUEST_S
    grace_s: float = GRACE_S
    least_life_s: float = 1.0
    """A watch that ends earlier has failed; one that lasts longer works."""
    proven_s: float = 10.0
    """One that lasts so long has worked, also when it breaks then, as behind a proxy that is not
    patient with silence: failures before it do not make the next delay longer."""
    retry_first_s: float = 0.5
    retry_max_s: float = 10.0
    relist_s: float = 120.0
    """GridClusters are listed again this often: a net under events that got lost."""
    jitter: float = 0.2
    """Each delay is multiplied by a random factor in 1 ± this."""


class Sink(Protocol):
    """Where watches pass objects on to."""

    def changed(self, target: WatchTarget, meta: ObjectMeta) -> bool:
        """Take an object that is new, changed or gone; return false when there is no room.

        What was not taken is passed on again after the next list.
        """

    def has(self, target: WatchTarget, meta: ObjectMeta) -> bool:
        """Return whether the object's cluster is still looked after."""


@dataclass(slots=True)
class _Passed:
    """The objects that were passed on, by namespace and name."""

    objects: dict[tuple[str, str], ObjectMeta] = field(default_factory=dict)

    def is_news(self, meta: ObjectMeta) -> bool:
        known = self.objects.get((meta.namespace, meta.name))
        return known is None or known.version != meta.version

    def keep(self, meta: ObjectMeta) -> None:
        self.objects[meta.namespace, meta.name] = meta

    def drop(self, meta: ObjectMeta) -> None:
        self.objects.pop((meta.namespace, meta.name), None)

    def missing(self, listed: set[tuple[str, str]]) -> Iterator[ObjectMeta]:
        """Yield, and forget, the objects that a whole list does not have."""
        for key in self.objects.keys() - listed:
            yield self.objects.pop(key)


class Watch:
    """Lists and watches the objects of one resource, in one namespace or in all."""

    def __init__(
        self,
        target: WatchTarget,
        port: KubeWatch,
        sink: Sink,
        state: WatchState,
        rng: random.Random,
        pace: WatchPace,
    ) -> None:
        """Make a watch.

        Args:
            target: What to watch.
            port: The way to the API server.
            sink: Takes each object that is new, changed or gone.
            state: Notes what this watch hears and how it fails.
            rng: For the jitter.
            pace: Its times.
        """
        self._target = target
        self._port = port
        self._sink = sink
        self._state = state
        self._rng = rng
        self._pace = pace
        self._passed = _Passed()
        self._version = ""
        self._failures = 0
        self._is_doubted = False
        """Whether it was silent last, so that only a word of it shows that it works."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            error = await self._until_failure()
            expired = isinstance(error, Conflict) and self._failures == 0
            self._is_doubted = isinstance(error, Silent)
            self._state.failed(error, warn=not expired)
            await asyncio.sleep(self._delay_s(error))

    async def _until_failure(self) -> Exception:
        try:
            while True:
                await self._list()
                await self._follow()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Unavailable("the request was cancelled from outside of the watch")
        except Exception as error:
            if not isinstance(error, OperatorError):  # a defect must end neither this nor others
                LOG.exception("watch of %s", self._target)
            return error

    def _delay_s(self, error: Exception) -> float:
        pace = self._pace
        backoff_s = min(pace.retry_first_s * 2.0 ** min(self._failures, 32), pace.retry_max_s)
        self._failures += 1
        asked_s = error.retry_after_s if isinstance(error, Unavailable) else 0.0
        return self._jittered(max(backoff_s, min(asked_s, pace.retry_max_s)))

    async def _list(self) -> None:
        """Pass on what changed since the last list or event.

        Objects are passed on page by page; what is gone is known after the last page only.
        """
        listed: set[tuple[str, str]] = set()
        token = ""
        while True:
            page = await self._port.fetch_page(self._target, token)
            self._state.heard()
            for meta in page.objects:
                listed.add((meta.namespace, meta.name))
                self._pass_on(meta)
            token = page.token
            if not token:
                break
        for meta in list(self._passed.missing(listed)):
            self._sink.changed(self._target, meta)
        self._version = page.version

    async def _follow(self) -> None:
        """Watch until it is time for a list."""
        loop = asyncio.get_running_loop()
        lists = self._target.plural == PLURAL
        until_s = loop.time() + self._jittered(self._pace.relist_s) if lists else float("inf")
        while loop.time() < until_s:
            began_s = loop.time()
            await self._watch_once()
            if loop.time() - began_s < self._pace.least_life_s:
                raise Unavailable("the API server ended the watch as soon as it had begun")
            self._forget_failures()
            self._works()

    async def _watch_once(self) -> None:
        with contextlib.ExitStack() as at_end:

            def after(seconds: float, act: Callable[[], None]) -> None:
                at_end.callback(asyncio.get_running_loop().call_later(seconds, act).cancel)

            def begun() -> None:
                self._state.heard()
                after(self._pace.proven_s, self._forget_failures)
                if not self._is_doubted:
                    # Not at once: the first line may be a refusal.
                    after(self._pace.least_life_s, self._works)

            life_s = self._rng.randint(*self._pace.life_s)
            await self._port.follow(self._target, self._version, life_s, begun, self._receive)

    def _forget_failures(self) -> None:
        self._failures = 0

    def _works(self) -> None:
        self._is_doubted = False
        self._state.works()

    def _receive(self, event: WatchEvent) -> None:
        self._state.heard()
        if self._is_doubted:
            self._works()
        if event.version:
            self._version = event.version
        if event.change == "DELETED":
            self._passed.drop(event.meta)
            self._sink.changed(self._target, event.meta)
        elif event.change:
            self._pass_on(event.meta)

    def _pass_on(self, meta: ObjectMeta) -> None:
        if not self._passed.is_news(meta) and self._sink.has(self._target, meta):
            return
        if self._sink.changed(self._target, meta):
            self._passed.keep(meta)

    def _jittered(self, seconds: float) -> float:
        return seconds * self._rng.uniform(1 - self._pace.jitter, 1 + self._pace.jitter)


def watch_targets(namespaces: Sequence[str | None]) -> Iterator[WatchTarget]:
    """Yield all that is watched in these namespaces; None stands for all namespaces."""
    for namespace in dict.fromkeys(namespaces):
        yield WatchTarget(API_VERSION, PLURAL, namespace)
        for api_version, _kind, plural in LABELLED_KINDS:
            yield WatchTarget(api_version, plural, namespace, CLUSTER_LABEL)


@contextlib.asynccontextmanager
async def run_watches(
    targets: Sequence[WatchTarget],
    port: KubeWatch,
    sink: Sink,
    hearing: Hearing,
    rng: random.Random,
    pace: WatchPace,
) -> AsyncIterator[None]:
    """Run a watch for each target while the block runs."""
    tasks = [
        asyncio.create_task(
            Watch(target, port, sink, hearing.of(target), rng, pace).run(), name=f"watch: {target}"
        )
        for target in targets
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
