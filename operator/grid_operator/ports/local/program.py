"""What a pod template means on this machine: arguments, environment, files and directories.

It is translated, not interpreted: what the container would see at a mount path is a directory of
this machine, environment references are resolved, the readiness probe is asked over HTTP. Of a
member pod that is its first container alone: no others are started. What cannot be translated is
refused by name.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import Rejected
from grid_operator.ports.local.texts import Texts, object_name
from grid_operator.render.configuration.tree import (
    BIND_ADDRESS_VARIABLE,
    MEMBER_VARIABLE_PREFIX,
    PUBLIC_ADDRESS_VARIABLE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from grid_operator.api.objects import KubeObject
    from grid_operator.ports.local.texts import LocalObjects

DEFAULT_GRACE_S: Final = 30.0
CLAIMS_DIRECTORY: Final = ".claims"
"""Holds the volume claims that are not the data of one member."""
_DATA_CLAIM: Final = re.compile(r"data-(.+)-([0-9]+)")
_MEMBER_VARIABLE: Final = re.compile(rf"{MEMBER_VARIABLE_PREFIX}([0-9]+)")
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^()]+)\))")


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
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
    container = _own_container(pod)
    address = pod["status"]["podIP"]
    probe = container["readinessProbe"]
    try:
        program = program_of(pod, objects, host, _local_addresses(pod, address))
    except (AttributeError, KeyError, TypeError) as error:
        # Of Kubernetes' own objects only an API server knows what they need.
        raise Rejected(
            f"spec.pod: an object in it lacks a field or has a wrong one: {error}"
        ) from error
    return ProcessSpec(
        program,
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
    container = _own_container(pod)
    texts = Texts(objects, pod["metadata"]["namespace"])
    mounts = _Mounts(pod, texts, host)
    for mount in container.get("volumeMounts", ()):
        mounts.add(mount)
    own: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        own |= _all_variables(source, texts)
    for item in container.get("env", ()):
        value = _env_value(item, pod, texts, own)
        if value is not None:
            own[item["name"]] = mounts.rewrite(value)
    return Program(
        argv=(*host.program, *(mounts.rewrite(arg) for arg in container.get("args", ()))),
        env={**host.environment, **own, **overriding},
        files=mounts.files,
        directories=tuple(mounts.directories.values()),
    )


def _own_container(pod: KubeObject) -> KubeObject:
    """Return the operator's own container, which stands before those of the spec."""
    container: KubeObject = pod["spec"]["containers"][0]
    return container


def _local_addresses(pod: KubeObject, address: str) -> dict[str, str]:
    """Return what replaces the wildcard address and the DNS names that exist in Kubernetes only.

    The addresses of a cluster's members follow one another, as their ordinals do.
    """
    first = ipaddress.IPv4Address(address) - int(pod["metadata"]["name"].rpartition("-")[2])
    names = (item["name"] for item in _own_container(pod).get("env", ()))
    ordinals = (found[1] for name in names if (found := _MEMBER_VARIABLE.fullmatch(name)))
    members = {f"{MEMBER_VARIABLE_PREFIX}{n}": str(first + int(n)) for n in ordinals}
    return {BIND_ADDRESS_VARIABLE: address, PUBLIC_ADDRESS_VARIABLE: address, **members}


class _Mounts:
    """Mount paths of one container and the directories that stand for them."""

    def __init__(self, pod: KubeObject, texts: Texts, host: LocalHost) -> None:
        self._pod = pod
        self._texts = texts
        self._host = host
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        self.directories: dict[str, Path] = {}
        self.files: dict[Path, str] = {}

    def add(self, mount: KubeObject) -> None:
        meta, name = self._pod["metadata"], mount["name"]
        for unknown in {"subPath", "subPathExpr"} & mount.keys():
            raise Rejected(f"volume {name}: {unknown} does not exist in the local mode")
        # A volume that the pod does not have comes from the StatefulSet's claim template.
        volume = self._volumes.get(name) or {
            "persistentVolumeClaim": {"claimName": f"{name}-{meta['name']}"}
        }
        if "persistentVolumeClaim" in volume:
            claim = object_name("claim", volume["persistentVolumeClaim"]["claimName"])
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
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in ("configMap", "secret", "emptyDir"):
            raise Rejected(f"volume {name}: {kind} does not exist in the local mode")
        if kind == "configMap":
            self._write(place, "ConfigMap", volume["configMap"])
        elif kind == "secret":
            secret = volume["secret"]
            self._write(place, "Secret", {**secret, "name": secret["secretName"]})

    def _write(self, place: Path, kind: str, source: KubeObject) -> None:
        keys = self._texts.keys(kind, source)
        for item in source.get("items") or [{"key": key, "path": key} for key in keys]:
            text, path = self._texts.value(kind, source, item["key"]), PurePosixPath(item["path"])
            if path.is_absolute() or ".." in path.parts:
                raise Rejected(f"volume of {kind} {source['name']}: {path} is not a path in it")
            if text is not None:
                self.files[place / path] = text


def _all_variables(source: KubeObject, texts: Texts) -> dict[str, str]:
    """Return the variables that an entry of `envFrom` stands for."""
    kind, holder = "ConfigMap", "configMapRef"
    if "secretRef" in source:
        kind, holder = "Secret", "secretRef"
    reference, prefix = source[holder], source.get("prefix", "")
    found = {key: texts.value(kind, reference, key) for key in texts.keys(kind, reference)}
    return {f"{prefix}{key}": text for key, text in found.items() if text is not None}


def _env_value(
    item: KubeObject, pod: KubeObject, texts: Texts, above: Mapping[str, str]
) -> str | None:
    """Return the value of a variable, None of one that is left out."""
    if "valueFrom" not in item:
        return expanded(str(item.get("value", "")), above)
    source = item["valueFrom"]
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    for kind, holder in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if holder in source:
            return texts.value(kind, source[holder], source[holder]["key"])
    if not source:
        raise Rejected(f"env {item['name']}: valueFrom is empty")
    raise Rejected(f"env {item['name']}: {next(iter(source))} does not exist in the local mode")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with `$(NAME)` replaced as Kubernetes does: `$$` is a `$`, others stay."""
    return _REFERENCE.sub(
        lambda m: "$" if m[1] is None else variables.get(m[1], m[0]),
        text,
    )


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
