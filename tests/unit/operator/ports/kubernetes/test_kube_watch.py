"""Watches reach the API server as all other requests do."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING

import pytest
import yaml
from aiohttp import web

from grid_operator.ports.kubernetes.rest import KubeRest
from grid_operator.ports.kubernetes.watch import KubeWatch, WatchTarget
from tests.unit.member.security.certificates import Authority
from tests.unit.operator.watch_api import WatchApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TARGET = WatchTarget("v1", "pods", "grids")
NAME = "kubernetes.test"


def kubeconfig(api: WatchApi, path: Path, **cluster: str) -> str:
    """Write one whose cluster has these fields more, or otherwise."""
    document = yaml.safe_load(api.kubeconfig(path).read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"] |= {name.replace("_", "-"): v for name, v in cluster.items()}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


async def list_both_ways(config: str) -> None:
    """Ask for pods as the reconciler does, and as a watch does before it begins."""
    rest = await KubeRest.connect(config)
    try:
        assert await rest.get(TARGET.path) is not None
        async with KubeWatch.connected(rest.credentials) as port:
            assert (await port.fetch_page(TARGET, "")).objects == ()
    finally:
        await rest.close()


@pytest.mark.parametrize("by", ["kubeconfig", "environment"])
async def test_a_watch_goes_through_the_proxy(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = WatchApi()
    await api.start()
    try:
        elsewhere = {"server": "http://kubernetes.invalid"}
        if by == "kubeconfig":
            elsewhere["proxy_url"] = api.url
        else:
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("http_proxy", api.url)
        await list_both_ways(kubeconfig(api, tmp_path / "kubeconfig", **elsewhere))
    finally:
        await api.stop()


async def test_a_watch_expects_the_certificate_of_the_name_that_is_configured(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", names=f"DNS:{NAME}")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    async with empty_list(context) as port:
        at = {"server": f"https://127.0.0.1:{port}", "certificate_authority": str(authority.file)}
        path = tmp_path / "kubeconfig"
        await list_both_ways(kubeconfig(WatchApi(), path, **at, tls_server_name=NAME))


@contextlib.asynccontextmanager
async def empty_list(tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Answer every request with an empty list, over TLS; give the port."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
