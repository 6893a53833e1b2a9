"""Environment overrides: which variables are one, what they do, and what is wrong with them."""

from __future__ import annotations

import pytest

from grid_member.config import EndpointGroup, MemberConfig, parse_config
from grid_member.config.load import Config
from grid_member.config.settings.shape import settings_shape
from grid_member.config.settings.table import SETTINGS
from tests.unit.member.config import refusals

DOCUMENT = """grid:
  cluster-name: dev
  network:
    port: {port: 6000}
    interfaces: {enabled: true, interfaces: [127.0.0.1, "::1"]}
    rest-api:
      enabled: false
      endpoint-groups: {DATA: {enabled: false}, clusterwrite: {enabled: true}}
  security:
    realms:
      - name: ops
        authentication: {simple: {users: [{username: op, password: "${PASSWORD:}"}]}}
  map:
    default: {time-to-live-seconds: 5}
    my-map: {}
    Other_Map: {}
  queue:
  logging: {level: info}
"""
GROUPS = EndpointGroup


def loaded(**variables: str) -> MemberConfig:
    return parse_config(DOCUMENT, "f", {"PASSWORD": "p"} | variables)


def problems(text: str = DOCUMENT, **variables: str) -> list[str]:
    return refusals.problems(text, **{"PASSWORD": "p"} | variables)


@pytest.mark.parametrize(
    ("variable", "value", "attribute", "expected"),
    [
        ("GRID_MEMBER_CLUSTERNAME", "prod", "cluster_name", "prod"),
        ("GRID_MEMBER_clustername", "prod", "cluster_name", "prod"),
        ("GRID_MEMBER_INSTANCENAME", "one", "instance_name", "one"),
        ("GRID_MEMBER_NETWORK_PUBLICADDRESS", "example.org:80", "public_address", "example.org:80"),
        ("GRID_MEMBER_LOGGING_LEVEL", "DEBUG", "logging.level", "debug"),
        ("GRID_MEMBER_LIMITS_VALUEBYTES", "1024", "limits.value_bytes", 1024),
        ("GRID_MEMBER_MAP_DEFAULT_TIMETOLIVESECONDS", "7", "maps.default.time_to_live_s", 7),
        ("GRID_MEMBER_MAP_MYMAP_TIMETOLIVESECONDS", "7", "maps.my-map.time_to_live_s", 7),
        ("GRID_MEMBER_MAP_MY_MAP_TIMETOLIVESECONDS", "7", "maps.my-map.time_to_live_s", 7),
        ("GRID_MEMBER_MAP_OTHER_MAP_MAXIDLESECONDS", "7", "maps.Other_Map.max_idle_s", 7),
        ("GRID_MEMBER_MAP_NEW_TIMETOLIVESECONDS", "7", "maps.new.time_to_live_s", 7),
        ("GRID_MEMBER_MAP_NEW_ONE_TIMETOLIVESECONDS", "7", "maps.new_one.time_to_live_s", 7),
        ("GRID_MEMBER_QUEUE_DEFAULT_MAXSIZE", "3", "queues.default.max_size_items", 3),
    ],
)
def test_a_variable_wins(variable: str, value: str, attribute: str, expected: object) -> None:
    assert found(loaded(), attribute) != expected
    assert found(loaded(**{variable: value}), attribute) == expected


def found(config: MemberConfig, attribute: str) -> object:
    value: object = config
    for part in attribute.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


@pytest.mark.parametrize("group", ["DATA", "CLUSTERREAD", "CLUSTER_READ", "Cluster_Read"])
@pytest.mark.parametrize("enabled", [True, False])
def test_endpoint_groups(group: str, enabled: bool) -> None:
    config = loaded(
        GRID_MEMBER_NETWORK_RESTAPI_ENABLED="true",
        **{f"GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_{group}_ENABLED": str(enabled).lower()},
    )
    assert config.rest is not None
    named = next(g for g in GROUPS if g.value.replace("_", "") == group.upper().replace("_", ""))
    assert (named in config.rest.groups) is enabled
    assert GROUPS.CLUSTER_WRITE in config.rest.groups, "what no variable names stays"


@pytest.mark.parametrize("group", ["CLUSTERWRITE", "CLUSTER_WRITE"])
def test_a_group_of_the_document_is_found_under_its_name_there(group: str) -> None:
    config = loaded(
        GRID_MEMBER_NETWORK_RESTAPI_ENABLED="true",
        **{f"GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_{group}_ENABLED": "false"},
    )
    assert config.rest is not None
    assert GROUPS.CLUSTER_WRITE not in config.rest.groups


def test_endpoint_groups_of_the_advanced_network_have_their_exact_names() -> None:
    text = "grid: {advanced-network: {enabled: true, rest-server-socket-endpoint-config: {}}}"
    end = "RESTSERVERSOCKETENDPOINTCONFIG_ENDPOINTGROUPS_CLUSTERWRITE_ENABLED"
    config = parse_config(text, "f", {f"GRID_MEMBER_ADVANCEDNETWORK_{end}": "true"})
    assert config.rest is not None
    assert GROUPS.CLUSTER_WRITE in config.rest.groups


def test_items_of_lists() -> None:
    base = "GRID_MEMBER_NETWORK_INTERFACES_INTERFACES"
    config = loaded(
        GRID_MEMBER_NETWORK_RESTAPI_ENABLED="true",
        **{f"{base}_0": "127.0.0.2", f"{base}_3": "127.0.0.4", f"{base}_2": "127.0.0.3"},
    )
    assert config.rest is not None
    assert config.rest.interfaces == ("127.0.0.2", "::1", "127.0.0.3", "127.0.0.4")


def test_a_list_of_their_own() -> None:
    users = "GRID_MEMBER_SECURITY_REALMS_0_AUTHENTICATION_SIMPLE_USERS_0"
    variables = {
        "GRID_MEMBER_NETWORK_MANAGEMENT_ENABLED": "true",
        "GRID_MEMBER_NETWORK_MANAGEMENT_REALM": "new",
        "GRID_MEMBER_SECURITY_REALMS_0_NAME": "new",
        f"{users}_USERNAME": "me",
        f"{users}_PASSWORD": "secret",
    }
    config = parse_config("grid:\n", "f", variables)
    assert config.management is not None
    assert config.management.users is not None
    assert [(u.name, u.password) for u in config.management.users] == [("me", "secret")]


def test_a_value_is_taken_as_it_is() -> None:
    assert loaded(GRID_MEMBER_CLUSTERNAME="${HOME:x}$$").cluster_name == "${HOME:x}$$"


def test_the_default_configuration_takes_overrides() -> None:
    model = Config.default(environment={}).model
    assert model.rest is not None
    assert (model.rest.port, model.rest.interfaces) == (5701, ("127.0.0.1",))
    assert model.rest.groups == {GROUPS.DATA, GROUPS.CLUSTER_READ, GROUPS.HEALTH_CHECK}
    assert (list(model.maps), list(model.queues)) == (["default"], ["default"])
    changed = Config.default(
        environment={
            "GRID_MEMBER_NETWORK_INTERFACES_ENABLED": "false",
            "GRID_MEMBER_NETWORK_PORT_PORT": "0",
            "GRID_MEMBER_MAP_DEFAULT_TIMETOLIVESECONDS": "9",
        }
    ).model
    assert changed.rest is not None
    assert (changed.rest.port, changed.rest.interfaces) == (0, ("*",))
    assert changed.maps["default"].time_to_live_s == 9


def test_xml_takes_overrides() -> None:
    text = '<grid xmlns="urn:grid:config:1"><map name="my-map"/></grid>'
    config = parse_config(text, "f.xml", {"GRID_MEMBER_MAP_MYMAP_TIMETOLIVESECONDS": "9"})
    assert config.maps["my-map"].time_to_live_s == 9


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GRID_DATA_DIR", "/x"),
        ("GRID_BIND_ADDRESS", "0.0.0.0"),
        ("GRID_MANAGEMENT_USERNAME", "op"),
        ("GRID_PUBLIC_ADDRESS", "a"),
        ("GRID_NAME", "a"),
        ("GRID_PORT", "tcp://10.0.0.1:5701"),
        ("GRID_COMPILED", "off"),
        ("GRID_CACHE_SIZE", "9"),
        ("GRID_LIST", "a"),
        ("GRID_REST_URL", "http://a"),
        ("GRID_MEMBER_SERVICE_HOST", "10.0.0.1"),
        ("GRID_MEMBER_SERVICE_PORT_REST", "5701"),
        ("GRID_MEMBER_PORT", "tcp://10.0.0.1:5701"),
        ("GRID_MEMBER_PORT_5701_TCP", "tcp://10.0.0.1:5701"),
        ("GRID_MEMBER_PORT_5701_TCP_PROTO", "tcp"),
        ("GRID_MEMBER_NETWORK_PORT", "tcp://10.0.0.1:5701"),
        ("GRID_SERVICE_HOST", "10.0.0.1"),
        ("GRID_SERVICE_PORT", "5701"),
        ("GRID_MEMBER_MAP_SERVICE_HOST", "10.0.0.1"),
        ("GRID_MEMBER_NETWORK_SERVICE_PORT_REST", "5701"),
        ("GRID_REST_PORT_5701_TCP", "tcp://10.0.0.1:5701"),
        ("GRID_REST_PORT_5701_TCP_ADDR", "10.0.0.1"),
        ("GRID_", "a"),
        ("GRIDNETWORK_PORT_PORT", "x"),
        ("grid_NETWORK_PORT_PORT", "x"),
        ("NETWORK_PORT_PORT", "x"),
    ],
)
def test_what_is_no_override_is_left_alone(variable: str, value: str) -> None:
    found = loaded(**{variable: value})
    assert found == loaded()
    assert found.notes == ()


IGNORED = "environment variables that are no setting are ignored: "
FORMER = (
    "environment variables with former names are read in this version for the last time: write "
)


@pytest.mark.parametrize(
    ("variable", "value", "hint"),
    [
        ("NETWRK_RESTAPI_ENABLED", "true", "perhaps {prefix}NETWORK... is meant"),
        ("CLUSTER_NAME", "a", "perhaps {prefix}CLUSTERNAME... is meant"),
        (
            "NETWORK_RESTAPI_ENABLE",
            "true",
            "network.rest-api has no such element, perhaps enabled (ENABLED) is meant",
        ),
        ("NETWORK_PORT", "5701", "network.port must hold further elements, no value"),
        ("NETWORK_PORT_PORT_PORT", "5701", "network.port.port has no such element"),
        (
            "NETWORK_INTERFACES_INTERFACES_FIRST",
            "a",
            "network.interfaces.interfaces has no such item: its items are counted from 0",
        ),
        ("QUEUE", "9", "queue must hold further elements, no value"),
        ("HTTP_PROXY", "http://u:hidden@a", "http has no such element"),
    ],
)
@pytest.mark.parametrize("prefix", ["GRID_MEMBER_", "GRID_"])
def test_what_is_no_setting_stops_no_member_and_is_named(
    prefix: str, variable: str, value: str, hint: str
) -> None:
    found = loaded(**{f"{prefix}{variable}": value})
    assert found == loaded()
    assert found.notes == (f"{IGNORED}{prefix}{variable} ({hint.format(prefix=prefix)})",)


def test_what_is_no_setting_is_named_in_one_line_of_bounded_length() -> None:
    variables = {f"GRID_MEMBER_X{number:02}": "hidden" for number in range(30)}
    (note,) = loaded(**variables).notes
    assert note.startswith(f"{IGNORED}GRID_MEMBER_X00, GRID_MEMBER_X01, ")
    assert note.endswith("GRID_MEMBER_X19 and 10 more")
    assert "hidden" not in note


def test_a_former_name_is_taken_and_its_present_one_told() -> None:
    found = loaded(GRID_CLUSTERNAME="a", GRID_MAP_MY_MAP_TIMETOLIVESECONDS="7")
    assert (found.cluster_name, found.maps["my-map"].time_to_live_s) == ("a", 7)
    assert found.notes == (
        f"{FORMER}GRID_MEMBER_CLUSTERNAME for GRID_CLUSTERNAME, "
        "GRID_MEMBER_MAP_MY_MAP_TIMETOLIVESECONDS for GRID_MAP_MY_MAP_TIMETOLIVESECONDS",
    )


def test_the_present_name_wins_over_the_former_one() -> None:
    found = loaded(GRID_MEMBER_LOGGING_LEVEL="debug", GRID_LOGGING_LEVEL="verbose")
    assert found.logging.level == "debug"
    assert found.notes == (f"{IGNORED}GRID_LOGGING_LEVEL (GRID_MEMBER_LOGGING_LEVEL is set)",)


def test_a_wrong_value_of_a_former_name_is_an_error_that_says_how_to_be_rid_of_it() -> None:
    """Ignored, `GRID_SECURITY_ENABLED=yes` would start a member without security."""
    assert problems(GRID_SECURITY_ENABLED="yes") == [
        "GRID_SECURITY_ENABLED: security.enabled: must be true or false (this is the former name "
        "of GRID_MEMBER_SECURITY_ENABLED: set that one if another program has set this)"
    ]
    assert not loaded(
        GRID_SECURITY_ENABLED="yes", GRID_MEMBER_SECURITY_ENABLED="false"
    ).security.enabled


def test_a_refused_setting_under_its_former_name_is_another_program_s() -> None:
    assert loaded(GRID_NETWORK_JOIN_MULTICAST_ENABLED="true").notes == ()
    assert problems(GRID_MEMBER_NETWORK_JOIN_MULTICAST_ENABLED="true")


def test_a_former_name_that_may_mean_two_settings_is_ignored() -> None:
    text = "grid: {map: {a-b: {}, a_b: {}}}"
    found = parse_config(text, "f", {"GRID_MAP_A_B_TIMETOLIVESECONDS": "1"})
    assert {each.time_to_live_s for each in found.maps.values()} == {0}
    (note,) = found.notes
    assert "it may mean map.a-b.time-to-live-seconds or map.a_b.time-to-live-seconds" in note


@pytest.mark.parametrize(
    "variable", ["GRID_MEMBER_CLUSTER_NAME", "GRID_MEMBER_MAP_TTL", "GRID_MEMBER_0"]
)
def test_what_the_document_uses_as_a_variable_is_one(variable: str) -> None:
    text = f"grid: {{cluster-name: '${{{variable}:none}}'}}"
    config = parse_config(text, "f", {variable: "used"})
    assert (config.cluster_name, config.notes) == ("used", ())
    assert parse_config("grid: {map: {a: {}}}", "f", {variable: "used"}).notes


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"GRID_MEMBER_NETWORK_INTERFACES_INTERFACES_5": "127.0.0.1"},
            ["GRID_MEMBER_NETWORK_INTERFACES_INTERFACES_5: the list has 2 items: set index 2"],
        ),
        (
            {"GRID_MEMBER_NETWORK_PORT_PORT": "many"},
            ["GRID_MEMBER_NETWORK_PORT_PORT: network.port.port: must be an integer"],
        ),
        (
            {
                "GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_CLUSTERREAD_ENABLED": "true",
                "GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_CLUSTER_READ_ENABLED": "true",
            },
            [
                "GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_CLUSTER_READ_ENABLED: sets "
                "network.rest-api.endpoint-groups.CLUSTER_READ.enabled, as "
                "GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_CLUSTERREAD_ENABLED does"
            ],
        ),
        (
            {"GRID_MEMBER_NETWORK_MANAGEMENT_ENABLED": "true"},
            [
                "GRID_MEMBER_NETWORK_MANAGEMENT_ENABLED: network.management: needs a realm: the "
                "name of one of security.realms"
            ],
        ),
    ],
)
def test_what_is_wrong_names_the_variable(variables: dict[str, str], expected: list[str]) -> None:
    assert problems(**variables) == expected


def test_a_refused_element_is_refused_by_its_name() -> None:
    wrong = "is not supported yet: list the members in join.tcp-ip.member-list"
    name = "GRID_MEMBER_NETWORK_JOIN_MULTICAST_ENABLED"
    assert problems(**{name: "true"}) == [f"{name}: network.join.multicast: {wrong}"]
    assert problems("grid: {network: {join: {multicast: {enabled: true}}}}", **{name: "x"}) == [
        f"f:1:25: network.join.multicast: {wrong}"
    ]
    text = "grid: {network: {join: {multicast: {enabled: true, multicast-port: 1}}}}"
    assert parse_config(text, "f", {name: "False"}) == parse_config("grid: {}", "f", {})


def test_names_that_differ_in_their_dashes_only_are_two_readings() -> None:
    text = "grid: {map: {a-b: {}, a_b: {}}}"
    assert problems(text, GRID_MEMBER_MAP_A_B_TIMETOLIVESECONDS="1") == [
        "GRID_MEMBER_MAP_A_B_TIMETOLIVESECONDS: may mean map.a-b.time-to-live-seconds or "
        "map.a_b.time-to-live-seconds: set it in the file"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grid: 5", ["f:1:7: must hold further elements, not a value"]),
        ("grid: {network: 5}", ["f:1:8: network: must hold further elements, not a value"]),
        (
            "grid: {network: {interfaces: {interfaces: a}}}",
            ["f:1:31: network.interfaces.interfaces: must be a list"],
        ),
    ],
)
def test_an_override_hides_nothing_that_is_wrong_in_the_document(
    text: str, expected: list[str]
) -> None:
    variables = {
        "GRID_MEMBER_NETWORK_PORT_PORT": "1",
        "GRID_MEMBER_NETWORK_INTERFACES_INTERFACES_0": "127.0.0.1",
    }
    assert problems(text, **variables) == expected


def test_no_value_of_a_variable_is_quoted() -> None:
    for setting in SETTINGS:
        words = setting.path.replace("*", "DEFAULT").replace("[]", "0").split(".")
        variable = "GRID_MEMBER_" + "_".join(word.replace("-", "").upper() for word in words)
        assert "hush" not in "".join(problems(**{variable: "hush" * 2000}))


def test_every_setting_has_a_variable() -> None:
    for setting in SETTINGS:
        words = setting.path.replace("*", "DEFAULT").replace("[]", "0").split(".")
        variable = "GRID_MEMBER_" + "_".join(word.replace("-", "").upper() for word in words)
        told = problems("grid: {cluster-name: ''}", **{variable: ""})
        assert any(line.startswith(f"{variable}: ") for line in told)
        assert "no such" not in "".join(told)


def test_words_are_enough_to_tell_the_elements_apart() -> None:
    shapes = [settings_shape()]
    while shapes:
        below = shapes.pop().below
        plain = [name.replace("-", "").lower() for name in below]
        assert len(plain) == len(set(plain))
        shapes += below.values()


@pytest.mark.parametrize("space", [" ", "\n", "\x1c", "\x1e", "\x1f", "\x85", "\u2003"])
def test_white_space_around_a_number_is_no_part_of_it(space: str) -> None:
    assert loaded(GRID_MEMBER_LIMITS_VALUEBYTES=f"{space}1024{space}").limits.value_bytes == 1024
    assert (
        loaded(GRID_MEMBER_CLUSTERNAME="a", GRID_MEMBER_QUEUE_Q_MAXSIZE=f"3{space}")
        .queues["q"]
        .max_size_items
        == 3
    )
