"""WAN replication in a configuration: the listener, replications, and references of maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.config import ConfigError, config_from
from grid_member.config.model.member import User
from grid_member.config.model.security import ClientCertificates
from grid_member.config.model.wan import (
    WanPublisherConfig,
    WanReferenceConfig,
    WanReplicationConfig,
    WanTargetTlsConfig,
)
from tests.unit.member.config.loading import load, problems
from tests.unit.member.config.refusals import problems as problems_of_text

if TYPE_CHECKING:
    from tests.unit.member.config.trees import Tree


USERS: Final = {"simple": {"users": [{"username": "london", "password": "a"}]}}
IDENTITY: Final = {"username-password": {"username": "tokyo", "password": "b"}}
REALMS: Final = [
    {"name": "wan", "authentication": USERS},
    {"name": "to-london", "identity": IDENTITY},
]
REQUIRED: Final = {"cluster-name": "london", "target-endpoints": "a.example", "realm": "to-london"}
TLS: Final = {"enabled": True, "certificate-file": "tls.crt", "key-file": "tls.key"}
PUBLISHER: Final = "wan-replication.r.batch-publisher.london"
ENDPOINT: Final = "wan-server-socket-endpoint-config"


def wan(publisher: Tree | None = None, **top: Any) -> Tree:
    """Return a configuration with one publisher, and what else there is at the top."""
    block = REQUIRED | (publisher or {})
    return {
        "security": {"realms": REALMS},
        "wan-replication": {"r": {"batch-publisher": {"london": block}}},
    } | {name.replace("_", "-"): below for name, below in top.items()}


def listener(**written: Any) -> Tree:
    block = {"enabled": True, "realm": "wan"} | written
    return {"security": {"realms": REALMS}, "network": {"wan": block}}


def publisher(tree: Tree) -> WanPublisherConfig:
    return load(tree).wan.replications["r"].publishers["london"]


def test_what_a_publisher_is_by_default() -> None:
    assert publisher(wan()) == WanPublisherConfig(
        publisher_id="london",
        cluster_name="london",
        target_endpoints=(("a.example", 5705),),
        realm="to-london",
        identity=User("tokyo", "b"),
        tls=None,
        batch_size=500,
        batch_max_delay_ms=1000,
        response_timeout_ms=60_000,
        queue_capacity=100_000,
        queue_full_behavior="DISCARD_AFTER_MUTATION",
        max_concurrent_invocations=-1,
        discovery_period_s=10,
        max_target_endpoints=2147483647,
        initial_publisher_state="REPLICATING",
        consistency_check_strategy="MERKLE_TREES",
        extra_entries="KEEP",
        compression="AUTO",
    )


def test_what_there_is_without_wan() -> None:
    config = load({"map": {"a": {}}})
    assert config.wan_listener is None
    assert config.maps["a"].wan is None
    assert config.wan.replications == {}
    assert config.wan.accepted_clusters is None
    assert (config.wan.tombstone_retention_s, config.wan.max_tombstones) == (604_800, 1_000_000)
    assert config.wan.max_clock_ahead_s == 60


def test_everything_of_a_publisher() -> None:
    found = publisher(
        wan(
            {
                "target-endpoints": "a.example:7000, 10.0.0.1,[::1]:7001 , b.example",
                "batch-size": 7,
                "batch-max-delay-millis": 8,
                "response-timeout-millis": 1009,
                "acknowledge-type": "ack_on_operation_complete",
                "queue-capacity": 110,
                "queue-full-behavior": "throw_exception",
                "max-concurrent-invocations": 11,
                "discovery-period-seconds": 12,
                "max-target-endpoints": 13,
                "use-endpoint-private-address": False,
                "initial-publisher-state": "stopped",
                "snapshot-enabled": True,
                "sync": {"consistency-check-strategy": "none", "extra-entries": "remove"},
                "compression": "none",
            },
            network={"wan": {"ssl": TLS | {"ca-file": "ca.crt"}}},
        )
    )
    assert found == WanPublisherConfig(
        publisher_id="london",
        cluster_name="london",
        target_endpoints=(
            ("a.example", 7000),
            ("10.0.0.1", 5705),
            ("::1", 7001),
            ("b.example", 5705),
        ),
        realm="to-london",
        identity=User("tokyo", "b"),
        tls=WanTargetTlsConfig("network.wan.ssl", Path("ca.crt"), Path("tls.crt"), Path("tls.key")),
        batch_size=7,
        batch_max_delay_ms=8,
        response_timeout_ms=1009,
        queue_capacity=110,
        queue_full_behavior="THROW_EXCEPTION",
        max_concurrent_invocations=11,
        discovery_period_s=12,
        max_target_endpoints=13,
        initial_publisher_state="STOPPED",
        consistency_check_strategy="NONE",
        extra_entries="REMOVE",
        compression="NONE",
    )


def test_a_replication_may_be_declared_for_later() -> None:
    assert load({"wan-replication": {"r": {}}}).wan.replications == {"r": WanReplicationConfig("r")}


BOUNDS: Final = [
    ("batch-size", 1, 10_000),
    ("batch-max-delay-millis", 0, 60_000),
    ("response-timeout-millis", 1000, 600_000),
    ("queue-capacity", 100, 10_000_000),
    ("max-concurrent-invocations", -1, 32),
    ("discovery-period-seconds", 1, 3600),
    ("max-target-endpoints", 1, 2147483647),
]
GENERAL: Final = [
    ("tombstone-retention-seconds", 600, 31_536_000),
    ("max-tombstones", 1, 2147483647),
    ("max-clock-ahead-seconds", 1, 3600),
]


@pytest.mark.parametrize(("name", "low", "high"), BOUNDS)
def test_the_bounds_of_a_publisher(name: str, low: int, high: int) -> None:
    for number in (low, high):
        load(wan({name: number}))
    for number in (low - 1, high + 1):
        assert problems(wan({name: number})) == [
            f"{PUBLISHER}.{name}: must be from {low} to {high}"
        ]


@pytest.mark.parametrize(("name", "low", "high"), GENERAL)
def test_the_bounds_of_all(name: str, low: int, high: int) -> None:
    for number in (low, high):
        load({"wan": {name: number}})
    for number in (low - 1, high + 1):
        assert problems({"wan": {name: number}}) == [f"wan.{name}: must be from {low} to {high}"]


WITH_MANY: Final[Tree] = {f"r{n}": {} for n in range(16)}
WRONG: Final[list[tuple[Tree, list[str]]]] = [
    (
        wan({"max-concurrent-invocations": 0}),
        [f"{PUBLISHER}.max-concurrent-invocations: must be -1 or from 1 to 32"],
    ),
    (
        wan({"use-endpoint-private-address": True}),
        [
            f"{PUBLISHER}.use-endpoint-private-address: true is not supported: write the addresses "
            "that are reached from here into target-endpoints, leave it out"
        ],
    ),
    (
        wan({"snapshot-enabled": False}),
        [
            f"{PUBLISHER}.snapshot-enabled: false is not supported: only the newest change of a "
            "key travels, leave it out"
        ],
    ),
    (
        wan({"acknowledge-type": "ACK_ON_RECEIPT"}),
        [
            f"{PUBLISHER}.acknowledge-type: ACK_ON_RECEIPT is not supported: use "
            "ACK_ON_OPERATION_COMPLETE, what is received may be lost"
        ],
    ),
    (
        {"wan-replication": {"r": {"consumer": {"persist-wan-replicated-data": False}}}},
        [
            "wan-replication.r.consumer.persist-wan-replicated-data: false is not supported: "
            "entries that come are kept as the map's data-persistence says, leave it out"
        ],
    ),
    (
        {"wan-replication": {"r": {"batch-publisher": {"london": {"compression": "NONE"}}}}},
        [
            f"{PUBLISHER}: needs cluster-name: the cluster-name of the target",
            f"{PUBLISHER}: needs target-endpoints: addresses of the target's WAN port",
            f"{PUBLISHER}: needs a realm, the name of one of security.realms whose identity the "
            "member shows to the target, or an ssl with a certificate-file",
        ],
    ),
    (
        wan({"target-endpoints": "a.example; b.example"}),
        [
            f"{PUBLISHER}.target-endpoints: must be addresses with commas between them, each of "
            "them host, host:port, [IPv6] or [IPv6]:port"
        ],
    ),
    (
        wan({"target-endpoints": ",".join(f"a{n}" for n in range(33))}),
        [f"{PUBLISHER}.target-endpoints: must have at most 32 addresses"],
    ),
    (wan({"realm": "x"}), [f"{PUBLISHER}.realm: no realm of this name in security.realms"]),
    (
        wan({"realm": "wan"}),
        [
            f"{PUBLISHER}.realm: names a realm without identity.username-password, which the "
            "member would show to the target"
        ],
    ),
    (
        wan({"ssl": {"enabled": True}}),
        [
            f"{PUBLISHER}.ssl: needs a ca-file, the authorities that the target's certificate is "
            "from, here or in network.wan.ssl"
        ],
    ),
    (
        wan({"ssl": {"enabled": True, "ca-file": "c", "key-file": "k"}}),
        [f"{PUBLISHER}.ssl.key-file: needs a certificate-file beside it"],
    ),
    (
        wan({"ssl": {"enabled": True, "ca-file": "c", "certificate-file": "k"}}),
        [f"{PUBLISHER}.ssl: needs a key-file beside its certificate-file"],
    ),
    (
        {"wan-replication": WITH_MANY | {"r16": {}}},
        ["wan-replication: must have at most 16 replications"],
    ),
    (
        wan(wan_replication={"r": {"batch-publisher": {f"p{n}": REQUIRED for n in range(9)}}}),
        ["wan-replication.r.batch-publisher: must have at most 8 publishers"],
    ),
    (
        {"wan-replication": {"a&b": {}}},
        [
            "wan-replication.a&b: the name must not contain &, which separates the parameters of "
            "WAN calls"
        ],
    ),
    (
        {"wan-replication": {"ä" * 128: {}}},
        [f"wan-replication.{'ä' * 128}: the name must have from 1 to 255 bytes"],
    ),
    (
        wan(map={"m": {"wan-replication-ref": {"x": {}}}}),
        ["map.m.wan-replication-ref.x: no replication of this name in wan-replication"],
    ),
    (
        wan(
            wan_replication={"r": {}, "s": {}},
            map={"m": {"wan-replication-ref": {"r": {}, "s": {}}}},
        ),
        [
            "map.m.wan-replication-ref: must name one replication: a replication has several "
            "publishers"
        ],
    ),
    (
        wan(map={"m": {"wan-replication-ref": {"r": {"key-filter": {"include": ["a*b*"]}}}}}),
        ["map.m.wan-replication-ref.r.key-filter.include[0]: may hold one * only"],
    ),
    (
        wan(map={"m": {"wan-replication-ref": {"r": {"key-filter": {"exclude": ["a"] * 33}}}}}),
        ["map.m.wan-replication-ref.r.key-filter.exclude: must have at most 32 patterns"],
    ),
    (
        {"queue": {"q": {"wan-replication-ref": "r"}}},
        [
            "queue.q.wan-replication-ref: is not supported: leave it out, maps are replicated and "
            "queues are not"
        ],
    ),
    (
        listener(realm="x"),
        ["network.wan.realm: no realm of this name in security.realms"],
    ),
    (
        {"network": {"wan": {"enabled": True, "ssl": TLS}}},
        [
            "network.wan: needs a realm, the name of one of security.realms, or an ssl that is "
            "enabled with client-certificates: required"
        ],
    ),
]


@pytest.mark.parametrize(("tree", "expected"), WRONG)
def test_what_is_wrong_is_told(tree: Tree, expected: list[str]) -> None:
    assert problems(tree) == expected


@pytest.mark.parametrize("policy", ["HigherHits", "LatestAccess", "ExpirationTime", "Discard"])
@pytest.mark.parametrize("package", ["", "com.example.merge."])
def test_policies_that_cannot_be(policy: str, package: str) -> None:
    name = f"{policy}MergePolicy"
    reference = {"r": {"merge-policy-class-name": f"{package}{name}"}}
    assert problems(wan(map={"m": {"wan-replication-ref": reference}})) == [
        f"map.m.wan-replication-ref.r.merge-policy-class-name: {name} is not supported: use "
        "LatestUpdateMergePolicy"
    ]


def test_the_reference_of_a_map() -> None:
    maps: Tree = {
        "a": {"wan-replication-ref": {"r": None}},
        "b*": {
            "wan-replication-ref": {
                "r": {
                    "merge-policy-class-name": "com.example.merge.PassThroughMergePolicy",
                    "republishing-enabled": False,
                    "key-filter": {"include": ["a*", "b"], "exclude": ["*c"]},
                }
            },
            "merkle-tree": {"enabled": True, "depth": 2},
        },
        "c": {"merkle-tree": {"enabled": False}},
    }
    found = load(wan(map=maps)).maps
    assert found["a"].wan == WanReferenceConfig("r", "LatestUpdateMergePolicy", True, (), ())
    assert found["b*"].wan == WanReferenceConfig(
        "r", "PassThroughMergePolicy", False, ("a*", "b"), ("*c",)
    )
    assert found["c"].wan is None


def test_a_publisher_without_the_level_of_its_id_is_shown_the_right_form() -> None:
    text = (
        "grid:\n  wan-replication:\n    r:\n      batch-publisher:\n        cluster-name: london\n"
    )
    assert problems_of_text(text) == [
        "f:4:7: wan-replication.r.batch-publisher: lacks the level of the publisher's id: write "
        "batch-publisher: {ID: {cluster-name: NAME, target-endpoints: HOST:PORT}}"
    ]


def test_an_error_has_file_line_and_path_in_xml() -> None:
    text = (
        '<grid xmlns="urn:grid:config:1">\n<wan-replication name="r">\n<batch-publisher>\n'
        "<publisher-id>p</publisher-id>\n<batch-size>0</batch-size>\n</batch-publisher>\n"
        '<batch-publisher publisher-id="p"/>\n</wan-replication></grid>'
    )
    found = problems_of_text(text)
    path = "wan-replication.r.batch-publisher.p"
    assert f"f:5:1: {path}.batch-size: must be from 1 to 10000" in found
    assert f"f:7:1: {path}: is there twice, first in line 3" in found


def test_the_listener() -> None:
    found = load(listener(port={"port": 7000, "auto-increment": True, "port-count": 3}))
    wan_listener = found.wan_listener
    assert wan_listener is not None
    assert (wan_listener.port, wan_listener.auto_increment, wan_listener.port_count) == (
        *(7000, True, 3),
    )
    assert wan_listener.users == (User("london", "a"),)
    assert (wan_listener.wan, wan_listener.kind, wan_listener.tls) == (True, "wan", None)
    assert (wan_listener.setting, wan_listener.port_setting) == (
        *("network.wan", "network.wan.port"),
    )
    default = load(listener()).wan_listener
    assert default is not None
    assert (default.port, default.auto_increment, default.interfaces) == (5705, False, ("*",))
    assert load(listener(enabled=False)).wan_listener is None


def test_the_listener_of_advanced_network() -> None:
    tree = {
        "security": {"realms": REALMS},
        "advanced-network": {
            "enabled": True,
            ENDPOINT: {
                "port": {"port": 7000},
                "interfaces": {"enabled": True, "interfaces": ["10.0.0.1"]},
                "realm": "wan",
                "ssl": TLS | {"ca-file": "ca.crt"},
            },
        },
    }
    found = load(tree | {"wan-replication": wan()["wan-replication"]})
    assert found.wan_listener is not None
    assert (found.wan_listener.port, found.wan_listener.interfaces) == (7000, ("10.0.0.1",))
    assert found.wan_listener.setting == f"advanced-network.{ENDPOINT}"
    tls = found.wan.replications["r"].publishers["london"].tls
    assert tls is not None
    assert tls.setting == f"advanced-network.{ENDPOINT}.ssl"


def test_client_certificates_take_the_place_of_a_realm() -> None:
    ssl = TLS | {"ca-file": "ca.crt", "client-certificates": "required"}
    found = load({"network": {"wan": {"enabled": True, "ssl": ssl}}}).wan_listener
    assert found is not None
    assert found.users == ()
    assert found.tls is not None
    assert found.tls.client_certificates is ClientCertificates.REQUIRED
    assert found.tls.client_ca == Path("ca.crt")


def test_a_publisher_with_a_certificate_needs_no_realm() -> None:
    ssl = {"enabled": True, "ca-file": "a.crt", "certificate-file": "b.crt", "key-file": "b.key"}
    tree = wan({"ssl": ssl | {"minimum-version": "TLSv1.3", "key-password": "x"}})
    del tree["wan-replication"]["r"]["batch-publisher"]["london"]["realm"]
    found = publisher(tree)
    assert (found.realm, found.identity) == (None, None)
    assert found.tls == WanTargetTlsConfig(
        f"{PUBLISHER}.ssl", Path("a.crt"), Path("b.crt"), Path("b.key"), "x", "TLSv1.3"
    )


def test_a_publisher_may_speak_plain_beside_a_listener_with_tls() -> None:
    network = {"wan": {"ssl": TLS | {"ca-file": "ca.crt"}}}
    assert publisher(wan({"ssl": {"enabled": False}}, network=network)).tls is None


def test_authorities_alone_are_enough_for_a_publisher() -> None:
    found = publisher(wan({"ssl": {"enabled": True, "ca-file": "a.crt"}}))
    assert found.tls == WanTargetTlsConfig(f"{PUBLISHER}.ssl", Path("a.crt"))


@pytest.mark.parametrize(
    ("other", "setting"),
    [
        ({"rest-api": {"enabled": True}, "port": {"port": 7000}}, "network.port"),
        (
            {"management": {"enabled": True, "realm": "wan", "port": {"port": 7000}}},
            "network.management.port",
        ),
    ],
)
def test_the_port_is_that_of_no_other_listener(other: Tree, setting: str) -> None:
    tree = listener(port={"port": 7000})
    tree["network"] |= other
    assert problems(tree) == [f"network.wan.port: must differ from the port of {setting}"]


def test_the_port_is_not_that_of_the_metrics_or_of_the_members() -> None:
    tree = listener(port={"port": 7000}) | {"metrics": {"enabled": True, "port": {"port": 7000}}}
    assert problems(tree) == ["metrics.port: must differ from the port of network.wan.port"]
    tree = listener(port={"port": 5704})
    tree["network"]["join"] = {"tcp-ip": {"enabled": True, "member-list": ["a", "b"]}}
    assert "network.cluster.port: must differ from the port of network.wan.port" in problems(tree)


def test_members_of_several_replicate_too() -> None:
    several = {"tcp-ip": {"enabled": True, "member-list": ["a", "b"]}}
    tree = wan(map={"m": {"wan-replication-ref": {"r": {}}}, "plain": {}}) | {
        "network": {"wan": {"enabled": True, "realm": "wan"}, "join": several}
    }
    found = load(tree)
    assert found.cluster is not None
    assert found.wan_listener is not None
    assert found.wan.replications
    advanced = {
        "security": {"realms": REALMS},
        "advanced-network": {"enabled": True, ENDPOINT: {"realm": "wan"}, "join": several},
    }
    assert load(advanced).wan_listener is not None


def test_with_several_members_an_empty_element_is_taken() -> None:
    several = {"tcp-ip": {"enabled": True, "member-list": ["a", "b"]}}
    tree = {
        "network": {"join": several},
        "wan-replication": None,
        "map": {"m": {"wan-replication-ref": None}},
    }
    assert not load(tree).wan.replications


def notes(tree: Tree) -> list[str]:
    return list(config_from(tree, {}).notes)


def test_a_map_whose_entries_go_by_themselves_is_warned_of() -> None:
    block: Tree = {"wan-replication-ref": {"r": {}}}
    eviction = {"eviction-policy": "LRU", "size": 5}
    told = (
        "is not replicated: an entry that goes by it stays in the other cluster, the clusters "
        "agree on what both hold"
    )
    assert notes(wan(map={"m": block})) == []
    assert notes(wan(map={"m": block | {"eviction": eviction, "max-idle-seconds": 3}})) == [
        f"map.m.eviction: {told}",
        f"map.m.max-idle-seconds: {told}",
    ]
    assert notes(wan(map={"m": {"eviction": eviction, "max-idle-seconds": 3}})) == []


@pytest.mark.parametrize("policy", ["PassThroughMergePolicy", "PutIfAbsentMergePolicy"])
def test_a_policy_for_one_direction_is_warned_of_where_there_are_two(policy: str) -> None:
    maps = {"m": {"wan-replication-ref": {"r": {"merge-policy-class-name": policy}}}}
    network = {"wan": {"enabled": True, "realm": "wan"}}
    both = wan(map=maps, network=network)
    assert notes(both) == [
        f"map.m.wan-replication-ref.r.merge-policy-class-name: {policy} is for one direction "
        "only, and this cluster takes changes of the cluster that it sends to: use "
        "LatestUpdateMergePolicy where both write"
    ]
    assert notes(wan(map=maps)) == []
    assert notes(both | {"wan": {"accepted-clusters": ["paris"]}}) == []
    assert len(notes(both | {"wan": {"accepted-clusters": ["paris", "london"]}})) == 1


def test_accepted_clusters() -> None:
    found = load({"wan": {"accepted-clusters": ["a", "b"], "max-tombstones": 5}}).wan
    assert found.accepted_clusters == ("a", "b")
    assert found.max_tombstones == 5
    assert problems({"wan": {"accepted-clusters": []}}) == [
        "wan.accepted-clusters: names no cluster: leave it out, which accepts all, or name one"
    ]


def test_variables_override_a_publisher() -> None:
    variables = {
        "GRID_MEMBER_WANREPLICATION_R_BATCHPUBLISHER_LONDON_BATCHSIZE": "7",
        "GRID_MEMBER_WAN_MAXTOMBSTONES": "8",
        "GRID_MEMBER_NETWORK_WAN_ENABLED": "true",
        "GRID_MEMBER_NETWORK_WAN_REALM": "wan",
    }
    found = config_from(wan(), variables)
    assert found.wan.replications["r"].publishers["london"].batch_size == 7
    assert found.wan.max_tombstones == 8
    assert found.wan_listener is not None
    with pytest.raises(ConfigError, match="must be from 1 to 10000"):
        config_from(wan(), variables | {next(iter(variables)): "0"})


def test_no_credential_is_shown() -> None:
    shown = repr(load(wan(network=listener()["network"])))
    assert "password=" not in shown
