"""Members on machines whose power fails, and clients that write down what was answered."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tests.unit.engine.cluster.checker import NOTHING
from tests.unit.engine.cluster.load import MAPS, QUEUES
from tests.unit.member.processes.processes import Members
from tests.unit.waiting import LOOK_PERIOD_S, eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Self

    from tests.unit.member.processes.processes import HttpClient
    from tests.unit.power.durability import Lost
    from tests.unit.power.machines import Machines

PATIENCE_S: Final = 60.0
_AT_ONCE: Final = 12
"""Requests of those who look at what is there."""
_GONE_S: Final = 10
"""How long those who are back wait for what others may have in memory."""
_RETURN_S: Final = 30.0
"""How long an item may be on its way back that a poll without an answer has taken."""
_AGAIN: Final = 4
"""Of so many writes the last is to the key of the one before."""
_LARGE: Final = 9
"""Of so many writes the last one is large: servers are to begin new files now and then."""
_LARGE_CHARACTERS: Final = 128 << 10
T = TypeVar("T")


class Powered(Members):
    """Durable members, each with a disk of its own; `async with` within that of the machines."""

    def __init__(
        self, directory: Path, machines: Machines, *, before: tuple[str, ...] = ()
    ) -> None:
        size, patience = len(machines.places), f", validation-timeout-seconds: {_GONE_S}"
        super().__init__(directory, durable=True, size=size, persistence=patience)
        self.machines = machines
        self._before = before

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    @staticmethod
    def places(directory: Path, size: int = 3) -> list[Path]:
        """Return where members in a directory want their disks."""
        return [directory / f"m{number}" / "data" for number in range(size)]

    def inside(self, number: int) -> tuple[str, ...]:
        """Return what to put before a command that is to run there."""
        return self._before

    async def fail(self, *numbers: int, seed: int | None = None) -> list[Lost]:
        """Have the power of machines fail at one instant; their disks are back, members are not."""
        return await asyncio.to_thread(self._fail, numbers, seed)

    def _fail(self, numbers: tuple[int, ...], seed: int | None) -> list[Lost]:
        processes = [self.processes[number] for number in numbers]
        running = [one for process in processes for one in _family(process.process.pid)]
        lost = self.machines.cut(*numbers, seed=seed)
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Only now: an error that somebody lives to see is not what a cut gives.
        self.machines.lift(*numbers)
        for process in processes:
            process.kill()
        self.machines.mount(*numbers)
        return lost

    async def back(self, *numbers: int) -> None:
        """Start members whose power has failed, and wait until they serve."""
        for number in numbers:
            self.start(number)
        await asyncio.gather(*(self.ready(number) for number in numbers))


def _family(pid: int) -> list[int]:
    """Return a process and those that it has started."""
    found = [pid]
    with contextlib.suppress(OSError):  # it has ended
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    found += _family(int(child))
    return found


@dataclass
class Answered:
    """What clients were told, and so has to be there."""

    values: dict[str, str] = field(default_factory=dict)
    """By path of the key."""
    later: dict[str, str] = field(default_factory=dict)
    """What was under way to such a key, and may be there in its place."""
    items: set[str] = field(default_factory=set)
    items_under_way: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    done: Counter[int] = field(default_factory=Counter)
    """Writes that were answered, by member."""


class Writing:
    """Clients of all members that write; `async with` ends them."""

    def __init__(self, client: HttpClient, members: int, answered: Answered, label: str) -> None:
        self._client = client
        self._members = range(members)
        self._answered = answered
        self._label = label
        """Begins all keys and items: of this one alone."""
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False

    async def __aenter__(self) -> Self:
        for member in self._members:
            for name in MAPS:
                self._tasks.append(asyncio.ensure_future(self._put(member, name)))
            self._tasks.append(asyncio.ensure_future(self._offer(member)))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)

    async def progress(self, count: int, *members: int) -> None:
        """Wait until so many more writes were answered by each of the members."""
        done = self._answered.done
        wanted = {member: done[member] + count for member in members or self._members}
        async with asyncio.timeout(PATIENCE_S):
            while any(done[member] < least for member, least in wanted.items()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)

    async def _put(self, member: int, name: str) -> None:
        answered = self._answered
        path = ""
        for number in itertools.count(1):
            if self._over:
                return
            # A key is left alone when nobody knows what became of it.
            if not path or number % _AGAIN:
                path = f"{name}/{self._label}-{member}-{number}"
            value = f"value-{number}" + "." * (number % _LARGE == 0 and _LARGE_CHARACTERS)
            _, _, key = path.partition("/")
            if await self._client.put(member, name, key, value):
                answered.values[path] = value
                answered.done[member] += 1
            else:
                answered.later[path] = value
                path = ""

    async def _offer(self, member: int) -> None:
        answered = self._answered
        for number, queue in zip(itertools.count(1), itertools.cycle(QUEUES)):
            if self._over:
                return
            item = f"{queue}/{self._label}-{member}-{number}"
            answered.items_under_way.add(item)
            if await self._client.offer(member, queue, item):
                answered.items_under_way.remove(item)
                answered.items.add(item)
                answered.done[member] += 1


async def check(client: HttpClient, members: Iterable[int], answered: Answered) -> None:
    """Ask the members; note as faults what was answered and is not there, and take all items."""
    asked = itertools.cycle(members)

    async def look(path: str) -> None:
        member, (name, key) = next(asked), path.split("/")
        value = await _answer(lambda: client.get(member, name, key))
        if value not in {answered.values[path], answered.later.get(path)}:
            wanted = answered.values[path]
            answered.faults.append(f"lost: {path} is {value[:20]!r}, answered as {wanted[:20]!r}")

    await _each(look, list(answered.values))
    taken: Counter[str] = Counter()

    async def empty(queue: str) -> bool:
        while item := await _answer(lambda: client.poll(next(asked), queue, 0)):
            taken[item] += 1
        return not any(item.startswith(f"{queue}/") for item in answered.items - taken.keys())

    async def take(queue: str) -> None:
        ends_s = time.monotonic() + _RETURN_S
        while not await empty(queue) and time.monotonic() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_PERIOD_S)

    await _each(take, QUEUES)
    for item in answered.items - taken.keys():
        answered.faults.append(f"lost: item {item}")
    for item, times in taken.items():
        if times > 1 or item not in answered.items | answered.items_under_way:
            answered.faults.append(f"there once too often: item {item}")
    answered.items_under_way -= taken.keys()
    answered.items.clear()


async def _each(work: Callable[[str], Awaitable[None]], todo: Iterable[str]) -> None:
    left = iter(todo)

    async def worker() -> None:
        for one in left:
            await work(one)

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


async def _answer(ask: Callable[[], Awaitable[str | None]]) -> str:
    """Ask until there is an answer."""
    found: list[str] = []

    async def asked() -> bool:
        answer = await ask()
        if answer is not None:
            found.append(answer)
        return bool(found)

    await eventually(asked)
    assert NOTHING == ""
    return found[0]
