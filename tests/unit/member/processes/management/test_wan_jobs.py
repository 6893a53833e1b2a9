"""Two real members, a cluster each: a sync ends though the target and the source are killed."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.member.running import MemberProcess
from tests.unit.member.wire import Wire, once
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)
ENTRIES: Final = 2000
_UNKNOWN: Final = {"stage": "", "progress": 0}
"""What a member tells that is starting."""
_TEXT: Final = """
grid:
  cluster-name: {name}
  network:
    port: {{port: {rest}}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    rest-api:
      enabled: true
      endpoint-groups: {{DATA: {{enabled: true}}, WAN: {{enabled: true}}}}
    wan: {{enabled: true, port: {{port: {wan}}}, realm: wan}}
  security:
    realms:
      - {{name: wan, authentication: {{simple: {{users: [{{username: u, password: p}}]}}}}}}
      - {{name: to, identity: {{username-password: {{username: u, password: p}}}}}}
  wan-replication:
    r:
      batch-publisher:
        peer:
          cluster-name: {peer}
          target-endpoints: "127.0.0.1:{peer_wan}"
          realm: to
          initial-publisher-state: STOPPED
          batch-size: 2
          response-timeout-millis: 2000
  map: {{m: {{wan-replication-ref: {{r: {{}}}}}}}}
  persistence: {{enabled: true, base-dir: {directory}}}
  logging: {{format: json}}
"""


class Side:
    """A cluster of one process, which can be killed and started again."""

    def __init__(self, name: str, text: str, directory: Path, port: int) -> None:
        self.name = name
        self._text = text
        self._directory = directory
        self.port = port
        self.process = MemberProcess(text, directory)

    def kill(self) -> None:
        self.process.process.kill()
        self.process.process.wait()

    def start(self) -> None:
        self.process = MemberProcess(self._text, self._directory)

    async def tell(self, call: str, *parameters: str) -> Any:
        body = "&".join((self.name, "", *parameters)).encode()
        reply = await once(self.port, "POST", f"/grid/rest/wan/{call}", body)
        return reply.json if reply.status == 200 else None

    async def ready(self) -> bool:
        try:
            return (await once(self.port, "GET", "/grid/rest/wan/status")).status == 200
        except OSError:
            return False

    async def result(self, uuid: str) -> dict[str, Any]:
        try:
            reply = await once(self.port, "GET", f"/grid/rest/wan/sync/progress/{uuid}")
        except OSError:
            return dict(_UNKNOWN)
        found: dict[str, Any] = reply.json if reply.status == 200 else {"result": _UNKNOWN}
        return dict(found["result"])

    async def put(self, number: int) -> None:
        async with await Wire.connect(self.port) as wire:
            for place in range(number):
                head = f"POST /grid/rest/maps/m/key-{place} HTTP/1.1\r\nHost: a\r\n"
                wire.send(f"{head}Content-Length: 1\r\n\r\nx".encode())
            for _ in range(number):
                assert (await wire.reply("POST")).status == 200


def sides(directory: Path) -> tuple[Side, Side]:
    ports = free_ports(4)
    names = "tokyo", "london"
    made = []
    for number in (0, 1):
        own = directory / names[number]
        text = _TEXT.format(
            name=names[number],
            peer=names[1 - number],
            rest=ports[number],
            wan=ports[2 + number],
            peer_wan=ports[3 - number],
            directory=own / "data",
        )
        made.append(Side(names[number], text, own, ports[number]))
    return made[0], made[1]


async def test_a_sync_ends_though_both_sides_are_killed(tmp_path: Path) -> None:
    tokyo, london = sides(tmp_path)
    try:
        for side in (tokyo, london):
            await eventually(side.ready)
        await tokyo.put(ENTRIES)
        begun = await eventually(partial(tokyo.tell, "sync/allmaps", "r", ""))
        uuid, seen = begun["uuid"], 0

        async def has_come(percent: int) -> bool:
            nonlocal seen
            result = await tokyo.result(uuid)
            if result["stage"] == "IN_PROGRESS":
                assert result["progress"] >= seen
                seen = result["progress"]
            return result["stage"] == "FINISHED" or int(result["progress"]) >= percent

        for side, percent in ((london, 10), (tokyo, 40)):
            await eventually(partial(has_come, percent))
            side.kill()
            side.start()
        await eventually(partial(has_come, 100))
        assert await tokyo.result(uuid) | {"creationTime": 0} == {
            "stage": "FINISHED",
            "progress": 100,
            "wanReplicationName": "r",
            "wanPublisherId": "peer",
            "creationTime": 0,
        }
        reply = await once(tokyo.port, "GET", "/grid/rest/wan/status")
        (publisher,) = json.loads(reply.body)["replications"][0]["publishers"]
        assert (publisher["needsSync"], publisher["job"]) == ([], None)
        for key in ("key-0", f"key-{ENTRIES - 1}"):
            assert (await once(london.port, "GET", f"/grid/rest/maps/m/{key}")).body == b"x"
        begun = await tokyo.tell("consistencyCheck/map", "r", "", "m")
        uuid, seen = begun["uuid"], 0
        await eventually(partial(has_come, 100))
        reply = await once(tokyo.port, "GET", "/grid/rest/wan/status")
        (check,) = json.loads(reply.body)["replications"][0]["publishers"][0]["lastChecks"]
        assert (check["entries"], check["missing"], check["extra"]) == (ENTRIES, 0, 0)
    finally:
        for side in (tokyo, london):
            side.kill()
