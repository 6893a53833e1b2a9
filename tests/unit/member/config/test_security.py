"""The settings of security and TLS: what they come to, and every contradiction by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grid_member.config import ConfigError, parse_config
from grid_member.config.build_security import ENDPOINT_PATHS
from grid_member.config.convert import convert
from grid_member.config.load import config_from
from grid_member.config.model.member import EndpointGroup, User
from grid_member.config.model.security import (
    ClientCertificates,
    ProtectedEndpoints,
    RealmConfig,
    SecurityConfig,
    TlsConfig,
)
from grid_member.http.table import ROUTES

EVERYTHING = """grid:
  network:
    ssl:
      enabled: true
      certificate-file: tls/tls.crt
      key-file: tls/tls.key
      key-password: ${PASSWORD}
      minimum-version: tlsv1.3
      client-certificates: required
      client-ca-file: /etc/ca.crt
    rest-api: {enabled: true}
    management:
      enabled: true
      realm: ops
      ssl: {enabled: true, certificate-file: a.crt, key-file: a.key}
  security:
    enabled: true
    member-authentication: {realm: members}
    rest: {protected: [DATA, clusterread, /grid/rest/wan/, /grid/health]}
    realms:
      - name: members
        identity: {username-password: {username: me, password: "${PASSWORD}"}}
        authentication: {simple: {users: [{username: ada, password: "a:b"}]}}
      - name: ops
        identity: {username-password: {username: op, password: "${PASSWORD}"}}
"""
IN_XML = """<grid xmlns="urn:grid:config:1">
  <network>
    <ssl enabled="true">
      <certificate-file>tls/tls.crt</certificate-file>
      <key-file>tls/tls.key</key-file>
      <key-password>${PASSWORD}</key-password>
      <minimum-version>TLSv1.3</minimum-version>
      <client-certificates>required</client-certificates>
      <client-ca-file>/etc/ca.crt</client-ca-file>
    </ssl>
    <rest-api enabled="true"/>
    <management enabled="true">
      <realm>ops</realm>
      <ssl enabled="true" certificate-file="a.crt" key-file="a.key"/>
    </management>
  </network>
  <security enabled="true">
    <member-authentication realm="members"/>
    <rest>
      <protected>
        <endpoint>DATA</endpoint>
        <endpoint>CLUSTER_READ</endpoint>
        <endpoint>/grid/rest/wan</endpoint>
        <endpoint>/grid/health</endpoint>
      </protected>
    </rest>
    <realms>
      <realm name="members">
        <identity><username-password username="me" password="${PASSWORD}"/></identity>
        <authentication><simple><user username="ada" password="a:b"/></simple></authentication>
      </realm>
      <realm name="ops">
        <identity><username-password username="op" password="${PASSWORD}"/></identity>
      </realm>
    </realms>
  </security>
</grid>
"""
ENVIRONMENT = {"PASSWORD": "s3cret"}
MEMBERS = RealmConfig("members", (User("ada", "a:b"),), User("me", "s3cret"))


def test_both_syntaxes_say_the_same() -> None:
    config = parse_config(EVERYTHING, "f", ENVIRONMENT, Path("/work"))
    assert parse_config(IN_XML, "f", ENVIRONMENT, Path("/work")) == config
    for to in ("xml", "yaml"):
        converted = convert(EVERYTHING, "f", to)
        assert parse_config(converted, "f", ENVIRONMENT, Path("/work")) == config


def test_everything_arrives() -> None:
    config = parse_config(EVERYTHING, "f", ENVIRONMENT, Path("/work"))
    groups = frozenset({EndpointGroup.DATA, EndpointGroup.CLUSTER_READ})
    paths = (("grid", "rest", "wan"), ("grid", "health"))
    assert config.security == SecurityConfig(True, MEMBERS, ProtectedEndpoints(groups, paths))
    assert config.rest
    assert config.rest.tls == TlsConfig(
        "network.ssl",
        Path("/work/tls/tls.crt"),
        Path("/work/tls/tls.key"),
        "s3cret",
        "TLSv1.3",
        ClientCertificates.REQUIRED,
        Path("/etc/ca.crt"),
    )
    assert config.management
    assert config.management.tls == TlsConfig(
        "network.management.ssl", Path("/work/a.crt"), Path("/work/a.key")
    )
    assert config.management.users == (User("op", "s3cret"),)
    assert "s3cret" not in repr(config)


def test_advanced_endpoints_have_tls_of_their_own() -> None:
    ssl = {"enabled": True, "certificate-file": "a", "key-file": "b"}
    endpoint = {"ssl": ssl, "port": {"port": 0}}
    tree = {
        "advanced-network": {
            "enabled": True,
            "rest-server-socket-endpoint-config": endpoint,
            "management-server-socket-endpoint-config": endpoint | {"realm": "ops"},
        },
        "security": {"realms": [realm("ops", user("a", "b"))]},
    }
    config = config_from(tree, {})
    for listener, kind in ((config.rest, "rest"), (config.management, "management")):
        assert listener
        assert listener.tls
        assert listener.tls.setting == f"advanced-network.{kind}-server-socket-endpoint-config.ssl"


def user(name: str, password: str) -> dict[str, str]:
    return {"username": name, "password": password}


def realm(name: str, *users: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "authentication": {"simple": {"users": list(users)}}}


def security(*realms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"security": {"realms": list(realms)} | more}


def on(*protected: str) -> dict[str, Any]:
    return security(
        realm("r", user("a", "b")),
        enabled=True,
        **{"member-authentication": {"realm": "r"}, "rest": {"protected": list(protected)}},
    )


def ssl(**settings: Any) -> dict[str, Any]:
    return {"network": {"ssl": {k.replace("_", "-"): v for k, v in settings.items()}}}


USERS = "security.realms[0].authentication.simple.users"
NO_PROBE = "can never be protected: probes carry no credentials"
ITEM = "security.rest.protected[0]: "
CONTRADICTIONS: list[tuple[dict[str, Any], list[str]]] = [
    (
        security(enabled=True),
        ["security: needs member-authentication.realm when enabled"],
    ),
    (
        security(**{"member-authentication": {"realm": "x"}}),
        ["security.member-authentication.realm: no realm of this name in security.realms"],
    ),
    (
        security({"name": "r"}, **{"member-authentication": {"realm": "r"}}),
        [f"{USERS}: the realm has no user who could authenticate"],
    ),
    (security({}), ["security.realms[0]: needs a name"]),
    (
        security(realm("r"), realm("r")),
        ["security.realms[1].name: is the name of another realm as well"],
    ),
    (
        security(realm("r", user("\u00fc", "a"), user("u\u0308", "b"))),
        [f"{USERS}[1].username: is there twice in this realm"],
    ),
    (
        security(realm("r", user("a:b", "p"))),
        [f"{USERS}[0].username: must not contain a colon"],
    ),
    (
        security(realm("r", user("a", "p\n"))),
        [f"{USERS}[0].password: must not hold control characters, nor end in a line break"],
    ),
    (
        security({"name": "r", "identity": {}}),
        ["security.realms[0].identity.username-password: needs a username and a password"],
    ),
    (
        security(rest={"protected": ["DATA"]}),
        [
            "security.rest.protected: protects nothing as long as security.enabled is off: enable "
            "it or leave this out"
        ],
    ),
    (on("/grid/health/ready"), [f"{ITEM}/grid/health/ready {NO_PROBE}"]),
    (on("/grid/health/ready/"), [f"{ITEM}/grid/health/ready {NO_PROBE}"]),
    (on("/grid/health/node-state"), [f"{ITEM}/grid/health/node-state {NO_PROBE}"]),
    (
        on("DATE"),
        [
            f"{ITEM}must be an endpoint group (CLUSTER_READ, CLUSTER_WRITE, HEALTH_CHECK, "
            "PERSISTENCE, WAN, DATA, CP) or a path that begins with /grid/"
        ],
    ),
    (
        on("/grid/rest/map"),
        [f"{ITEM}no endpoint is there; they are below {', '.join(ENDPOINT_PATHS)}"],
    ),
    (
        on("/grid/rest/maps/*"),
        [f"{ITEM}is a path as it is, decoded and without %, ?, #, * and braces"],
    ),
    (
        ssl(enabled=True),
        [
            "network.ssl: needs a certificate-file when enabled",
            "network.ssl: needs a key-file when enabled",
        ],
    ),
    (
        ssl(client_certificates="optional"),
        [
            "network.ssl.client-certificates: optional needs a client-ca-file to check them with",
        ],
    ),
    (
        ssl(client_ca_file="ca.crt"),
        [
            "network.ssl.client-ca-file: has no effect without client-certificates: optional or "
            "required"
        ],
    ),
    (
        ssl(minimum_version="TLSv1.1"),
        ["network.ssl.minimum-version: must be one of TLSv1.2, TLSv1.3"],
    ),
    (
        ssl(
            properties={"keyStore": "x"},
            enabled=True,
            certificate_file="tls.crt",
            key_file="tls.key",
        ),
        ["network.ssl.properties: is not supported: use certificate-file and key-file"],
    ),
]


@pytest.mark.parametrize(
    ("tree", "expected"), CONTRADICTIONS, ids=[e[0] for _, e in CONTRADICTIONS]
)
def test_contradictions(tree: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(tree, {})
    assert [str(problem) for problem in caught.value.problems] == expected


@pytest.mark.parametrize(
    "path",
    [
        *("/grid", "/grid/", "/grid/rest", "/grid/rest/maps/m", "/grid/health/cluster-state"),
        *("/grid/rest/queues/jobs", "/grid/rest/queues/jobs/size", "/grid/rest/queues/"),
    ],
)
def test_paths_at_above_and_below_endpoints_can_be_protected(path: str) -> None:
    parts = tuple(path.removesuffix("/").split("/")[1:])
    assert config_from(on(path), {}).security.protected_endpoints == ProtectedEndpoints(
        frozenset(), (parts,)
    )


@pytest.mark.parametrize("seconds", ["5", "05", "%35", "{seconds}", "x", "5/"])
def test_a_poll_is_not_protected_by_one_of_its_spellings(seconds: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(on(f"/grid/rest/queues/jobs/{seconds}"), {})
    (problem,) = caught.value.problems
    if seconds.strip("/").isalnum():
        told = "would leave polls with other seconds open: protect /grid/rest/queues/jobs"
        assert str(problem) == f"{ITEM}{told}"


def test_every_endpoint_is_below_a_path_that_is_known() -> None:
    below = {
        path: [r for r in ROUTES if r.path == path or r.path.startswith(f"{path}/")]
        for path in ENDPOINT_PATHS
    }
    assert all(below.values())
    assert sum(map(len, below.values())) == len(ROUTES)
