"""What makes a member one of several, the same in YAML, XML, Python and the environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.config import MemberConfig, config_from
from grid_member.config.convert import convert, write_yaml
from grid_member.config.model.security import ClientCertificates, TlsConfig
from grid_member.config.python_source import read_python
from tests.unit.member.config.loading import load, problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config import ClusterConfig
    from tests.unit.member.config.trees import Tree

REST = "rest-server-socket-endpoint-config"
MEMBERS = "member-server-socket-endpoint-config"
MANAGEMENT = "management-server-socket-endpoint-config"
USER = {"username": "u", "password": "p"}
IDENTITY = {"username": "members", "password": "one secret of all"}
FILES = {"certificate-file": "m.crt", "key-file": "m.key", "ca-file": "ca.crt"}
TLS = TlsConfig(
    setting="",
    certificate=Path("m.crt"),
    key=Path("m.key"),
    client_certificates=ClientCertificates.REQUIRED,
    client_ca=Path("ca.crt"),
)


def joined(*members: str, **network: Any) -> Tree:
    join = {"tcp-ip": {"enabled": True, "member-list": list(members or ("a", "b", "c"))}}
    return {"network": {"join": join, **network}}


def joined_advanced(**endpoints: Any) -> Tree:
    return {"advanced-network": {"enabled": True, **joined()["network"], **endpoints}}


def secured(
    identity: Mapping[str, str] | None = None, *, enabled: bool = True, name: str = "dev"
) -> Tree:
    realm: Tree = {"name": "members", "authentication": {"simple": {"users": [USER]}}}
    if identity is not None:
        realm["identity"] = {"username-password": dict(identity)}
    security = {
        "enabled": enabled,
        "realms": [realm],
        "member-authentication": {"realm": "members"},
    }
    return {"cluster-name": name, **joined(), "security": security}


def cluster(tree: Tree) -> ClusterConfig:
    found = load(tree).cluster
    assert found is not None
    return found


@pytest.mark.parametrize(
    "tree",
    [
        {},
        joined("a:5701"),
        {"network": {"join": {"tcp-ip": {"enabled": True}}}},
        {"network": {"join": {"tcp-ip": {"enabled": True, "member-list": []}}}},
        {"network": {"join": {"tcp-ip": {"member-list": ["a", "b"]}}}},
        {"advanced-network": joined()["network"]},
        {"network": {"cluster": {"port": {"port": 1}, "ssl": {"enabled": True, **FILES}}}},
        {**joined("a"), "map": {"m": {"backup-count": 4, "async-backup-count": 2}}},
        {**joined("a"), "metrics": {"enabled": True}},
    ],
)
def test_a_member_is_alone(tree: Tree) -> None:
    assert load(tree).cluster is None


def test_two_listed_members_are_a_cluster() -> None:
    config = load(joined("a", "b"))

    assert config.join_members == ("a", "b")
    found = config.cluster
    assert found is not None
    assert (found.port, found.members) == (5704, (("a", 5704), ("b", 5704)))
    assert (found.interfaces, found.host) == (("*",), "0.0.0.0")
    assert (found.tls, found.lite, found.backup_count) == (None, False, 1)


def test_all_forms_of_a_member_and_the_port_of_those_without() -> None:
    listed = ("a.b.", "A.b:1", "10.0.0.1", "10.0.0.1:65535", "::1", "[::1]:2", "[fe80::1]")
    found = cluster(joined(*listed, cluster={"port": {"port": 7000}}))

    assert found.port == 7000
    assert found.members == (
        *(("a.b.", 7000), ("A.b", 1), ("10.0.0.1", 7000), ("10.0.0.1", 65535)),
        *(("::1", 7000), ("::1", 2), ("fe80::1", 7000)),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "a"),
        ("a", "a:5704"),
        ("a.b", "A.B."),
        ("::1", "[0:0::0:1]:5704"),
        ("10.0.0.1:9", "10.0.0.1:9"),
    ],
)
def test_a_member_is_listed_once(one: str, other: str) -> None:
    assert problems(joined("x", one, other)) == [
        "network.join.tcp-ip.member-list[2]: is the same member as "
        "network.join.tcp-ip.member-list[1]"
    ]


def test_a_wrong_address_is_told_once() -> None:
    assert problems(joined("a", "b c", "b c")) == [
        f"network.join.tcp-ip.member-list[{n}]: holds spaces: write the address of each "
        "member as an item of its own"
        for n in (1, 2)
    ]


def test_members_listen_where_the_member_does() -> None:
    interfaces = {"enabled": True, "interfaces": ["10.0.0.1"]}
    found = cluster(joined(interfaces=interfaces))
    assert (found.interfaces, found.host) == (("10.0.0.1",), "10.0.0.1")
    interfaces["interfaces"] = ["10.0.0.1", "*"]
    assert cluster(joined(interfaces=interfaces)).host == "0.0.0.0"
    interfaces["interfaces"] = ["10.0.0.1", "10.0.0.2"]
    assert problems(joined(interfaces=interfaces)) == [
        "network.interfaces: lists several addresses, and the port of network.cluster.port listens "
        "on one or on all: list one or *, or give it interfaces of its own in advanced-network"
    ]


def test_advanced_network_has_a_members_port_of_its_own() -> None:
    default = cluster(joined_advanced())
    assert (default.port, default.interfaces) == (5704, ("*",))

    found = cluster(
        joined_advanced(
            **{
                MEMBERS: {
                    "port": {"port": 7000},
                    "interfaces": {"enabled": True, "interfaces": ["::1"]},
                    "ssl": {"enabled": True, **FILES},
                },
                REST: {"interfaces": {"enabled": True, "interfaces": ["10.0.0.1", "10.0.0.2"]}},
            }
        )
    )
    assert (found.port, found.host) == (7000, "::1")
    assert found.members == (("a", 7000), ("b", 7000), ("c", 7000))
    assert found.tls == replace(TLS, setting=f"advanced-network.{MEMBERS}.ssl")


def test_members_speak_tls_and_check_each_other() -> None:
    found = cluster(joined(cluster={"ssl": {"enabled": True, **FILES}}))
    assert found.tls == replace(TLS, setting="network.cluster.ssl")
    assert cluster(joined(cluster={"ssl": {"enabled": False, **FILES}})).tls is None


@pytest.mark.parametrize("network", ["network", "advanced-network"])
@pytest.mark.parametrize("missing", FILES)
def test_tls_between_members_needs_all_files(missing: str, network: str) -> None:
    ssl = {"enabled": True, **{name: file for name, file in FILES.items() if name != missing}}
    section = {"network": "cluster", "advanced-network": MEMBERS}[network]
    tree = {network: {section: {"ssl": ssl}}}
    assert problems(tree) == [f"{network}.{section}.ssl: needs a {missing} when enabled"]


TAKEN: list[tuple[Tree, str, str]] = [
    (
        joined(**{"rest-api": {"enabled": True}, "port": {"port": 5704}}),
        "network.cluster.port",
        "network.port",
    ),
    (
        {**joined(), "metrics": {"enabled": True, "port": {"port": 5704}}},
        "network.cluster.port",
        "metrics.port",
    ),
    (
        joined_advanced(**{REST: {}, MEMBERS: {"port": {"port": 5701}}}),
        f"advanced-network.{MEMBERS}.port",
        f"advanced-network.{REST}.port",
    ),
    (
        {
            "security": secured(enabled=False)["security"],
            **joined_advanced(**{MANAGEMENT: {"realm": "members", "port": {"port": 5704}}}),
        },
        f"advanced-network.{MEMBERS}.port",
        f"advanced-network.{MANAGEMENT}.port",
    ),
]


@pytest.mark.parametrize(("tree", "port", "other"), TAKEN, ids=[other for *_, other in TAKEN])
def test_the_members_port_is_no_other_port(tree: Tree, port: str, other: str) -> None:
    assert problems(tree) == [f"{port}: must differ from the port of {other}"]


def test_the_members_port_is_chosen_and_never_counted_up() -> None:
    found = problems(joined(cluster={"port": {"port": 0}}))
    assert found == ["network.cluster.port.port: must be from 1 to 65535"]
    why = "is not supported: the others go by their member-list, choose one port"
    found = problems(joined(cluster={"port": {"auto-increment": True, "port-count": 3}}))
    assert found == [f"network.cluster.port.{n}: {why}" for n in ("auto-increment", "port-count")]


@pytest.mark.parametrize(
    ("counts", "highest"), [((), 1), ((0,), 0), ((0, None), 1), ((1, 2), 2), ((0, 0), 0)]
)
def test_the_highest_backup_count_is_that_of_the_cluster(
    counts: tuple[int | None, ...], highest: int
) -> None:
    blocks = [{} if count is None else {"backup-count": count} for count in counts]
    maps = {f"m{n}": block for n, block in enumerate(blocks)}
    tree = {**joined(), "map": dict(list(maps.items())[:1]), "queue": dict(list(maps.items())[1:])}
    assert cluster(tree).backup_count == highest


def test_more_backups_than_a_cluster_has_are_refused() -> None:
    tree = {
        **joined(),
        "map": {"m": {"backup-count": 3}},
        "queue": {"q": {"backup-count": 2, "async-backup-count": 1}},
    }
    assert problems(tree) == [
        "map.m.backup-count: must be from 0 to 2 in a cluster",
        "queue.q.async-backup-count: must be 0 in a cluster: a write is answered when its backups "
        "have it",
    ]


def test_a_lite_member_is_never_alone() -> None:
    lite = {"lite-member": {"enabled": True}}
    assert cluster({**joined(), **lite}).lite
    for alone in ({}, joined("a"), {"advanced-network": joined()["network"]}):
        assert problems({**alone, **lite}) == [
            "lite-member.enabled: needs others to hold the data: list all members in "
            "join.tcp-ip.member-list"
        ]


def test_members_of_one_cluster_know_each_other_and_no_others() -> None:
    def password(tree: Tree) -> str:
        # Of another member: listed otherwise, listening elsewhere.
        other = cluster({**tree, **joined("x", "y", cluster={"port": {"port": 9}})})
        found = cluster(tree)
        assert (found.user, found.password) == (other.user, other.password)
        return found.password

    trees = [
        joined(),
        {"cluster-name": "prod", **joined()},
        secured(IDENTITY),
        secured(IDENTITY, name="prod"),
        secured({**IDENTITY, "password": "another secret of all"}),
        secured({**IDENTITY, "username": "others"}),
    ]
    passwords = [password(tree) for tree in trees]

    assert len(set(passwords)) == len(trees)
    assert not [p for p in passwords if p.strip("0123456789abcdef") or len(p) < 32]
    assert {cluster(tree).user for tree in trees} == {"grid"}


def test_an_identity_counts_only_with_security() -> None:
    assert cluster(secured(IDENTITY, enabled=False)) == cluster(joined())


def test_security_between_members_needs_an_identity() -> None:
    tree = secured()
    assert problems(tree) == [
        "security.realms[0]: needs an identity: with security members show it to each other"
    ]
    assert load({**tree, **joined("a")}).cluster is None
    tree["security"]["realms"][0]["identity"] = {"username-password": {"username": "u"}}
    assert problems(tree) == [
        "security.realms[0].identity.username-password: needs a username and a password"
    ]
    tree["security"]["member-authentication"]["realm"] = "nobody"
    assert "security.member-authentication.realm: no realm of this name in security.realms" in (
        problems(tree)
    )


def test_no_secret_is_shown() -> None:
    config = load(secured(IDENTITY))
    assert config.cluster is not None
    assert config.cluster.password not in repr(config)
    assert IDENTITY["password"] not in repr(config)


def test_text_of_the_environment_need_not_be_utf8() -> None:
    tree = secured({**IDENTITY, "password": "${SECRET}"})
    one, other = (config_from(tree, {"SECRET": secret}).cluster for secret in ("\udcff", "?"))
    assert one is not None
    assert one != other


def test_the_environment_makes_a_member_one_of_several() -> None:
    environment = {
        "GRID_MEMBER_NETWORK_JOIN_TCPIP_ENABLED": "true",
        "GRID_MEMBER_NETWORK_JOIN_TCPIP_MEMBERLIST_0": "a",
        "GRID_MEMBER_NETWORK_JOIN_TCPIP_MEMBERLIST_1": "b:7",
        "GRID_MEMBER_NETWORK_CLUSTER_PORT_PORT": "8",
        "GRID_MEMBER_NETWORK_CLUSTER_SSL_ENABLED": "true",
        "GRID_MEMBER_NETWORK_CLUSTER_SSL_CERTIFICATEFILE": "m.crt",
        "GRID_MEMBER_NETWORK_CLUSTER_SSL_KEYFILE": "m.key",
        "GRID_MEMBER_NETWORK_CLUSTER_SSL_CAFILE": "ca.crt",
        "GRID_MEMBER_LITEMEMBER_ENABLED": "true",
        # Kubernetes sets this for a Service called grid-network-cluster.
        "GRID_MEMBER_NETWORK_CLUSTER_PORT": "tcp://10.0.0.9:5704",
    }
    found = config_from({"network": {}}, environment).cluster
    expected = load(
        {
            **joined("a", "b:7", cluster={"port": {"port": 8}, "ssl": {"enabled": True, **FILES}}),
            "lite-member": {"enabled": True},
        }
    )
    assert found is not None
    assert found == expected.cluster


def test_conversion_keeps_the_cluster() -> None:
    tree = {
        **secured(IDENTITY),
        **joined(cluster={"port": {"port": 8}, "ssl": {"enabled": True, **FILES}}),
        "lite-member": {"enabled": True},
    }
    in_xml = convert(write_yaml(read_python(tree).root), "f", "xml")

    assert "<port>8</port>" in in_xml
    assert '<lite-member enabled="true"/>' in in_xml
    assert convert(convert(in_xml, "f", "yaml"), "f", "xml") == in_xml


def test_the_model_without_a_cluster_is_alone() -> None:
    assert MemberConfig().cluster is None


def test_what_several_members_cannot_have_is_named() -> None:
    tree = {
        **joined(),
        "limits": {"value-bytes": (60 << 20) + 1},
    }
    assert problems(tree) == ["limits.value-bytes: must be at most 62914560 with several members"]
    assert load({**tree, **joined("a")}).cluster is None
