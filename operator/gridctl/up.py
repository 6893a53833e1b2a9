"""`gridctl up`: runs one GridCluster file on this machine until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import random
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp
from pydantic.alias_generators import to_camel

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.names import MANAGEMENT_PORT, MEMBERS_PORT
from grid_operator.api.phase import is_at_rest
from grid_operator.ports.local.object_store import LocalKube
from grid_operator.ports.local.program import LocalHost
from grid_operator.ports.members.client import MemberClient
from grid_operator.reconcile.queue import WorkQueue
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings, utc_now
from grid_operator.reconcile.refusal import previous_status
from gridctl.greeting import greeting
from gridctl.local_state import LocalState
from gridctl.manifest import ManifestError, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

FILE_POLL_PERIOD_S: Final = 0.5
LOCAL_OPERATOR_NAMESPACE: Final = "gridctl"
INHERITED_VARIABLES: Final = frozenset(
    {
        *("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT"),
        "GRID_COMPILED",
    }
)
ONLY_OF_PODS: Final = (
    "init_containers",
    "sidecars",
    "runtime_class_name",
    "dns_config",
    "host_aliases",
)
"""Fields of `spec.pod` that add to pods what no process of this machine has."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class CannotStartError(Exception):
    """Something on this machine is in the way; the message says what."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line of `gridctl up` says."""

    file: Path
    data_dir: Path
    environment: Mapping[str, str]
    first_address: str = "127.0.0.1"
    program: tuple[str, ...] = field(default=(sys.executable, "-m", "grid_member"))


async def run_up(options: UpOptions) -> None:
    """Run the cluster until a stop signal, then stop its members and return.

    Raises:
        ManifestError: The file is unusable.
        CannotStartError: An address is taken.
        AlreadyRunningError: The same cluster runs already.
    """
    manifest = read_manifest(options.file)
    _tell_about_size(manifest)
    _tell_about_pods(manifest)
    key = _key_of(manifest)
    _check_addresses(manifest, options.first_address)
    state = LocalState.of(options.data_dir, key.namespace, key.name)
    _check_size(manifest, state)
    with contextlib.closing(state.acquire()):
        async with aiohttp.ClientSession() as session, MemberClient() as members:
            await _LocalCluster(options, key, state, session, members).run(manifest)


class _LocalCluster:
    """One running cluster of the local mode."""

    def __init__(
        self,
        options: UpOptions,
        key: ClusterKey,
        state: LocalState,
        session: aiohttp.ClientSession,
        members: MemberClient,
    ) -> None:
        self._options = options
        self._key = key
        self._state = state
        self._kube = LocalKube(
            LocalHost(
                data_dir=options.data_dir,
                run_dir=state.run_dir,
                environment=inherited(options.environment),
                print_log=_print_log,
                program=options.program,
            ),
            session,
            utc_now,
            self._on_change,
            options.first_address,
        )
        surroundings = Surroundings(LOCAL_OPERATOR_NAMESPACE)
        reconciler = Reconciler(self._kube, members, surroundings)
        self._queue = WorkQueue(reconciler.reconcile, random.Random())  # noqa: S311 - jitter
        self._written: KubeObject | None = None
        self._greeted = False

    async def run(self, manifest: KubeObject) -> None:
        """Run until a stop signal or until a part of this fails."""
        stop = asyncio.Event()
        with _stop_on_signals(stop):
            self._begin(manifest)
            work = [
                asyncio.create_task(self._queue.run(), name="queue"),
                asyncio.create_task(self._follow_file(), name="file"),
            ]
            stopped = asyncio.create_task(stop.wait(), name="stop signal")
            try:
                done, _ = await asyncio.wait([*work, stopped], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._shut_down([*work, stopped])
        for task in done - {stopped}:
            task.result()

    def _begin(self, manifest: KubeObject) -> None:
        """Go on from where the cluster was left; what pods left behind is gone with them."""
        shutil.rmtree(self._state.run_dir, ignore_errors=True)
        spec = GridCluster.from_kube(manifest).spec
        if spec.persistence.enabled and not spec.is_alone:
            self._state.make_room(spec.size)
        known = self._state.recall()
        if known is not None and _key_of(known) == self._key:
            self._kube.recall_cluster(known)
        self._kube.put_cluster(manifest)

    async def _shut_down(self, tasks: list[asyncio.Task[None] | asyncio.Task[bool]]) -> None:
        print("stopping …", flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._kube.close()
        self._state.clear()
        print("stopped", flush=True)

    def _on_change(self, namespace: str, name: str) -> None:
        self._queue.add(ClusterKey(namespace, name))
        cluster = self._kube.cluster(namespace, name)
        if cluster is None or cluster == self._written:
            return
        self._written = cluster
        self._state.write(cluster)
        self._greet(cluster)

    def _greet(self, cluster: KubeObject) -> None:
        conditions = cluster.get("status", {}).get("conditions", ())
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        if ready and not self._greeted:
            print(greeting(cluster, self._kube.addresses(), self._options.data_dir), flush=True)
        self._greeted = ready

    async def _follow_file(self) -> None:
        """Reconcile the file's edits; one that cannot be used changes nothing."""
        seen = _file_version(self._options.file)
        while True:
            await asyncio.sleep(FILE_POLL_PERIOD_S)
            version = _file_version(self._options.file)
            if version == seen:
                continue
            seen = version
            try:
                manifest = read_manifest(self._options.file)
                if _key_of(manifest) != self._key:
                    raise ManifestError(f"{self._options.file}: still running {self._key}")
            except ManifestError as error:
                print(f"the change is not used:\n{error}", file=sys.stderr, flush=True)
                continue
            print(f"{self._options.file} changed", flush=True)
            _tell_about_pods(manifest)
            self._kube.put_cluster(manifest)


def _check_size(manifest: KubeObject, state: LocalState) -> None:
    """Return if members of this number may take up the data that was kept.

    Raises:
        CannotStartError: The data is of another number of members, or of a stopped cluster, which
            nobody new can join.
    """
    cluster, kept = GridCluster.from_kube(manifest), state.kept_size()
    spec = cluster.spec
    if not spec.persistence.enabled or kept in (0, spec.size):
        return
    status = previous_status(state.recall() or {})
    grows = 1 < kept < spec.size
    if grows and is_at_rest(cluster.model_copy(update={"status": status})):
        raise CannotStartError(
            f"the data in {state.directory} is of size {kept} and of a cluster that is stopped: "
            f"set spec.size back to {kept}, start it with runState Running, and let it grow then"
        )
    if 1 < spec.size < kept:
        raise CannotStartError(
            f"the data in {state.directory} is of size {kept}, and members leave only while they "
            f"run: set spec.size back to {kept}, start, and lower it when they are ready"
        )
    if not grows:
        raise CannotStartError(
            f"the data in {state.directory} is of size {kept}, and a single member keeps it in "
            f"another way than several do: set spec.size back to {kept}, or choose another name or "
            "--data-dir, with spec.restoreFrom if it is to have the data"
        )


def _tell_about_size(manifest: KubeObject) -> None:
    size = GridCluster.from_kube(manifest).spec.size
    if size % 2 == 0:
        print(
            f"size {size} is no safer than {size - 1}: most of the members are needed for every "
            "write; 1, 3 or 5 is better",
            file=sys.stderr,
            flush=True,
        )


def _tell_about_pods(manifest: KubeObject) -> None:
    """Name what a spec adds to pods and what has no meaning for a process."""
    pod = GridCluster.from_kube(manifest).spec.pod
    found = [to_camel(name) for name in ONLY_OF_PODS if getattr(pod, name)]
    if found:
        fields = ", ".join(f"spec.pod.{name}" for name in found)
        print(
            f"{fields}: only pods have these; members run here without them",
            file=sys.stderr,
            flush=True,
        )


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a member may see of the caller's environment: nothing that configures it."""
    return {k: v for k, v in environment.items() if k in INHERITED_VARIABLES}


def _key_of(manifest: KubeObject) -> ClusterKey:
    return ClusterKey(manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def _file_version(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _check_addresses(manifest: KubeObject, first_address: str) -> None:
    first, spec = ipaddress.IPv4Address(first_address), GridCluster.from_kube(manifest).spec
    ports = [spec.rest_port, MANAGEMENT_PORT, *(() if spec.is_alone else (MEMBERS_PORT,))]
    ports += [] if spec.metrics_port is None else [spec.metrics_port]
    for ordinal in range(spec.size):
        for port in ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((str(first + ordinal), port))
                except OSError as error:
                    raise CannotStartError(
                        f"{first + ordinal}:{port} cannot be used: {os.strerror(error.errno or 0)}"
                        "; stop what uses it, or choose another --address"
                    ) from error


def _print_log(name: str, line: str) -> None:
    print(f"[{name}] {line}", flush=True)


@contextlib.contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set the event on the first stop signal; a second one ends this process at once.

    SIGHUP may come twice, from the shell and from the system, and under nohup(1) it is ignored.
    """
    loop = asyncio.get_running_loop()
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heeded = STOP_SIGNALS if nohup else (*STOP_SIGNALS, signal.SIGHUP)

    def on_signal() -> None:
        stop.set()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)

    for number in heeded:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
