"""nginx and HAProxy with the configurations that docs/load-balancers.md prints."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.unit.ports import HOST, free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

PAGE: Final = (Path(__file__).parents[5] / "docs" / "load-balancers.md").read_text(encoding="utf-8")
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""What nginx keeps in directories of the system, unless it is told otherwise."""
_CHECKED: Final = "    default-server check inter 1s fall 2 rise 1 slowstart 5s\n"


def printed(proxy: str, number: int = 0) -> str:
    """Return the configuration of a load balancer, or a later block for it, as the page has it."""
    return str(re.findall(rf"```{proxy}\n(.*?)```", PAGE, re.DOTALL)[number])


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Return a text with other parts, of which each is in it once at least."""
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def plain(proxy: str) -> str:
    return printed(proxy)


def repeating_offers(proxy: str) -> str:
    """Return what the page says to change so that offers are repeated, too."""
    before = {
        "nginx": "            proxy_next_upstream error timeout http_503;\n",
        "haproxy": "    http-request disable-l7-retry unless METH_GET or METH_DELETE\n",
    }[proxy]
    after = before.replace(";", " non_idempotent;") if proxy == "nginx" else ""
    return replaced(printed(proxy), (before, after))


def encrypted(proxy: str) -> str:
    """Return what the page says to change so that both sides speak TLS."""
    lines = printed(proxy, 1)
    if proxy == "nginx":
        passed = ("proxy_pass http:", "proxy_pass https:")
        return replaced(printed(proxy), ("listen 80;\n", lines), passed)
    bind, checked = lines.splitlines()
    return replaced(printed(proxy), ("bind :80", bind), (_CHECKED, f"    {checked}\n"))


def passed_through(proxy: str) -> str:
    return printed(proxy, 2)


def program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        assert not os.environ.get("CI"), f"{name} is missing"
        pytest.skip(f"{name} is not installed")
    return path


def command(proxy: str, text: str, port: int, directory: Path) -> list[str]:
    """Write the configuration of what listens on this port; return what runs it."""
    file = directory / f"{proxy}.conf"
    if proxy == "haproxy":
        file.write_text(re.sub(r"bind :\d+", f"bind {HOST}:{port}", text))
        return [program(proxy), "-db", "-f", str(file)]
    places = "".join(f"{name}_temp_path {directory / name};" for name in TEMPORARY)
    text = re.sub(r"listen \d+", f"access_log off; listen {HOST}:{port}", text)
    file.write_text(replaced(text, ("http {", f"http {{ {places}")))
    user = "user root;" if os.getuid() == 0 else ""  # the directory is its own
    options = f"daemon off; {user} pid {directory / 'pid'}; error_log {directory / 'nginx.log'};"
    return [program(proxy), "-p", str(directory), "-c", str(file), "-g", options]


@asynccontextmanager
async def balancing(
    proxy: str,
    text: str,
    members: Sequence[int],
    directory: Path,
    trust: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Run a load balancer before the members with these ports; give its URL."""
    await asyncio.to_thread(directory.mkdir)
    (port,) = free_ports(1)
    url = f"{'https' if trust else 'http'}://{HOST}:{port}/grid"
    places = ((f"10.0.0.1{n + 1}:5701", f"{HOST}:{member}") for n, member in enumerate(members))
    text = replaced(text, *places)
    told = directory / "told"
    with (
        told.open("w") as output,
        subprocess.Popen(  # noqa: ASYNC220 - it is waited for below
            command(proxy, text, port, directory), stderr=output
        ) as process,
    ):
        try:
            async with aiohttp.ClientSession() as session:

                async def serves() -> bool:
                    assert process.poll() is None, told.read_text()
                    try:
                        async with session.get(f"{url}/health/ready", ssl=trust or True) as answer:
                            return answer.status == 200
                    except aiohttp.ClientError:
                        return False

                await eventually(serves)
            yield url
        finally:
            process.terminate()
