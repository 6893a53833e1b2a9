"""One pod of the local mode: a member process on a loopback address.

A pod template is translated, not interpreted: what the container would see at a mount path is a
directory of this machine, environment references are resolved, the readiness probe is asked over
HTTP. Only what `render` makes is understood; anything else is refused by name.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import aiohttp

from grid_operator.ports.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

LOG_LINE_LIMIT_BYTES: Final = 64 * 1024
PROBE_TIMEOUT_S: Final = 2.0
PROBE_PERIOD_UNTIL_READY_S: Final = 0.1
RESTART_DELAY_FIRST_S: Final = 0.2
RESTART_DELAY_MAX_S: Final = 10.0
STABLE_AFTER_S: Final = 10.0
DEFAULT_GRACE_S: Final = 30.0


class LocalObjects(Protocol):
    """Finds the ConfigMaps and Secrets that a pod refers to."""

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """Return the object, None when there is none."""


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Where pods of the local mode live on this machine."""

    data_dir: Path
    """Volume claims: `<namespace>/<cluster>/<pod>` below it. Kept."""
    run_dir: Path
    """Everything that dies with the pods: mounted ConfigMaps, scratch directories."""
    environment: Mapping[str, str]
    """What a member process inherits: `PATH` and the like."""
    print_log: Callable[[str, str], None]
    """Called with the pod's name and one line of its output."""
    program: tuple[str, ...] = (sys.executable, "-m", "grid_member")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A pod translated into a process."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    grace_s: float
    probe_url: str
    probe_period_s: float
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files to write before the start: mounted ConfigMaps."""
    directories: tuple[Path, ...] = ()


def process_spec(pod: KubeObject, objects: LocalObjects, host: LocalHost) -> ProcessSpec:
    """Translate a pod into a process.

    Raises:
        Rejected: The pod uses something that the local mode does not know, or refers to an
            object that is not there.
    """
    (container,) = pod["spec"]["containers"]
    mounts = _Mounts(pod, objects, host)
    for mount in container.get("volumeMounts", ()):
        mounts.add(mount)
    own_env = {
        item["name"]: mounts.rewrite(_env_value(item, pod, objects))
        for item in container.get("env", ())
    }
    probe = container["readinessProbe"]
    return ProcessSpec(
        argv=(*host.program, *(mounts.rewrite(arg) for arg in container.get("args", ()))),
        env={**host.environment, **own_env, **_local_addresses(pod["status"]["podIP"])},
        grace_s=pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S),
        probe_url=_probe_url(probe["httpGet"], container, pod["status"]["podIP"]),
        probe_period_s=probe.get("periodSeconds", 10),
        files=mounts.files,
        directories=tuple(mounts.directories.values()),
    )


def _local_addresses(address: str) -> dict[str, str]:
    """Return what replaces the wildcard address and the DNS name that exist in Kubernetes only."""
    return {"GRID_BIND_ADDRESS": address, "GRID_PUBLIC_ADDRESS": address}


class _Mounts:
    """Mount paths of one container and the directories that stand for them."""

    def __init__(self, pod: KubeObject, objects: LocalObjects, host: LocalHost) -> None:
        self._pod = pod
        self._objects = objects
        self._host = host
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        self.directories: dict[str, Path] = {}
        self.files: dict[Path, str] = {}

    def add(self, mount: dict[str, str]) -> None:
        meta = self._pod["metadata"]
        volume = self._volumes.get(mount["name"])
        scratch = self._host.run_dir / meta["namespace"] / meta["name"] / mount["name"]
        if volume is None or "persistentVolumeClaim" in volume:
            cluster = meta["labels"]["app.kubernetes.io/instance"]
            self.directories[mount["mountPath"]] = (
                self._host.data_dir / meta["namespace"] / cluster / meta["name"]
            )
            return
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            config_map = self._required("ConfigMap", name)
            self.files |= {scratch / key: text for key, text in config_map["data"].items()}
        elif "emptyDir" not in volume:
            kind = next(key for key in volume if key != "name")
            raise Rejected(f"volume {mount['name']}: {kind} does not exist in the local mode")
        self.directories[mount["mountPath"]] = scratch

    def rewrite(self, text: str) -> str:
        """Return the text with every mount path that begins a path in it replaced."""
        longest_first = sorted(self.directories, key=len, reverse=True)
        paths = "|".join(map(re.escape, longest_first))
        pattern = rf"(?:^|(?<=[=:]))({paths})(?=/|$)"
        return re.sub(pattern, lambda m: str(self.directories[m[1]]), text) if paths else text

    def _required(self, kind: str, name: str) -> KubeObject:
        found = self._objects.find(kind, self._pod["metadata"]["namespace"], name)
        if found is None:
            raise Rejected(f"{kind} {name} is not there")
        return found


def _env_value(item: KubeObject, pod: KubeObject, objects: LocalObjects) -> str:
    if "valueFrom" not in item:
        return str(item.get("value", ""))
    source = item["valueFrom"]
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    if "secretKeyRef" in source:
        ref = source["secretKeyRef"]
        secret = objects.find("Secret", pod["metadata"]["namespace"], ref["name"])
        if secret is None:
            raise Rejected(f"Secret {ref['name']} is not there")
        return secret_text(secret, ref["key"])
    raise Rejected(f"env {item['name']}: {next(iter(source))} does not exist in the local mode")


def secret_text(secret: KubeObject, key: str) -> str:
    """Return one value of a Secret.

    Raises:
        Rejected: The Secret does not have the key.
    """
    if key in secret.get("stringData", {}):
        return str(secret["stringData"][key])
    if key in secret.get("data", {}):
        return base64.b64decode(secret["data"][key]).decode()
    raise Rejected(f"Secret {secret['metadata']['name']} has no key {key}")


def _field(pod: KubeObject, path: str) -> str:
    value: object = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise Rejected(f"fieldPath {path} does not exist in the local mode")
    return value


def _probe_url(http_get: KubeObject, container: KubeObject, address: str) -> str:
    port = http_get["port"]
    if isinstance(port, str):
        port = next(p["containerPort"] for p in container["ports"] if p["name"] == port)
    return f"http://{address}:{port}{http_get['path']}"


class PodProcess:
    """Keeps the process of one pod running until it is stopped, and says whether it is ready."""

    def __init__(
        self,
        name: str,
        spec: ProcessSpec,
        host: LocalHost,
        session: aiohttp.ClientSession,
        on_change: Callable[[], None],
    ) -> None:
        self.ready = False
        self.restarts = 0
        self.last_exit: str = ""
        self._name = name
        self._spec = spec
        self._host = host
        self._session = session
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._keep_running(), name=f"pod {name}")

    @property
    def pid(self) -> int | None:
        """The process id, None between two processes."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def stop(self) -> None:
        """Stop the process: SIGTERM, and SIGKILL after the grace period. Idempotent."""
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), self._spec.grace_s)
            except TimeoutError:
                process.kill()
        elif not self._task.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._set_ready(False)

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s = RESTART_DELAY_FIRST_S
        while not self._stopping.is_set():
            began = loop.time()
            await self._run_once()
            self._set_ready(False)
            if self._stopping.is_set():
                return
            delay_s = RESTART_DELAY_FIRST_S if loop.time() - began > STABLE_AFTER_S else delay_s
            self._host.print_log(
                self._name, f"ended ({self.last_exit}); starts again in {delay_s:g} s"
            )
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RESTART_DELAY_MAX_S)
            self.restarts += 1

    async def _run_once(self) -> None:
        self._write_files()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "grid_operator.ports.local_child",
            str(os.getpid()),
            *self._spec.argv,
            env=dict(self._spec.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LOG_LINE_LIMIT_BYTES,
            start_new_session=True,  # a terminal's Ctrl-C is for gridctl, which stops its members
        )
        if self._stopping.is_set():
            self._process.terminate()
        probing = asyncio.create_task(self._probe(), name=f"probe {self._name}")
        try:
            await self._forward_log(self._process.stdout)
            code = await self._process.wait()
        except asyncio.CancelledError:
            self._process.kill()
            await self._process.wait()
            raise
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        self.last_exit = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._process = None

    def _write_files(self) -> None:
        for directory in self._spec.directories:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, text in self._spec.files.items():
            path.write_text(text, encoding="utf-8")

    async def _forward_log(self, output: asyncio.StreamReader | None) -> None:
        if output is None:
            return
        while True:
            try:
                line = await output.readuntil()
            except asyncio.IncompleteReadError as end:
                line = end.partial
            except asyncio.LimitOverrunError as overrun:
                line = await output.readexactly(overrun.consumed)
            if not line:
                return
            self._host.print_log(self._name, line.decode(errors="replace").rstrip("\n"))

    async def _probe(self) -> None:
        while True:
            self._set_ready(await self._answers_ready())
            await asyncio.sleep(
                self._spec.probe_period_s if self.ready else PROBE_PERIOD_UNTIL_READY_S
            )

    async def _answers_ready(self) -> bool:
        try:
            timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            async with self._session.get(
                self._spec.probe_url, timeout=timeout, allow_redirects=False
            ) as response:
                return response.status < 400
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._on_change()
