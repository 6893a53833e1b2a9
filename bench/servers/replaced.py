"""Members of the product that this one replaces, as their REST interface is measured from outside.

Its library is fetched by Maven when it is not there. What it says of itself is not used.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import HOST, ROOT, BenchError, Server, answers, ask, free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = "5.3.8"
"""Its REST interface is in the free edition."""
PATH: Final = "/hazelcast/rest/maps/bench/#"
_GROUP: Final = "com.hazelcast"
_MAIN: Final = "com.hazelcast.core.server.HazelcastMemberStarter"
_PLACE: Final = ROOT / "build" / "replaced"
_HEAP: Final = ("-Xms512m", "-Xmx2g")
_STATUS: Final = b"GET /hazelcast/rest/cluster HTTP/1.1\r\nHost: bench\r\n\r\n"
_FETCH_S: Final = 300
_CONFIG: Final = """<?xml version="1.0" encoding="UTF-8"?>
<hazelcast xmlns="http://www.hazelcast.com/schema/config">
  <cluster-name>bench</cluster-name>
  <properties>
    <property name="hazelcast.phone.home.enabled">false</property>
    <property name="hazelcast.logging.type">none</property>
  </properties>
  <network>
    <port auto-increment="false">{port}</port>
    <join>
      <auto-detection enabled="false"/>
      <multicast enabled="false"/>
      <tcp-ip enabled="true"><member-list>{members}</member-list></tcp-ip>
    </join>
    <interfaces enabled="true"><interface>{host}</interface></interfaces>
    <rest-api enabled="true"><endpoint-group name="DATA" enabled="true"/></rest-api>
  </network>
</hazelcast>
"""


def missing() -> str | None:
    """Return what has to be installed before it can be measured, None: nothing."""
    absent = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"not measured: {' and '.join(absent)} not found" if absent else None


@contextlib.contextmanager
def replaced(count: int) -> Iterator[tuple[Server, ...]]:
    """Run so many members of it as one cluster until the end of the block.

    Raises:
        BenchError: it cannot be fetched, or forms no cluster.
    """
    library = _library()
    ports = [free_port() for _ in range(count)]
    members = "".join(f"<member>{HOST}:{port}</member>" for port in ports)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers = []
        for port in ports:
            file = Path(directory) / f"{port}.xml"
            text = _CONFIG.format(port=port, members=members, host=HOST)
            file.write_text(text, encoding="utf-8")
            said = (*_HEAP, f"-Dhazelcast.config={file}", "-cp", str(library), _MAIN)
            process = stack.enter_context(running(["java", *said]))
            servers.append(Server((process.process.pid,), port))
            # One after the other: started together each may begin a cluster of its own.
            process.wait_until(partial(_lists, port, len(servers)))
        yield tuple(servers)


def _lists(port: int, count: int) -> bool:
    return answers(port, _STATUS) and ask(port, _STATUS).count(b'"address"') == count


def _library() -> Path:
    file = _PLACE / f"hazelcast-{VERSION}.jar"
    if not file.exists():
        artifact = f"-Dartifact={_GROUP}:hazelcast:{VERSION}"
        print(f"fetching: {_GROUP}:hazelcast:{VERSION}", flush=True)
        command = ["mvn", "-q", "dependency:copy", artifact, f"-DoutputDirectory={_PLACE}"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
        if not file.exists():
            raise BenchError(f"Maven did not fetch the replaced product: {done.stdout[-300:]}")
    return file
