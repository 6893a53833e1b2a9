"""The rendered configuration, read by the members' own loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from jinja2 import UndefinedError

from grid_member.config.load import parse_config
from grid_member.config.model.security import ClientCertificates
from grid_operator.decide.validate import find_problem
from grid_operator.render.configuration.tree import configuration_file, configuration_tree
from grid_operator.render.configuration.wan import publisher_variables
from grid_operator.render.configuration.xml import configuration_xml
from tests.unit.operator.api.clusters import FULL_SPEC, SECURE_SPEC, SPECS, make_cluster
from tests.unit.operator.render.specs import WAN_SECRETS, Spec, specs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config import MemberConfig

ENVIRONMENT = {
    "POD_NAME": "demo-0",
    "POD_NAMESPACE": "default",
    "POD_IP": "10.0.0.1",
    "GRID_PUBLIC_ADDRESS": "demo-0.demo-members.default.svc",
    "GRID_MANAGEMENT_USERNAME": "grid-operator",
    "GRID_MANAGEMENT_PASSWORD": "a<&\"'${x}",
    "GRID_IDENTITY_USERNAME": "member",
    "GRID_IDENTITY_PASSWORD": "identity-password",
    **{f"GRID_USER_{index}_PASSWORD": f"password-{index}" for index in range(3)},
    "GRID_DATA_DIR": "/data",
    "GRID_BACKUP_DIR": "/backup",
    "GRID_WAN_USERNAME": "wan",
    "GRID_WAN_PASSWORD": "a<&\"'${x}",
    "GRID_WAN_TLS_DIR": "/etc/grid-wan-tls",
    **{
        name: f"{secret} & 's"
        for secret in (*WAN_SECRETS, "london-wan")
        for name in publisher_variables(secret)
    },
    "GRID_TLS_DIR": "/etc/grid-tls",
    "GRID_PARKED_FILE": "/tmp/parked",
    **{f"GRID_MEMBER_{n}": f"demo-{n}.demo-members.default.svc" for n in range(5)},
}


ADVANCED: dict[str, Any] = {"advancedNetwork": {"enabled": True, "restPort": 5711}}
TLS: dict[str, Any] = {"secretName": "member-tls"}


def loaded(
    spec: Spec, file_format: str, environment: Mapping[str, str] = ENVIRONMENT
) -> MemberConfig:
    cluster = make_cluster({**spec, "configFormat": file_format})
    name, text = configuration_file(cluster)
    assert name == f"grid.{file_format.lower()}"
    return parse_config(text, name, environment)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_yaml_and_xml_are_the_same_to_a_member(spec: Spec) -> None:
    assert find_problem(make_cluster(spec).spec) is None

    in_yaml, in_xml = loaded(spec, "Yaml"), loaded(spec, "Xml")

    assert in_yaml == in_xml
    assert set(in_yaml.maps) == {m["name"] for m in spec["maps"]}
    assert set(in_yaml.queues) == {q["name"] for q in spec["queues"]}


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
@pytest.mark.parametrize("name", SPECS)
def test_member_listens_as_the_spec_says(name: str, file_format: str) -> None:
    spec = make_cluster(SPECS[name]).spec

    config = loaded(SPECS[name], file_format)

    assert config.cluster_name == spec.cluster_name
    assert config.instance_name == "demo-0"
    assert config.public_address == "demo-0.demo-members.default.svc"
    assert config.rest is not None
    assert config.management is not None
    assert (config.rest.port, config.management.port) == (spec.rest_port, 5702)
    assert config.rest.interfaces == config.management.interfaces == ("*",)
    if spec.metrics_port is None:
        assert config.metrics is None
    else:
        assert config.metrics is not None
        assert (config.metrics.port, config.metrics.interfaces) == (spec.metrics_port, ("*",))
    assert [u.name for u in config.management.users or ()] == ["grid-operator"]
    assert [u.password for u in config.management.users or ()] == ["a<&\"'${x}"]
    enabled = {g.name for g in spec.rest.endpoint_groups if g.enabled}
    assert {"ClusterWrite": "CLUSTER_WRITE", "Data": "DATA"}.keys() >= enabled
    assert ("CLUSTER_WRITE" in {g.value for g in config.rest.groups}) == ("ClusterWrite" in enabled)
    assert ("DATA" in {g.value for g in config.rest.groups}) == ("Data" in enabled)
    assert len(config.management.groups) == 7
    assert config.logging.level == spec.logging.level.value.lower()
    assert config.logging.format == spec.logging.format.value.lower()


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
def test_structures_and_disk_are_as_the_spec_says(file_format: str) -> None:
    config = loaded(FULL_SPEC, file_format)

    session, hot = config.maps["session-*"], config.maps["hot"]
    assert (session.time_to_live_s, session.max_idle_s) == (60, 30)
    assert (session.persistent, session.fsync) == (True, True)
    assert hot.eviction is not None
    assert (hot.eviction.policy, hot.eviction.max_bytes) == ("LRU", 64 << 20)
    assert not hot.persistent
    jobs = config.queues["jobs"]
    assert (jobs.max_size_items, jobs.persistent, jobs.fsync) == (10, True, False)
    assert str(config.data_directory) == "/data/persistence"
    assert str(config.persistence.backup_directory) == "/backup/demo-0"
    assert config.persistence.recovery_policy == "PARTIAL_RECOVERY_MOST_RECENT"
    assert config.persistence.validation_timeout_s == 600
    assert str(config.parked_file) == "/tmp/parked"
    assert config.drain_s == 20


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
@pytest.mark.parametrize("network", [{}, ADVANCED], ids=["network", "advanced"])
@pytest.mark.parametrize(
    ("spec", "encrypted"),
    [
        ({"size": 3, "tls": TLS}, True),
        ({"size": 3, "tls": {**TLS, "members": True}}, True),
        ({"size": 3, "tls": {**TLS, "members": False}}, False),
        ({"size": 3, "tls": {**TLS, "members": False, "clientCertificates": "Optional"}}, False),
        ({"size": 3}, False),
    ],
    ids=["unsaid", "on", "off", "off with clients' certificates", "no TLS"],
)
def test_members_speak_tls_with_each_other(
    spec: dict[str, Any], encrypted: bool, network: dict[str, Any], file_format: str
) -> None:
    cluster = loaded({**spec, **network}, file_format).cluster

    assert cluster is not None
    assert (cluster.tls is not None) is encrypted
    if cluster.tls is not None:
        files = (cluster.tls.certificate, cluster.tls.key, cluster.tls.client_ca)
        assert [str(file) for file in files] == [
            f"/etc/grid-tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
        ]
    for single in ({**spec, **network, "size": 1}, {**network}):
        assert loaded(single, file_format).cluster is None


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
@pytest.mark.parametrize(
    ("spec", "drain_s"),
    [
        ({}, 0),
        ({"size": 3}, 5),
        ({"shutdown": {"drainSeconds": 7}}, 7),
        ({"size": 3, "shutdown": {"drainSeconds": 0}}, 0),
    ],
    ids=str,
)
def test_members_drain_unless_one_is_alone(
    spec: dict[str, Any], drain_s: int, file_format: str
) -> None:
    assert loaded(spec, file_format).drain_s == drain_s


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
def test_users_and_certificates_are_as_the_spec_says(file_format: str) -> None:
    config = loaded(SECURE_SPEC, file_format)

    realm = config.security.member_realm
    assert config.security.enabled
    assert realm is not None
    # Passwords are counted by the users' names, whatever their order in the spec.
    assert [(u.name, u.password) for u in realm.users] == [
        ("ada", "password-0"),
        ("bob", "password-1"),
    ]
    assert realm.identity is not None
    assert (realm.identity.name, realm.identity.password) == ("member", "identity-password")
    assert {g.value for g in config.security.protected_endpoints.groups} == {"DATA", "CLUSTER_READ"}
    for listener in (config.rest, config.management):
        assert listener is not None
        assert listener.tls is not None
        assert str(listener.tls.certificate) == "/etc/grid-tls/tls.crt"
        assert str(listener.tls.key) == "/etc/grid-tls/tls.key"
        assert str(listener.tls.client_ca) == "/etc/grid-tls/ca.crt"
        assert listener.tls.client_certificates is ClientCertificates.OPTIONAL


def test_without_users_the_identity_may_call() -> None:
    realm = loaded({"security": {"enabled": True}}, "Xml").security.member_realm

    assert realm is not None
    assert [user.name for user in realm.callers] == ["member"]


def test_every_variable_of_the_configuration_is_in_the_pod() -> None:
    """None is missing: the loader names variables that are not set."""
    for spec in SPECS.values():
        used = {name for name in ENVIRONMENT if f"${{{name}}}" in _text(spec)}
        without = {k: v for k, v in ENVIRONMENT.items() if k in used}
        assert loaded(spec, "Yaml", without) == loaded(spec, "Yaml")


def test_the_template_refuses_an_element_that_is_not_there() -> None:
    tree = configuration_tree(make_cluster())
    del tree["grid"]["cluster-name"]

    with pytest.raises(UndefinedError):
        configuration_xml(tree)


def _text(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(configuration_tree(make_cluster(spec)), width=10_000)
