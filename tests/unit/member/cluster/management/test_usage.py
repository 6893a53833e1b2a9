"""What the structures hold, their limits, and the room on disk."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

from grid_member.cluster.management import usage as usages
from grid_member.cluster.member.member import Phase
from grid_member.config.names import find
from grid_member.engine.local.usage import StructureUsage
from grid_member.http.routes.management import usage
from tests.unit.member.cluster.managed import content, reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.unit.member.cluster.managed import Managed

LIMITED = """
grid:
  network: {rest-api: {enabled: true}}
  persistence: {enabled: true, base-dir: %s}
  map:
    default: {}
    few: {eviction: {eviction-policy: LRU, size: 10}}
    "small*": {eviction: {eviction-policy: LFU, max-size-policy: USED_HEAP_SIZE, size: 2}}
  queue: {q: {max-size: 7}}
"""


async def test_structures_by_name_with_their_limits(
    make: Callable[..., Managed], tmp_path: Path
) -> None:
    managed = make(LIMITED % tmp_path)
    managed.member.phase = Phase.RUNNING
    managed.store.on_disk = 4096
    managed.store.usage = [
        StructureUsage("queue", "q", 2, 20),
        StructureUsage("map", "small-1", 1, 11),
        StructureUsage("map", "any", 3, 33),
        StructureUsage("map", "no longer configured", 1, 1),
    ]
    document = content(await managed.call(usage))
    free_bytes = document["members"][0].pop("freeBytes")
    no_limit = {"entries": None, "bytes": None}

    def row(kind: str, name: str, entries: int, size: int, limits: object) -> dict[str, object]:
        return {"kind": kind, "name": name, "entries": entries, "bytes": size, "limits": limits}

    assert document == {
        "structures": [
            row("map", "any", 3, 33, no_limit),
            row("map", "default", 0, 0, no_limit),
            row("map", "few", 0, 0, {"entries": 10, "bytes": None}),
            row("map", "no longer configured", 1, 1, no_limit),
            row("map", "small-1", 1, 11, {"entries": None, "bytes": 2 << 20}),
            row("queue", "q", 2, 20, {"entries": 7, "bytes": None}),
        ],
        "members": [
            {
                "uuid": managed.engine.member_uuid,
                "address": "10.0.0.7:5701",
                "storeBytes": 4096,
            }
        ],
    }
    assert list(document) == ["structures", "members"]
    assert 0 < free_bytes <= shutil.disk_usage(tmp_path).total
    managed.member.phase = Phase.STARTING


async def test_in_memory_there_is_no_store(managed: Managed) -> None:
    document = content(await managed.call(usage))
    assert document["members"][0]["storeBytes"] is None
    assert document["members"][0]["freeBytes"] is None
    assert [s["limits"]["entries"] for s in document["structures"]] == [None, None, None, 3]


async def test_a_directory_that_is_gone_has_no_known_room(
    make: Callable[..., Managed], tmp_path: Path
) -> None:
    managed = make(LIMITED % (tmp_path / "gone"))
    managed.member.phase = Phase.RUNNING
    document = content(await managed.call(usage))
    assert document["members"][0]["freeBytes"] is None
    managed.member.phase = Phase.STARTING


async def test_before_the_join_it_is_503(make: Callable[..., Managed]) -> None:
    answer = await make().call(usage)
    assert (answer.status, reason(answer)) == (503, "the member is starting")


async def test_many_structures_keep_nobody_waiting(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noted(*given: Any) -> Any:
        threads.add(threading.get_ident())
        return find(*given)

    monkeypatch.setattr(usages, "find", noted)
    managed.store.usage = [StructureUsage("map", f"m{number}", 1, 1) for number in range(1000)]
    assert len(content(await managed.call(usage))["structures"]) == 1003
    assert threads
    assert threading.get_ident() not in threads
