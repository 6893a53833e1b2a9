"""What the settings mean and how they contradict, the same in YAML, XML and Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_member.config import (
    ConfigError,
    EndpointGroup,
    EvictionConfig,
    config_from,
    parse_config,
)
from grid_member.config.settings.refused_settings import REFUSED
from grid_member.config.settings.shape import Shape, settings_shape
from grid_member.config.settings.table import SETTINGS
from tests.unit.member.config.loading import load, problems

if TYPE_CHECKING:
    from grid_member.config.settings.refusal import RefusedSetting
    from grid_member.config.settings.setting import Setting

Tree = dict[str, Any]
GROUPS = EndpointGroup
DEFAULT = {GROUPS.CLUSTER_READ, GROUPS.HEALTH_CHECK}
REST = "rest-server-socket-endpoint-config"
MANAGEMENT = "management-server-socket-endpoint-config"
SECURITY = {
    "realms": [
        {"name": "other"},
        {
            "name": "ops",
            "authentication": {"simple": {"users": [{"username": "u", "password": "p"}]}},
        },
    ]
}


def advanced(**sections: Any) -> Tree:
    return {"advanced-network": {"enabled": True, **sections}, "security": SECURITY}


def endpoint(kind: str, **settings: Any) -> Tree:
    return advanced(**{kind: settings})


def eviction(**settings: Any) -> Tree:
    return {"map": {"a": {"eviction": {k.replace("_", "-"): v for k, v in settings.items()}}}}


CONTRADICTIONS: list[tuple[Tree, list[str]]] = [
    (
        {"shutdown": {"parked-file": "persistence/x"}},
        ["shutdown.parked-file: must not be inside of persistence.base-dir"],
    ),
    (
        {"security": {"enabled": True}},
        [
            "security: needs member-authentication.realm when enabled",
        ],
    ),
    (
        {"network": {}, **endpoint(REST)},
        [
            "network: contradicts advanced-network, which is enabled: leave one of the two out",
        ],
    ),
    (
        endpoint(REST, **{"endpoint-groups": {"data": {"enabled": True}}}),
        [
            f"advanced-network.{REST}.endpoint-groups.data: unknown endpoint group; known are "
            "CLUSTER_READ, CLUSTER_WRITE, HEALTH_CHECK, PERSISTENCE, WAN, DATA, CP"
        ],
    ),
    (
        {"network": {"rest-api": {"endpoint-groups": {"DATA": {}, "data": {"enabled": True}}}}},
        ["network.rest-api.endpoint-groups.data: is the same endpoint group as DATA"],
    ),
    (
        endpoint(MANAGEMENT),
        [f"advanced-network.{MANAGEMENT}: needs a realm: the name of one of security.realms"],
    ),
    (
        endpoint(MANAGEMENT, realm="nobody"),
        [f"advanced-network.{MANAGEMENT}.realm: no realm of this name in security.realms"],
    ),
    (
        endpoint(MANAGEMENT, realm="other"),
        [
            "security.realms[0].authentication.simple.users: the realm has no user who could "
            "authenticate"
        ],
    ),
    (
        advanced(**{REST: {"port": {"port": 5702}}, MANAGEMENT: {"realm": "ops"}}),
        [
            f"advanced-network.{MANAGEMENT}.port: must differ from the port of "
            f"advanced-network.{REST}.port"
        ],
    ),
    (
        {
            "network": {"rest-api": {"enabled": True}, "port": {"port": 5702}}
            | {"management": {"enabled": True, "realm": "ops"}},
            "security": SECURITY,
        },
        ["network.management.port: must differ from the port of network.port"],
    ),
    (
        endpoint(REST, interfaces={"enabled": True}),
        [f"advanced-network.{REST}.interfaces: is enabled and lists no interface"],
    ),
    (
        {"advanced-network": {REST: {"interfaces": {"interfaces": ["localhost"]}}}},
        [f"advanced-network.{REST}.interfaces.interfaces[0]: must be an IP address or * for any"],
    ),
    (
        eviction(size=1),
        [
            "map.a.eviction.size: contradicts eviction-policy NONE: choose LRU, LFU or RANDOM, or "
            "leave it out"
        ],
    ),
    (
        eviction(eviction_policy="LFU", max_size_policy="PER_NODE"),
        ["map.a.eviction: needs a size beside its eviction-policy"],
    ),
    (
        eviction(eviction_policy="LFU", max_size_policy="per_partition", size=1),
        ["map.a.eviction.max-size-policy: PER_PARTITION is not supported: use PER_NODE"],
    ),
    (
        eviction(eviction_policy="BEST", max_size_policy="ALL", size=1),
        [
            "map.a.eviction.eviction-policy: must be one of NONE, LRU, LFU, RANDOM",
            "map.a.eviction.max-size-policy: must be one of PER_NODE, USED_HEAP_SIZE",
            "map.a.eviction.size: contradicts eviction-policy NONE: choose LRU, LFU or RANDOM, or "
            "leave it out",
        ],
    ),
    (
        {"map": {"a": {"in-memory-format": "OBJECT"}}},
        ["map.a.in-memory-format: OBJECT is not supported: values are bytes, use BINARY"],
    ),
    (
        {"queue": {"a": {"empty-queue-ttl": -2}}},
        ["queue.a.empty-queue-ttl: must be from -1 to 2147483647"],
    ),
    (
        {"map": {"a": {"max-idle-seconds": -1}}},
        ["map.a.max-idle-seconds: must be from 0 to 2147483647"],
    ),
    ({"map": {"ab*": {}, "*ba": {}}}, ["map.*ba: matches names that ab* matches as well"]),
    (
        {"queue": {"a": {"data-persistence": {"enabled": False, "fsync": True}}}},
        ["queue.a.data-persistence.fsync: contradicts enabled: false beside it"],
    ),
]


@pytest.mark.parametrize(
    ("tree", "expected"), CONTRADICTIONS, ids=[e[0] for _, e in CONTRADICTIONS]
)
def test_contradictions(tree: Tree, expected: list[str]) -> None:
    assert problems(tree) == expected


def test_refused_endpoints_name_those_that_there_are() -> None:
    found = problems(advanced(**{"wan-endpoint-config": {}, REST: {"name": "x"}}))

    assert found == [
        "advanced-network.wan-endpoint-config: is not supported: leave it out, the "
        f"endpoints are {REST}, {MANAGEMENT}, member-server-socket-endpoint-config and "
        "wan-server-socket-endpoint-config",
        f"advanced-network.{REST}.name: is not supported: there is one endpoint of a kind, leave "
        "the name out",
    ]


def below(path: str, value: object) -> Tree:
    """Return a tree that has value at a path of the table."""
    found: Any = value
    for part in reversed(path.split(".")):
        found = [found] if part == "[]" else {"any" if part == "*" else part: found}
    assert isinstance(found, dict)
    return found


def turned_on(tree: Tree, shape: Shape) -> Tree:
    """Return the tree with every section on that is off by default."""
    on: Tree = {"cp-member-count": 3} if shape.path == "cp-subsystem" else {}
    switch = shape.below.get("enabled")
    if switch is not None and switch.setting is not None:
        on = {"enabled": True}
    for name, child in tree.items():
        known = shape.child(name)
        plain = known is None or known.refusal is not None or not isinstance(child, dict)
        on[name] = child if plain or known is None else turned_on(child, known)
    return on


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.path)
@pytest.mark.parametrize("value", ["x", {"y": 2}, [2]], ids=["value", "section", "list"])
def test_every_refused_setting_is_refused_by_name(refused: RefusedSetting, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(turned_on(below(refused.path, value), settings_shape()), {})
    path = refused.path.replace("*", "any").replace(".[]", "[0]")
    found = [problem.message for problem in caught.value.problems if problem.path == path]
    assert found == [refused.why]
    assert refused.why.startswith("is not supported")
    assert ": " in refused.why, "says what to write"


CHOICES = [setting for setting in SETTINGS if setting.refused_values]


@pytest.mark.parametrize("setting", CHOICES, ids=lambda setting: setting.path)
def test_refused_values_say_what_to_use(setting: Setting) -> None:
    for refused in setting.refused_values:
        with pytest.raises(ConfigError) as caught:
            config_from(below(setting.path, refused.value.lower()), {})
        message = f"{refused.value} is not supported: {refused.instead}"
        assert message in [problem.message for problem in caught.value.problems]


def test_advanced_network_has_defaults_of_its_own() -> None:
    config = load(advanced(**{REST: None, MANAGEMENT: {"realm": "ops"}}))

    rest, management = config.rest, config.management
    assert rest is not None
    assert (rest.port, rest.auto_increment, rest.port_count) == (5701, True, 100)
    assert rest.groups == DEFAULT
    assert rest.interfaces == ("*",)
    assert rest.users is None
    assert rest.setting == f"advanced-network.{REST}"
    assert rest.port_setting == f"advanced-network.{REST}.port"
    assert management is not None
    assert (management.port, management.auto_increment) == (5702, False)
    assert (management.groups, management.realm) == (frozenset(GROUPS), "ops")
    assert [user.name for user in management.users or ()] == ["u"]
    assert management.setting == f"advanced-network.{MANAGEMENT}"
    assert management.port_setting == f"advanced-network.{MANAGEMENT}.port"


def test_advanced_network_says_all_of_a_listener() -> None:
    config = load(
        advanced(
            **{
                REST: {
                    "port": {"port": 8080, "auto-increment": False, "port-count": 3},
                    "public-address": "one.example",
                    "interfaces": {"enabled": True, "interfaces": ["10.0.0.1", "::1"]},
                    "endpoint-groups": {
                        "DATA": {"enabled": True},
                        "CLUSTER_READ": {"enabled": False},
                    },
                },
                MANAGEMENT: {
                    "port": {"port": 8081},
                    "interfaces": {"enabled": True, "interfaces": ["127.0.0.1"]},
                    "endpoint-groups": {"CP": {"enabled": False}},
                    "realm": "ops",
                },
            }
        )
    )

    assert config.rest is not None
    assert (config.rest.port, config.rest.auto_increment, config.rest.port_count) == (
        8080,
        False,
        3,
    )
    assert config.rest.interfaces == ("10.0.0.1", "::1")
    assert config.rest.groups == {GROUPS.HEALTH_CHECK, GROUPS.DATA}
    assert config.public_address == "one.example"
    assert config.management is not None
    assert config.management.port == 8081
    assert config.management.interfaces == ("127.0.0.1",)
    assert config.management.groups == frozenset(GROUPS) - {GROUPS.CP}


def test_advanced_network_without_endpoints_listens_nowhere() -> None:
    config = load({"advanced-network": {"enabled": True}})
    assert (config.rest, config.management) == (None, None)


def test_advanced_network_has_no_effect_while_it_is_off() -> None:
    config = load(
        {
            "network": {"rest-api": {"enabled": True}, "public-address": "two.example"},
            "advanced-network": {REST: {"port": {"port": 1}, "public-address": "one.example"}},
        }
    )
    assert config.rest is not None
    assert (config.rest.port, config.rest.setting) == (5701, "network.rest-api")
    assert config.rest.port_setting == "network.port"
    assert config.public_address == "two.example"
    assert load({"advanced-network": {"enabled": False, REST: {}}}).rest is None


def test_the_listeners_of_network_share_its_interfaces() -> None:
    network = {
        "interfaces": {"enabled": True, "interfaces": ["127.0.0.1"]},
        "rest-api": {"enabled": True},
        "management": {"enabled": True, "realm": "ops"},
    }
    config = load({"network": network, "security": SECURITY})
    assert config.rest is not None
    assert config.management is not None
    assert config.rest.interfaces == config.management.interfaces == ("127.0.0.1",)
    assert config.management.port_setting == "network.management.port"


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (eviction(), None),
        (eviction(eviction_policy="NONE", size=0), None),
        (eviction(eviction_policy="LRU", size=0), None),
        (eviction(eviction_policy="LRU", size=5), EvictionConfig("LRU", max_entries=5)),
        (eviction(eviction_policy="lfu", size=1), EvictionConfig("LFU", max_entries=1)),
        (
            eviction(eviction_policy="RANDOM", size=3, max_size_policy="USED_HEAP_SIZE"),
            EvictionConfig("RANDOM", max_bytes=3 << 20),
        ),
    ],
)
def test_eviction(tree: Tree, expected: EvictionConfig | None) -> None:
    assert load(tree).maps["a"].eviction == expected


@pytest.mark.parametrize("seconds", [0, 1, 2**31 - 1])
def test_every_idle_time_can_be_used(seconds: int) -> None:
    config = load({"map": {"a": {"max-idle-seconds": seconds, "in-memory-format": "binary"}}})
    assert config.maps["a"].max_idle_s == seconds


def test_what_is_accepted_without_effect() -> None:
    assert load({"queue": {"a": {"empty-queue-ttl": 7}}}) == load({"queue": {"a": {}}})


JOIN = {"tcp-ip": {"enabled": True, "member-list": ["a", "[::1]:5713"]}}


def test_the_join_list_of_the_network_that_is_on() -> None:
    assert load({}).join_members is None
    assert load({"network": {"join": {"tcp-ip": {"member-list": ["a"]}}}}).join_members is None
    assert load({"network": {"join": JOIN}}).join_members == ("a", "[::1]:5713")
    advanced = {"join": JOIN, REST: {}}
    assert load({"advanced-network": advanced}).join_members is None
    on = load({"advanced-network": {"enabled": True, **advanced}})
    assert on.join_members == ("a", "[::1]:5713")


@pytest.mark.parametrize(
    "join",
    [
        "<member>a</member><member>[::1]:5701</member>",
        "<member-list><member>a</member><member>[::1]:5701</member></member-list>",
    ],
)
def test_the_join_list_in_xml(join: str) -> None:
    text = f'<join><tcp-ip enabled="true">{join}</tcp-ip></join>'
    text = f'<grid xmlns="urn:grid:config:1"><network>{text}</network></grid>'
    assert parse_config(text, "f", {}).join_members == ("a", "[::1]:5701")


def test_a_join_list_has_an_end() -> None:
    listed = [f"h{n}" for n in range(257)]
    load({"network": {"join": {"tcp-ip": {"member-list": listed[:-1]}}}})
    with pytest.raises(ConfigError, match="must have at most 256 addresses"):
        load({"network": {"join": {"tcp-ip": {"member-list": listed}}}})


@pytest.mark.parametrize("count", [0, 3, 2**31 - 1])
def test_the_size_of_the_cp_subsystem(count: int) -> None:
    assert load({"cp-subsystem": {"cp-member-count": count}}).cp_member_count == count
