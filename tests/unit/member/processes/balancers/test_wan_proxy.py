"""Promise: a proxy that limits the bodies of requests makes batches smaller and stops nothing."""

from __future__ import annotations

import random
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.unit.member.processes.balancers.balancers import command
from tests.unit.member.wan.pairs import Site, start_both, until, until_value
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

CONFIGURATION: Final = """
events {{ }}
http {{
    client_max_body_size 64k;
    server {{
        listen 80;
        location / {{ proxy_pass http://127.0.0.1:{port}; }}
    }}
}}
"""
KIB: Final = 1 << 10


@contextmanager
def nginx(port: int, target_port: int, directory: Path) -> Iterator[None]:
    text = CONFIGURATION.format(port=target_port)
    with subprocess.Popen(command("nginx", text, port, directory)) as process:
        try:
            yield
        finally:
            process.terminate()


async def test_nginx_with_a_limit_before_the_target(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokyo_port, london_port, proxy_port = free_ports(3)
    tokyo = Site("tokyo", tokyo_port, "london", proxy_port)
    london = Site("london", london_port, "tokyo", tokyo_port, publishes=False)
    chance = random.Random(5)
    with nginx(proxy_port, london_port, tmp_path):
        try:
            await london.start()
            await start_both(tokyo)
            caplog.clear()  # nginx may have listened later than the member asked
            await tokyo.put("people", "large", chance.randbytes(100 * KIB))
            for number in range(60):
                await tokyo.put("orders", f"key-{number}", chance.randbytes(10 * KIB))
            await until(lambda: "people" in tokyo.figures.blocked, "the entry is too large alone")
            await until(lambda: tokyo.queued() == 1, "everything else has arrived")
            assert f"an entry has {100 * KIB + 5} bytes" in tokyo.figures.blocked["people"]
            assert "refuses larger requests (413)" in tokyo.figures.report().problem
            assert await london.get("orders", "key-59") is not None
            assert tokyo.figures.connected
            assert "disconnected" not in caplog.messages
            await tokyo.put("people", "large", b"small now")
            await tokyo.remove("orders", "key-0")
            await until_value(london, "orders", "key-0", None)
        finally:
            await tokyo.stop()
            await london.stop()
