"""Additions to member pods that the API takes, and those that it refuses in these words."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.operator.api.clusters import RESTRICTED

Spec = dict[str, Any]

IMAGE: Final = "registry.example/extra:1"
_SCRATCH: Final[Spec] = {"name": "scratch", "emptyDir": {}}
_VARIABLES: Final = "POD_NAME, POD_NAMESPACE, POD_IP and names that start with GRID_ are the"
_VOLUMES: Final = "volumes config, tmp, tls, data, backup and those that start with grid- are the"
_CONTAINERS: Final = "container member and those that start with grid- are the operator's own"
_PATH: Final = "mountPath must be an absolute path"
_DIRECTORIES: Final = (
    "/etc/grid, /etc/grid-tls, /etc/grid-wan-tls, /data, /backup, /tmp, /opt/grid and what is "
    "above and below"
)
_PORTS: Final = "the REST port, the metrics port, the WAN port, 5702 and 5704 are the member's own"


def pod(**fields: Any) -> Spec:
    """Return a spec with this part of its pods."""
    return {"pod": fields}


def container(name: str = "extra", **fields: Any) -> Spec:
    """Return a container of one's own that the restricted standard takes."""
    return {"name": name, "image": IMAGE, "securityContext": RESTRICTED, **fields}


def mounted(path: str, volume: str = "scratch") -> Spec:
    """Return a spec whose member has a volume at this path."""
    mounts = [{"name": volume, "mountPath": path}]
    return pod(volumes=[_SCRATCH], volumeMounts=mounts)


def listening(port: int, **spec: Any) -> Spec:
    """Return a spec with a sidecar that listens on this port."""
    return {**pod(sidecars=[container(ports=[{"containerPort": port}])]), **spec}


REFUSED: Final[tuple[tuple[Spec, str], ...]] = (
    *((pod(env=[{"name": name}]), _VARIABLES) for name in ("POD_IP", "GRID_MEMBER_0", "GRID_X")),
    (
        pod(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
        "value and valueFrom exclude each other",
    ),
    (pod(envFrom=[{"prefix": "GRID_", "secretRef": {"name": "s"}}]), "choose another prefix"),
    *(
        (pod(volumes=[{"name": name, "emptyDir": {}}]), _VOLUMES)
        for name in ("config", "tmp", "tls", "data", "backup", "grid-later")
    ),
    *((mounted(path), _PATH) for path in ("a", "/a/", "//a", "/./a", "/a/..", "/a:b")),
    *(
        (mounted(path), _DIRECTORIES)
        for path in (
            "/data",
            "/data/x",
            "/etc",
            "/etc/grid/x",
            "/etc/grid-tls",
            "/backup/x",
            "/tmp",
        )
    ),
    *((mounted(path), _DIRECTORIES) for path in ("/opt", "/opt/grid/lib")),
    (mounted("/a", "other"), "each needs the name of one of spec.pod.volumes"),
    (mounted("/a", "data"), "each needs the name of one of spec.pod.volumes"),
    *(
        (pod(**{field: [container(name)]}), _CONTAINERS)
        for field in ("initContainers", "sidecars")
        for name in ("member", "grid-later")
    ),
    (
        pod(initContainers=[container()], sidecars=[container()]),
        "containers of one pod need different names",
    ),
    *(
        (pod(sidecars=[container(ports=[{"name": name, "containerPort": 80}])]), "ports rest, ")
        for name in ("rest", "management", "metrics", "members")
    ),
    *((listening(port), _PORTS) for port in (5701, 5702, 5703, 5704)),
    (listening(6000, rest={"port": 6000}), _PORTS),
    (listening(6000, metrics={"port": 6000}), _PORTS),
    (listening(6000, advancedNetwork={"enabled": True, "restPort": 6000}), _PORTS),
    (pod(initContainers=[container(ports=[{"containerPort": 5702}])]), _PORTS),
)
"""Specs, and words of the message: the same of the API server and of Python."""

TWICE: Final[tuple[tuple[Spec, str], ...]] = (
    (pod(env=[{"name": "A"}, {"name": "A"}]), "env"),
    (pod(volumes=[_SCRATCH, _SCRATCH]), "volumes"),
    (
        pod(volumes=[_SCRATCH], volumeMounts=[{"name": "scratch", "mountPath": "/a"}] * 2),
        "volumeMounts",
    ),
    (pod(sidecars=[container(), container()]), "sidecars"),
    (pod(initContainers=[container(), container()]), "initContainers"),
)
"""Specs with two of one name, and the field: each says `duplicate` in words of its own."""

TAKEN: Final[tuple[Spec, ...]] = (
    pod(env=[{"name": "GRID_COMPILED", "value": "off"}, {"name": "POD", "value": "x"}]),
    pod(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    pod(envFrom=[{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}, "prefix": "A_"}]),
    mounted("/etc/grid-more"),
    mounted("/database"),
    mounted("/opt/extra"),
    mounted("/srv/.hidden/..more"),
    listening(5703, metrics={"enabled": False}),
    listening(5701, rest={"port": 6000}),
    pod(initContainers=[container("one", restartPolicy="Always")], sidecars=[container("two")]),
    pod(hostAliases=[{"ip": "192.0.2.9", "hostnames": ["a"]}], dnsConfig={"searches": ["b"]}),
)
