"""The operator's own two HTTP ports: that it lives, and what it counts."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from grid_operator.ports.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from prometheus_client import CollectorRegistry

HEALTH_PATH: Final = "/healthz"
METRICS_PATH: Final = "/metrics"
SHUTDOWN_S: Final = 1.0
EVERY_ADDRESS: Final = "*"
"""IPv4 and IPv6, where the machine has it: in a cluster of either family probes come over that."""


def health_handler(
    shown: Mapping[str, Callable[[], object]], healthy: Callable[[], bool] = lambda: True
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return what answers with the shown values: 200, or 503 when the operator is not healthy."""

    async def answer(_request: web.Request) -> web.Response:
        status = 200 if healthy() else 503
        return web.json_response({name: value() for name, value in shown.items()}, status=status)

    return answer


def metrics_handler(
    registry: CollectorRegistry,
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return what answers with the metrics as Prometheus reads them."""

    async def answer(_request: web.Request) -> web.Response:
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer


@contextlib.asynccontextmanager
async def serving(
    address: str, port: int, path: str, handler: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[int]:
    """Answer GET on one path of a port while the block runs; give the port.

    Args:
        address: An IPv4 address, or `EVERY_ADDRESS`.
        port: 0: any free port.
        path: What is answered; all else is 404.
        handler: Returns the answer.

    Raises:
        Rejected: The port cannot be listened on.
    """
    app = web.Application()
    app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        try:
            await web.SockSite(runner, _bound(address, port)).start()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Rejected(f"port {port} cannot be listened on: {reason}", "Port") from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _bound(address: str, port: int) -> socket.socket:
    if address != EVERY_ADDRESS:
        return socket.create_server((address, port))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
