"""What a pod template means on this machine: arguments, environment, files and directories.

It is translated, not interpreted: what the container would see at a mount path is a directory of
this machine, environment references are resolved, the readiness probe is asked over HTTP. Only what
`render` makes is understood; anything else is refused by name.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from grid_operator.ports.errors import Rejected
from grid_operator.render.config import (
    BIND_ADDRESS_VARIABLE,
    MEMBER_VARIABLE_PREFIX,
    PUBLIC_ADDRESS_VARIABLE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

DEFAULT_GRACE_S: Final = 30.0
CLAIMS_DIRECTORY: Final = ".claims"
"""Holds the volume claims that are not the data of one member."""
_DATA_CLAIM: Final = re.compile(r"data-(.+)-([0-9]+)")
_MEMBER_VARIABLE: Final = re.compile(rf"{MEMBER_VARIABLE_PREFIX}([0-9]+)")
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^()]+)\))")


class LocalObjects(Protocol):
    """Finds the ConfigMaps and Secrets that a pod refers to."""

    def find(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """Return the object, None when there is none."""


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Where pods of the local mode live on this machine."""

    data_dir: Path
    """Volume claims, see `claim_directory`. Kept."""
    run_dir: Path
    """Everything that dies with the pods: mounted ConfigMaps, scratch directories."""
    environment: Mapping[str, str]
    """What a member process inherits: `PATH` and the like."""
    print_log: Callable[[str, str], None]
    """Called with the pod's name and one line of its output."""
    program: tuple[str, ...] = (sys.executable, "-m", "grid_member")

    def claim_directory(self, namespace: str, claim: str) -> Path:
        """Return the directory that stands for a volume claim.

        The data of a member is in `<namespace>/<cluster>/<pod>`, other claims, which clusters may
        share, in `<namespace>/.claims/<name>`.
        """
        data = _DATA_CLAIM.fullmatch(claim)
        if data is not None:
            return self.data_dir / namespace / data[1] / f"{data[1]}-{data[2]}"
        return self.data_dir / namespace / CLAIMS_DIRECTORY / claim

    def scratch_directory(self, namespace: str, pod: str) -> Path:
        """Return the directory of what dies with a pod."""
        return self.run_dir / namespace / pod


@dataclass(frozen=True, slots=True)
class Program:
    """A container translated into what runs here."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files to write before the start: mounted ConfigMaps and Secrets."""
    directories: tuple[Path, ...] = ()

    def write_files(self) -> None:
        """Make the directories and write the files, for this user only."""
        for directory in self.directories:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, text in self.files.items():
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A member pod translated into a process."""

    program: Program
    grace_s: float
    probe_url: str
    probe_period_s: float


def process_spec(pod: KubeObject, objects: LocalObjects, host: LocalHost) -> ProcessSpec:
    """Translate a member pod into a process.

    Raises:
        Rejected: The pod uses something that the local mode does not know, or refers to an
            object that is not there.
    """
    (container,) = pod["spec"]["containers"]
    address = pod["status"]["podIP"]
    probe = container["readinessProbe"]
    return ProcessSpec(
        program_of(pod, objects, host, _local_addresses(pod, address)),
        grace_s=pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S),
        probe_url=_probe_url(probe["httpGet"], container, address),
        probe_period_s=probe.get("periodSeconds", 10),
    )


def program_of(
    pod: KubeObject, objects: LocalObjects, host: LocalHost, overriding: Mapping[str, str]
) -> Program:
    """Translate the container of a pod into a program.

    Raises:
        Rejected: The pod uses something that the local mode does not know, or refers to an
            object that is not there.
    """
    (container,) = pod["spec"]["containers"]
    mounts = _Mounts(pod, objects, host)
    for mount in container.get("volumeMounts", ()):
        mounts.add(mount)
    own: dict[str, str] = {}
    for item in container.get("env", ()):
        own[item["name"]] = mounts.rewrite(_env_value(item, pod, objects, own))
    return Program(
        argv=(*host.program, *(mounts.rewrite(arg) for arg in container.get("args", ()))),
        env={**host.environment, **own, **overriding},
        files=mounts.files,
        directories=tuple(mounts.directories.values()),
    )


def _local_addresses(pod: KubeObject, address: str) -> dict[str, str]:
    """Return what replaces the wildcard address and the DNS names that exist in Kubernetes only.

    The addresses of a cluster's members follow one another, as their ordinals do.
    """
    first = ipaddress.IPv4Address(address) - int(pod["metadata"]["name"].rpartition("-")[2])
    (container,) = pod["spec"]["containers"]
    names = (item["name"] for item in container.get("env", ()))
    ordinals = (found[1] for name in names if (found := _MEMBER_VARIABLE.fullmatch(name)))
    members = {f"{MEMBER_VARIABLE_PREFIX}{n}": str(first + int(n)) for n in ordinals}
    return {BIND_ADDRESS_VARIABLE: address, PUBLIC_ADDRESS_VARIABLE: address, **members}


class _Mounts:
    """Mount paths of one container and the directories that stand for them."""

    def __init__(self, pod: KubeObject, objects: LocalObjects, host: LocalHost) -> None:
        self._pod = pod
        self._objects = objects
        self._host = host
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        self.directories: dict[str, Path] = {}
        self.files: dict[Path, str] = {}

    def add(self, mount: KubeObject) -> None:
        meta, name = self._pod["metadata"], mount["name"]
        # A volume that the pod does not have comes from the StatefulSet's claim template.
        volume = self._volumes.get(name) or {
            "persistentVolumeClaim": {"claimName": f"{name}-{meta['name']}"}
        }
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            place = self._host.claim_directory(meta["namespace"], claim)
        else:
            place = self._host.scratch_directory(meta["namespace"], meta["name"]) / name
            self._fill(place, name, volume)
        self.directories[mount["mountPath"]] = place

    def rewrite(self, text: str) -> str:
        """Return the text with every mount path that begins a path in it replaced."""
        longest_first = sorted(self.directories, key=len, reverse=True)
        paths = "|".join(map(re.escape, longest_first))
        pattern = rf"(?:^|(?<=[=:]))({paths})(?=/|$)"
        return re.sub(pattern, lambda m: str(self.directories[m[1]]), text) if paths else text

    def _fill(self, place: Path, name: str, volume: KubeObject) -> None:
        if "configMap" in volume:
            found = self._required("ConfigMap", volume["configMap"]["name"])
            self.files |= {place / key: text for key, text in found["data"].items()}
        elif "secret" in volume:
            secret = self._required("Secret", volume["secret"]["secretName"])
            keys = volume["secret"].get("items") or [
                {"key": key, "path": key} for key in secret.get("data", {})
            ]
            self.files |= {place / item["path"]: secret_text(secret, item["key"]) for item in keys}
        elif "emptyDir" not in volume:
            kind = next(key for key in volume if key != "name")
            raise Rejected(f"volume {name}: {kind} does not exist in the local mode")

    def _required(self, kind: str, name: str) -> KubeObject:
        found = self._objects.find(kind, self._pod["metadata"]["namespace"], name)
        if found is None:
            raise Rejected(f"{kind} {name} is not there")
        return found


def _env_value(
    item: KubeObject, pod: KubeObject, objects: LocalObjects, above: Mapping[str, str]
) -> str:
    if "valueFrom" not in item:
        return expanded(str(item.get("value", "")), above)
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


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with `$(NAME)` replaced as Kubernetes does: `$$` is a `$`, others stay."""
    return _REFERENCE.sub(
        lambda m: "$" if m[1] is None else variables.get(m[1], m[0]),
        text,
    )


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
    scheme = str(http_get.get("scheme", "HTTP")).lower()
    return f"{scheme}://{address}:{port}{http_get['path']}"
