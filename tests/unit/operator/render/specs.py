"""Specs made by chance, of all that shows in the members' configuration."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

Spec = dict[str, Any]

TRAPS: Final = (
    *("yes", "null", "~", "1", "0x10", "1e3", "<<", "=", "!x", "&a", "a: b", "a #b", "{", "[", "|"),
    *(
        "<a>",
        "</grid>",
        "]]>",
        "&amp;",
        "<!-- a -->",
        "<?a?>",
        "'",
        '"',
        "\\n",
        "---",
        "%",
        "{{a}}",
    ),
    *("é", "a\u2028b", "a\u0085b", "a\u00a0b", "\ufeff", "\U0001f600", "a b", "default", "x*"),
)
_CHARACTERS: Final = st.characters(
    exclude_categories=("Cs", "Cc", "Cn"), exclude_characters="$*\ufffe\uffff"
)
NAMES: Final = (st.sampled_from(TRAPS) | st.text(_CHARACTERS, min_size=1, max_size=12)).filter(
    lambda name: name == name.strip()
)
_GROUPS: Final = ("ClusterRead", "ClusterWrite", "Persistence", "Wan", "Data", "Cp")
_CLUSTER_NAMES: Final = st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z")
_WAN_NAMES: Final = st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?\Z")
WAN_SECRETS: Final = ("a", "a-wan", "b.wan")
_COUNTS: Final = st.integers(0, 2**31 - 1)


def specs() -> st.SearchStrategy[Spec]:
    """Return specs that the schema takes and members can run with."""
    return _spec().map(_without_nothing)


@st.composite
def _spec(draw: st.DrawFn) -> Spec:
    kept = draw(st.booleans())
    advanced = draw(st.booleans())
    size = draw(st.sampled_from([1, 1, 2, 3, 5]))
    ports = st.integers(1024, 65535).filter(lambda port: port not in (5702, 5704, 5705))
    rest_port = draw(ports)
    replications = draw(_replications())
    structures = draw(_structures(_map, kept))
    publishing = [each["name"] for each in replications if each["publishers"]]
    for structure in structures if publishing else ():
        structure["wan"] = draw(st.none() | _reference(publishing))
    groups = draw(st.lists(st.sampled_from(_GROUPS), unique=True))
    return {
        "clusterName": draw(st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z")),
        "rest": {
            "port": 5701 if advanced else rest_port,
            "endpointGroups": [{"name": g, "enabled": draw(st.booleans())} for g in groups],
        },
        "advancedNetwork": {"enabled": True, "restPort": rest_port} if advanced else {},
        "metrics": {
            "enabled": rest_port != 5703 and draw(st.booleans()),
            "port": draw(ports.filter(lambda port: port != rest_port)),
        },
        "maps": structures,
        "wan": replications,
        "wanListener": draw(_listener()),
        "queues": draw(_structures(_queue, kept)),
        "size": size,
        "persistence": draw(_persistence(size)) if kept else {},
        "security": draw(_security()),
        "tls": draw(st.none() | _tls()),
        "logging": {
            "format": draw(st.sampled_from(["Text", "Json"])),
            "level": draw(st.sampled_from(["Debug", "Info", "Warning", "Error"])),
        },
        "shutdown": draw(st.sampled_from([{}, {"drainSeconds": 0}, {"drainSeconds": 60}])),
    }


@st.composite
def _structures(draw: st.DrawFn, kind: Any, kept: bool) -> list[Spec]:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    return [{"name": name, **draw(kind(kept))} for name in names]


@st.composite
def _map(draw: st.DrawFn, kept: bool) -> Spec:
    policy = draw(st.sampled_from(["None", "Lru", "Lfu", "Random"]))
    sizes = st.sampled_from(["PerNode", "UsedHeapSize"])
    size = 0 if policy == "None" else draw(st.integers(1, 2**31 - 1))
    eviction = {"policy": policy, "size": size, "maxSizePolicy": draw(sizes)}
    return {
        "timeToLiveSeconds": draw(_COUNTS),
        "maxIdleSeconds": draw(_COUNTS),
        "eviction": eviction,
        **draw(_kept(kept)),
    }


@st.composite
def _queue(draw: st.DrawFn, kept: bool) -> Spec:
    return {"maxSize": draw(_COUNTS), **draw(_kept(kept))}


@st.composite
def _kept(draw: st.DrawFn, kept: bool) -> Spec:
    if draw(st.booleans()):
        return {}
    return {
        "dataPersistence": {"enabled": kept and draw(st.booleans()), "fsync": draw(st.booleans())}
    }


@st.composite
def _replications(draw: st.DrawFn) -> list[Spec]:
    names = draw(st.lists(_WAN_NAMES, unique=True, max_size=2))
    return [{"name": name, "publishers": draw(_publishers())} for name in names]


@st.composite
def _publishers(draw: st.DrawFn) -> list[Spec]:
    ids = draw(st.lists(_WAN_NAMES, unique=True, max_size=2))
    endpoints = st.sampled_from(["b", "b.example:1", "192.0.2.1", "[::1]", "[::1]:65535"])
    targets = [{"name": "b"}, {"name": "b", "namespace": "n"}]
    return [
        {
            "id": each,
            "targetCluster": draw(_CLUSTER_NAMES),
            **draw(
                st.fixed_dictionaries({"target": st.sampled_from(targets)})
                | st.fixed_dictionaries({"endpoints": st.lists(endpoints, min_size=1, max_size=3)})
            ),
            "secretName": draw(st.sampled_from(WAN_SECRETS)),
            "state": draw(st.sampled_from(["Replicating", "Paused", "Stopped", "Manual"])),
            "queueCapacity": draw(st.integers(100, 10_000_000)),
            "queueFullBehavior": draw(st.sampled_from(["DiscardAfterMutation", "ThrowException"])),
            "batchSize": draw(st.integers(1, 10_000)),
        }
        for each in ids
    ]


@st.composite
def _reference(draw: st.DrawFn, replications: list[str]) -> Spec:
    policies = ["LatestUpdate", "PassThrough", "PutIfAbsent"]
    return {
        "replication": draw(st.sampled_from(replications)),
        "mergePolicy": draw(st.sampled_from(policies)),
        "republishing": draw(st.booleans()),
        "includeKeys": draw(st.lists(NAMES, max_size=2)),
        "excludeKeys": draw(st.lists(NAMES, max_size=2)),
    }


@st.composite
def _listener(draw: st.DrawFn) -> Spec:
    enabled = draw(st.booleans())
    certificates = draw(st.sampled_from(["None", "Optional", "Required"]))
    tls = draw(st.none() | st.just({"secretName": "w", "clientCertificates": certificates}))
    if not enabled:
        return {"tls": tls}
    return {
        "enabled": True,
        "tls": tls,
        "acceptedClusters": draw(st.lists(_CLUSTER_NAMES, max_size=2)),
    }


@st.composite
def _persistence(draw: st.DrawFn, size: int) -> Spec:
    backups: list[Spec | None] = [None, {"claimName": "b"}, {"volume": {}}]
    policies = ["FullRecoveryOnly", "PartialRecoveryMostRecent", "PartialRecoveryMostComplete"]
    return {
        "enabled": True,
        "recoveryPolicy": draw(st.sampled_from(policies)),
        "validationTimeoutSeconds": draw(st.integers(1, 2**31 - 1)),
        "backup": draw(st.sampled_from(backups if size == 1 else backups[:1])),
    }


@st.composite
def _security(draw: st.DrawFn) -> Spec:
    if draw(st.booleans()):
        return {}
    users = draw(st.lists(st.from_regex(r"\A[A-Za-z0-9._@-]{1,12}\Z"), unique=True, max_size=3))
    return {
        "enabled": True,
        "users": [{"name": name, "secretName": f"s{i}"} for i, name in enumerate(users)],
        "protected": draw(st.lists(st.sampled_from(_GROUPS), unique=True)),
    }


@st.composite
def _tls(draw: st.DrawFn) -> Spec:
    certificates = draw(st.sampled_from(["None", "Optional"]))
    members = draw(st.sampled_from([None, False, True]))
    return {"secretName": "t", "clientCertificates": certificates, "members": members}


def _without_nothing(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _without_nothing(value) for key, value in spec.items() if value is not None}
    return spec
