"""Configurations that can be used, and what a member makes of them."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.config import (
    Config,
    ConfigError,
    EndpointGroup,
    Problem,
    parse_config,
)
from grid_member.config.names import ambiguous, find, shadowed_names

GROUPS = EndpointGroup


def test_an_empty_document_has_the_defaults() -> None:
    config = parse_config("grid:", "f", {})
    assert config.rest is None
    assert config.management is None
    assert (config.cluster_name, config.maps) == ("dev", {})
    assert config.data_directory is None
    assert (config.limits.name_bytes, config.limits.key_bytes) == (255, 8192)


FULL = """
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


def test_a_full_document() -> None:
    config = parse_config(FULL, "f", {"PORT": "7000", "SECRET": "a:b${c"})
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
        Config.from_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"grid: {cluster-name: \xe4}")
    with pytest.raises(ConfigError, match="not UTF-8"):
        Config.from_file(tmp_path / "latin.yaml")


def test_the_configuration_without_a_file_just_works() -> None:
    config = Config.default().model
    assert config.rest is not None
    assert config.rest.interfaces == ("127.0.0.1",)
    assert config.rest.groups == {GROUPS.CLUSTER_READ, GROUPS.HEALTH_CHECK, GROUPS.DATA}
    assert set(config.maps) == set(config.queues) == {"default"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("a", "a"), ("ax", "a*"), ("abc", "ab*"), ("xz", "*z"), ("q", "default"), ("a*", "a*")],
)
def test_exact_then_most_literal_wildcard_then_default(name: str, found: str) -> None:
    configured = {key: key for key in ("a", "a*", "ab*", "*z", "default")}
    assert find(configured, name) == found


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ("q", ["default"]),
        ("ax", ["a*"]),
        ("abc*", ["a*", "ab*", "*z", "default"]),
        ("b*", ["default"]),
        ("*yz", ["a*", "*z", "default"]),
    ],
)
def test_what_a_new_name_takes_from_others(new: str, found: list[str]) -> None:
    assert shadowed_names(("a", "a*", "ab*", "*z", "default"), new) == found


@given(st.lists(st.text("ab*", max_size=4).filter(lambda n: n.count("*") < 2), min_size=1))
def test_whatever_takes_from_others_is_found(names: list[str]) -> None:
    *configured, new = [*dict.fromkeys(["default", *names])]
    before, after = {one: one for one in configured}, {one: one for one in [*configured, new]}
    found = shadowed_names(configured, new)
    for size in range(7):
        for letters in product("ab", repeat=size):
            meant = find(before, "".join(letters))
            if meant != find(after, "".join(letters)) and not ambiguous(after):
                assert meant in found


def test_nothing_matches_without_a_default() -> None:
    assert find({"a*a": 1}, "a") is None


@given(st.lists(st.text("ab*", max_size=5).filter(lambda n: n.count("*") == 1), unique=True))
def test_wildcards_clash_when_one_name_matches_both_equally_well(patterns: list[str]) -> None:
    names = ["".join(letters) for size in range(9) for letters in product("ab", repeat=size)]

    def matches(pattern: str, name: str) -> bool:
        return find({pattern: 1}, name) == 1

    clashes = {
        frozenset((one, other))
        for one, other in combinations(patterns, 2)
        if len(one) == len(other)
        and any(matches(one, name) and matches(other, name) for name in names)
    }
    found = ambiguous(patterns)
    assert {frozenset(pair) for pair in found} <= clashes
    assert bool(found) == bool(clashes)
    assert all(patterns.index(one) < patterns.index(other) for one, other in found)


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_an_error_with_a_place(text: str) -> None:
    found: tuple[Problem, ...] = ()
    try:
        parse_config("grid:\n  cluster-name: " + text, "f", {})
    except ConfigError as error:
        found = error.problems
    assert all(problem.place for problem in found)
