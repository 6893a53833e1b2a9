"""Kubernetes on this machine without Docker: every node is a set of Linux namespaces."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.archive import write_image
from tests.e2e.provider.base import Capability, CommandError, ProviderError
from tests.e2e.provider.binaries import Binaries, built_binaries
from tests.e2e.provider.commands import on_each, run, succeeds, together, wait_until
from tests.e2e.provider.host import (
    RUN_PROGRAMS,
    host_lock,
    require_programs,
    require_root,
    restore_sysctls,
    save_sysctls,
)
from tests.e2e.provider.layout import NATIVE_DIR, SLOTS, Layout, Machine, state_root
from tests.e2e.provider.native import network
from tests.e2e.provider.native.cgroups import remove_cgroups
from tests.e2e.provider.native.components import PAUSE_IMAGE, write_machines
from tests.e2e.provider.native.objects import first_objects
from tests.e2e.provider.native.pki import write_pki
from tests.e2e.provider.native.processes import (
    Process,
    ProcessTable,
    children,
    identify,
    is_running,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READY_TIMEOUT_S: Final = 120.0
CONTROLLERS: Final = "controllers"
CLUSTER_FILE: Final = "cluster.json"
REPOSITORY: Final = Path(__file__).resolve().parents[4]


class NativeProvider:
    """One native cluster, known by its name.

    Args:
        name: Tells clusters of one machine apart.
        owner: A process with whose end the cluster may be taken away, if any.
    """

    capabilities = frozenset(Capability)

    def __init__(self, name: str, owner: Process | None = None) -> None:
        self.name = name
        self._owner = owner
        Layout(name, 0, 0)  # refuses a bad name before anything is touched

    @property
    def layout(self) -> Layout:
        """The cluster's names and addresses.

        Raises:
            ProviderError: There is no such cluster.
        """
        saved = _saved_layout(state_root() / self.name)
        if saved is None:
            raise ProviderError(f"there is no cluster {self.name}; bring it up first")
        return saved

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def kubectl(self) -> Sequence[str]:
        hyperkube = built_binaries().hyperkube
        return (str(hyperkube), "kubectl", "--kubeconfig", str(self.kubeconfig))

    def up(self, nodes: int = 1) -> None:
        require_root()
        require_programs(RUN_PROGRAMS)
        binaries = built_binaries()
        self.down()
        _take_away_abandoned()
        layout = self._reserve(nodes)
        try:
            self._start(layout, binaries)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        directory = state_root() / self.name
        layout = _saved_layout(directory)
        table = ProcessTable(directory / "processes")
        on_each(table.end, table.names())
        # By the name alone: also what a broken `up` made before it could write its state.
        network.delete_network(layout or Layout(self.name, SLOTS, 0))
        remove_cgroups(f"grid-{self.name}-")
        with host_lock():
            if directory.exists():
                shutil.rmtree(directory)
            if not list(_saved_layouts()):
                restore_sysctls()

    def status(self) -> str:
        """Return the nodes as kubectl shows them."""
        return run(*self.kubectl, "get", "nodes", "-o", "wide")

    def load_image(self, archive: Path) -> None:
        importing = ("ctr", "-n", "k8s.io", "images", "import", str(archive.resolve()))
        on_each(lambda node: self._import(node, importing), self.layout.workers)

    def node_off(self, node: str) -> None:
        machine = self.layout.worker(node)
        self._table().end(machine.name)
        wait_until(
            lambda: not run("ip", "netns", "pids", machine.netns).split(),
            f"end of all processes of {node}",
            READY_TIMEOUT_S,
        )
        remove_cgroups(machine.cgroup)

    def node_on(self, node: str) -> None:
        self._start_machine(self.layout.worker(node))

    def cut(self, node: str, others: Sequence[str]) -> None:
        layout = self.layout
        by_name = {machine.name: machine for machine in layout.machines}
        network.cut_traffic(layout.worker(node), [by_name[other] for other in others])

    def heal(self) -> None:
        on_each(network.heal_traffic, self.layout.workers)

    def signal_pod(self, namespace: str, pod: str, signal: str) -> None:
        found = json.loads(run(*self.kubectl, "-n", namespace, "get", "pod", pod, "-o", "json"))
        node = self.layout.worker(found["spec"]["nodeName"])
        for status in found["status"]["containerStatuses"]:
            container_id = status["containerID"].removeprefix("containerd://")
            kill = ("ctr", "-n", "k8s.io", "task", "kill", "--all", "-s", f"SIG{signal}")
            self._inside(node, *kill, container_id)

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each component's log."""
        directory = state_root() / self.name
        for path in sorted([*directory.glob("*.log"), *directory.glob("machines/*/log/*.log")]):
            yield str(path.relative_to(directory)), path.read_text(errors="replace")

    def _reserve(self, nodes: int) -> Layout:
        with host_lock():
            taken = {layout.slot for layout in _saved_layouts()}
            free = [slot for slot in range(SLOTS) if slot not in taken]
            if not free:
                raise ProviderError(f"{SLOTS} clusters are up on this machine; take one down")
            layout = Layout(self.name, free[0], nodes)
            layout.directory.mkdir(parents=True)
            owner = None if self._owner is None else asdict(self._owner)
            content = json.dumps({"layout": asdict(layout), "owner": owner})
            (layout.directory / CLUSTER_FILE).write_text(content)
            save_sysctls()
        return layout

    def _start(self, layout: Layout, binaries: Binaries) -> None:
        pause = layout.directory / "pause.tar"
        together(
            [
                lambda: write_pki(layout),
                lambda: network.create_network(layout),
                lambda: write_machines(layout, binaries),
                lambda: _write_pause_image(pause, binaries),
            ]
        )
        on_each(self._start_machine, layout.machines)
        wait_until(lambda: _is_serving(layout), "the API server", READY_TIMEOUT_S)
        together(
            [
                lambda: self._complete_control_plane(layout),
                lambda: self.load_image(pause),
            ]
        )
        wait_until(lambda: self._is_ready(layout.nodes), "nodes Ready", READY_TIMEOUT_S)

    def _complete_control_plane(self, layout: Layout) -> None:
        run(*self.kubectl, "apply", "-f", "-", stdin=first_objects(layout))
        command = (sys.executable, "-m", "tests.e2e.provider.native.controllers")
        values = (layout.name, str(layout.slot), str(layout.nodes))
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        log = layout.directory / "controllers.log"
        self._table().start(CONTROLLERS, (*command, *values), log, env)

    def _start_machine(self, machine: Machine) -> None:
        role = "control-plane" if machine.pod_cidr is None else "node"
        init = (str(NATIVE_DIR / "init.sh"), role, machine.name, str(machine.directory))
        command = (
            *("nsenter", f"--net={network.NETNS_DIR / machine.netns}"),
            *("unshare", "--mount", "--propagation", "private", "--pid", "--fork"),
            *("--kill-child", "--uts", "--ipc", "--mount-proc", *init, machine.cgroup),
        )
        self._table().start(machine.name, command, machine.directory / "log" / "init.log")

    def _import(self, node: Machine, importing: Sequence[str]) -> None:
        # The first import comes while containerd is still starting.
        answers = ("ctr", "version")
        wait_until(lambda: succeeds(*self._entering(node), *answers), "containerd", READY_TIMEOUT_S)
        self._inside(node, *importing)

    def _inside(self, node: Machine, *command: str) -> str:
        return run(*self._entering(node), *command)

    def _entering(self, node: Machine) -> tuple[str, ...]:
        outer = self._table().get(node.name)
        inner = children(outer.pid) if outer is not None else []
        if not inner:
            raise CommandError(f"node {node.name} is off")
        return ("nsenter", "-t", str(inner[0]), "--all")

    def _is_ready(self, nodes: int) -> bool:
        try:
            listed = json.loads(run(*self.kubectl, "get", "nodes", "-o", "json"))
            run(*self.kubectl, "-n", "default", "get", "serviceaccount", "default")
        except CommandError:
            return False
        ready = [
            condition
            for item in listed["items"]
            for condition in item["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        return len(ready) == nodes

    def _table(self) -> ProcessTable:
        return ProcessTable(state_root() / self.name / "processes")


def _saved(directory: Path) -> tuple[Layout, Process | None] | None:
    """Return a cluster's layout and its owner; None while it is made or taken away."""
    try:
        content = json.loads((directory / CLUSTER_FILE).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    owner = content["owner"]
    return Layout(**content["layout"]), None if owner is None else Process(**owner)


def _saved_layout(directory: Path) -> Layout | None:
    saved = _saved(directory)
    return None if saved is None else saved[0]


def _saved_layouts() -> Iterator[Layout]:
    for directory in state_root().iterdir():
        layout = _saved_layout(directory)
        if layout is not None:
            yield layout


def _take_away_abandoned() -> None:
    """Take down the clusters whose owner died without doing it."""
    for saved in [_saved(directory) for directory in state_root().iterdir()]:
        if saved is not None and saved[1] is not None and not is_running(saved[1]):
            NativeProvider(saved[0].name).down()


def _write_pause_image(archive: Path, binaries: Binaries) -> None:
    tree = archive.parent / "pause"
    tree.mkdir()
    shutil.copy2(binaries.pause, tree / "pause")
    write_image(archive, PAUSE_IMAGE, tree, {"Entrypoint": ["/pause"]})
    shutil.rmtree(tree)


def _is_serving(layout: Layout) -> bool:
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    url = f"{layout.api_server}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=2.0, context=context) as response:
            return bool(response.read() == b"ok")
    except (urllib.error.URLError, OSError):
        return False


def own_process() -> Process | None:
    """Return the running process, as owner of what it brings up."""
    return identify(os.getpid())
