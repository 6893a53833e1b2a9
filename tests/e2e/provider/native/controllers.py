"""The native cluster's own controllers in one process: volumes and network policies.

usage: python -m tests.e2e.provider.native.controllers NAME SLOT NODES
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.layout import Layout
from tests.e2e.provider.native.netpol import Pod, Snapshot, node_ruleset, pod_of
from tests.e2e.provider.native.network import NETNS_DIR
from tests.e2e.provider.native.objects import DNS_LABELS
from tests.e2e.provider.native.storage import Provisioner
from tests.e2e.provider.native.watching import Mirror, client_session

if TYPE_CHECKING:
    import aiohttp

RETRY_DELAY_S: Final = 0.3
VOLUMES_DIRECTORY: Final = "volumes"


class PolicyEnforcer:
    """Keeps the packet filter of every node as the NetworkPolicies say."""

    def __init__(self, session: aiohttp.ClientSession, layout: Layout) -> None:
        self._layout = layout
        self._wake = asyncio.Event()
        self._applied: dict[str, str] = {}
        changed = self._wake.set
        self._pods = Mirror(session, "/api/v1/pods", changed)
        self._namespaces = Mirror(session, "/api/v1/namespaces", changed)
        path = "/apis/networking.k8s.io/v1/networkpolicies"
        self._policies = Mirror(session, path, changed)

    async def run(self) -> None:
        """Work for ever."""
        mirrors = (self._pods, self._namespaces, self._policies)
        async with asyncio.TaskGroup() as tasks:
            for mirror in mirrors:
                tasks.create_task(mirror.follow())
            while True:
                await self._wake.wait()
                self._wake.clear()
                if all(mirror.synced for mirror in mirrors):
                    await self._apply_everywhere()

    async def _apply_everywhere(self) -> None:
        snapshot = self._snapshot()
        for node in self._layout.workers:
            rules = node_ruleset(snapshot, node.name)
            if self._applied.get(node.name) != rules:
                if await _apply_rules(node.netns, rules):
                    self._applied[node.name] = rules
                else:
                    await asyncio.sleep(RETRY_DELAY_S)
                    self._wake.set()

    def _snapshot(self) -> Snapshot:
        # CoreDNS is no pod here, but policies that allow name resolution name its pods.
        dns = Pod("kube-system", "coredns", DNS_LABELS, self._layout.control_plane.address, "")
        pods = [pod for pod in map(pod_of, self._pods.objects) if pod is not None]
        namespaces = {
            n["metadata"]["name"]: n["metadata"].get("labels") or {}
            for n in self._namespaces.objects
        }
        return Snapshot([dns, *pods], namespaces, self._policies.objects)


async def _apply_rules(netns: str, rules: str) -> bool:
    command = ("nsenter", f"--net={NETNS_DIR / netns}", "nft", "-f", "-")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, error = await process.communicate(rules.encode())
    if process.returncode != 0:
        sys.stderr.write(f"{netns}: {error.decode()}\n{rules}\n")
    return process.returncode == 0


async def serve(layout: Layout) -> None:
    """Run all controllers for ever."""
    async with client_session(layout) as session, asyncio.TaskGroup() as tasks:
        volumes = layout.directory / VOLUMES_DIRECTORY
        tasks.create_task(Provisioner(session, volumes).run())
        tasks.create_task(PolicyEnforcer(session, layout).run())


if __name__ == "__main__":
    name, slot, nodes = sys.argv[1:]
    asyncio.run(serve(Layout(name, int(slot), int(nodes))))
