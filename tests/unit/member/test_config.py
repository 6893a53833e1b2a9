"""Configuration documents, good and bad, with the exact places of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.config import (
    ConfigError,
    EndpointGroup,
    Problem,
    default_config,
    load_config,
    parse_config,
)
from grid_member.config.names import find
from grid_member.config.settings import REFUSED, SETTINGS

GROUPS = EndpointGroup


def problems(text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "f", environment)
    return [str(problem) for problem in caught.value.problems]


BAD = [
    ("", ["f:1:1: the top element must be grid:"]),
    ("hello", ["f:1:1: the top element must be grid:"]),
    ("- grid", ["f:1:1: the top element must be grid:"]),
    ("grid: {}\nother: 1", ["f:2:1: other: unknown element beside grid"]),
    ("grid: [1]", ["f:1:7: must hold further elements, not a value"]),
    ("grid: 5", ["f:1:7: must hold further elements, not a value"]),
    ("grid: {a", ["f:1:9: not YAML: expected ',' or '}', but got '<stream end>'"]),
    ("grid:\n\tx: 1", ["f:2:1: not YAML: found character '\\t' that cannot start any token"]),
    ("grid: {}\n---\ngrid: {}", ["f:2:1: one document is allowed"]),
    (
        "grid:\n  map: &m {a: {}}\n  queue: *m",
        ["f:3:10: aliases are not allowed, write the value again"],
    ),
    (
        "grid:\n  cluster-name: a\n  cluster-name: b",
        ["f:3:3: grid.cluster-name: is there twice, first in line 2"],
    ),
    ("grid:\n  cluster-name: !x a", ["f:2:17: grid.cluster-name: the tag !x is not known"]),
    ("grid:\n  ? [a]\n  : b", ["f:2:5: grid: a name must be a plain word"]),
    (
        "grid:\n  cluster-nam: a",
        ["f:2:3: cluster-nam: unknown element, perhaps cluster-name is meant"],
    ),
    ("grid: {cluster-name: ''}", ["f:1:8: cluster-name: must not be empty"]),
    ("grid: {cluster-name: [a]}", ["f:1:8: cluster-name: must be one value (string)"]),
    ("grid: {cluster-name: a&b}", ["f:1:8: cluster-name: must not contain &"]),
    (
        "grid:\n  network:\n    port:\n      port: 65536",
        ["f:4:7: network.port.port: must be from 0 to 65535"],
    ),
    ("grid: {network: {port: {port: 1.5}}}", ["f:1:25: network.port.port: must be an integer"]),
    (
        "grid: {network: {rest-api: {enabled: yes}}}",
        ["f:1:29: network.rest-api.enabled: must be true or false"],
    ),
    (
        "grid: {network: {rest-api: {endpoint-groups: {DATE: {enabled: true}}}}}",
        [
            "f:1:47: network.rest-api.endpoint-groups.DATE: unknown endpoint group; known are "
            "CLUSTER_READ, CLUSTER_WRITE, HEALTH_CHECK, PERSISTENCE, WAN, DATA, CP"
        ],
    ),
    (
        "grid: {network: {interfaces: {interfaces: a}}}",
        ["f:1:31: network.interfaces.interfaces: must be a list"],
    ),
    (
        "grid: {network: {interfaces: {enabled: true, interfaces: [a]}}}",
        ["f:1:59: network.interfaces.interfaces[0]: must be an IP address or * for any"],
    ),
    (
        "grid: {network: {interfaces: {enabled: true}}}",
        ["f:1:18: network.interfaces: is enabled and lists no interface"],
    ),
    (
        "grid: {network: {management: {enabled: true}}}",
        ["f:1:18: network.management: needs a realm: the name of one of security.realms"],
    ),
    (
        "grid: {network: {management: {enabled: true, realm: r}}}",
        ["f:1:46: network.management.realm: no realm of this name in security.realms"],
    ),
    (
        "grid:\n  network: {management: {enabled: true, realm: r}}\n"
        "  security: {realms: [{name: r}]}",
        [
            "f:3:23: security.realms[0].authentication.simple.users: the realm has no user "
            "who could authenticate"
        ],
    ),
    ("grid: {security: {enabled: true}}", ["f:1:19: security.enabled: is not supported yet"]),
    (
        "grid: {map: {a: {max-idle-seconds: 5}}}",
        ["f:1:18: map.a.max-idle-seconds: is not supported yet"],
    ),
    (
        "grid: {map: {a: {backup-count: 4, async-backup-count: 3}}}",
        ["f:1:14: map.a: has more than 6 backups, both counts together"],
    ),
    ("grid: {map: {a*b*: {}}}", ["f:1:14: map.a*b*: may hold one * only"]),
    (
        "grid: {map: {ab*: {}, '*ba': {}}}",
        ["f:1:23: map.*ba: matches names that ab* matches as well"],
    ),
    (
        "grid: {map: {a: {data-persistence: {enabled: true}}}}",
        ["f:1:37: map.a.data-persistence.enabled: needs persistence.enabled, which is off"],
    ),
    (
        "grid: {cluster-name: '${NOBODY}'}",
        ["f:1:8: cluster-name: the environment variable NOBODY is not set"],
    ),
    (
        "grid: {logging: {level: loud}}",
        ["f:1:18: logging.level: must be one of debug, info, warning, error"],
    ),
    (
        "grid:\n  x: 1\n  network: {join: {}}\n  map: {a: {time-to-live-seconds: -1}}",
        [
            "f:2:3: x: unknown element; known are " + "KNOWN",
            "f:3:13: network.join: is not supported yet",
            "f:4:13: map.a.time-to-live-seconds: must be from 0 to 2147483647",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), BAD, ids=[repr(text[:50]) for text, _ in BAD])
def test_what_is_wrong_and_where(text: str, expected: list[str]) -> None:
    found = [re.sub(r"known are cluster-name.*", "known are KNOWN", p) for p in problems(text)]
    assert found == expected


def test_too_deep_and_too_long() -> None:
    assert "nested too deep" in problems("grid: " + "[" * 5000)[0]
    assert "longer than 1 MiB" in problems("grid: " + " " * (1 << 20))[0]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.path)
def test_every_refused_setting_is_refused_by_name(refused: object) -> None:
    path = str(getattr(refused, "path")).replace("*", "any")  # noqa: B009
    text, closing = "", ""
    for part in path.split("."):
        text, closing = (
            (text + "[", "]" + closing)
            if part == "[]"
            else (text + "{" + part + ": ", "}" + closing)
        )
    found = problems(f"grid: {text}x{closing}")
    assert [p for p in found if p.endswith("is not supported yet")]


def test_an_empty_document_has_the_defaults() -> None:
    config = parse_config("grid:", "f", {})
    assert config.rest is None
    assert config.management is None
    assert (config.cluster_name, config.interfaces, config.maps) == ("dev", ("*",), {})
    assert config.data_directory is None
    assert (config.limits.name_bytes, config.limits.key_bytes) == (255, 8192)


def test_a_full_document() -> None:
    text = """
grid:
  cluster-name: ${NAME:prod}
  instance-name: one
  network:
    port: {port: "${PORT}", auto-increment: false, port-count: 3}
    public-address: one.example
    interfaces: {enabled: true, interfaces: ["${BIND:*}"]}
    rest-api:
      enabled: true
      endpoint-groups: {DATA: {enabled: true}, healthcheck: {enabled: false}}
    management: {enabled: true, realm: ops, endpoint-groups: {CP: {enabled: false}}}
  security:
    realms:
      - name: other
      - name: ops
        authentication: {simple: {users: [{username: op, password: "${SECRET}"}]}}
  map:
    default: {backup-count: 2}
    "cache*": {time-to-live-seconds: 60, data-persistence: {enabled: false}}
  queue:
    default:
    jobs: {max-size: 5, data-persistence: {fsync: false}}
  persistence: {enabled: true, base-dir: /data}
  limits: {value-bytes: 1024}
  logging: {format: JSON, level: Debug}
"""
    config = parse_config(text, "f", {"PORT": "7000", "SECRET": "a:b${c"})
    assert config.rest is not None
    assert config.management is not None
    assert (config.rest.port, config.rest.auto_increment) == (7000, False)
    assert config.rest.groups == {GROUPS.CLUSTER_READ, GROUPS.DATA}
    assert config.management.port == 5702
    assert config.management.groups == frozenset(GROUPS) - {GROUPS.CP}
    assert config.management.users is not None
    assert config.management.users[0].password == "a:b${c"
    assert "a:b" not in repr(config)
    assert config.cluster_name == "prod"
    assert config.maps["cache*"].time_to_live_s == 60
    assert not config.maps["cache*"].persistent
    assert config.queues["default"].max_size_items == 2**31 - 1
    assert (config.queues["jobs"].max_size_items, config.queues["jobs"].fsync) == (5, False)
    assert config.data_directory == Path("/data")
    assert (config.logging.format, config.logging.level) == ("json", "debug")
    assert config.limits.value_bytes == 1024


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"grid: {cluster-name: \xe4}")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "latin.yaml")


def test_the_configuration_without_a_file_just_works() -> None:
    config = default_config()
    assert config.interfaces == ("127.0.0.1",)
    assert config.rest is not None
    assert config.rest.groups == {GROUPS.CLUSTER_READ, GROUPS.HEALTH_CHECK, GROUPS.DATA}
    assert set(config.maps) == set(config.queues) == {"default"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("a", "a"), ("ax", "a*"), ("abc", "ab*"), ("xz", "*z"), ("q", "default"), ("a*", "a*")],
)
def test_exact_then_most_literal_wildcard_then_default(name: str, found: str) -> None:
    configured = {key: key for key in ("a", "a*", "ab*", "*z", "default")}
    assert find(configured, name) == found


def test_nothing_matches_without_a_default() -> None:
    assert find({"a*a": 1}, "a") is None


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_an_error_with_a_place(text: str) -> None:
    found: tuple[Problem, ...] = ()
    try:
        parse_config("grid:\n  cluster-name: " + text, "f", {})
    except ConfigError as error:
        found = error.problems
    assert all(problem.place for problem in found)


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "member.md").read_text()
    missing = [s.path for s in SETTINGS if f"`{s.path}`" not in page]
    missing += [r.path for r in REFUSED if f"`{r.path}`" not in page]
    assert missing == []
