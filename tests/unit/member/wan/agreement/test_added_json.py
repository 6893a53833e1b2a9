"""The JSON of `addWanConfig`: what tools write is taken, and what cannot be done is refused."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.config import config_from
from grid_member.config.model.wan import WanPublisherConfig
from grid_member.wan.agreement.added_json import AddedJsonError, AddedReplication, read_added
from grid_member.wan.agreement.definitions import (
    credentials_problem,
    packed,
    publisher_document,
    read_publisher,
    with_credentials,
)

REQUIRED: Final = {"clusterName": "london", "targetEndpoints": "a.example,b.example:7000"}
OFF: Final = {"enabled": False, "usePublicIp": False, "properties": {}}
WRITTEN_BY_TOOLS: Final[dict[str, Any]] = {
    **REQUIRED,
    "publisherId": "p",
    "batchSize": 500,
    "batchMaxDelayMillis": 1000,
    "responseTimeoutMillis": 60000,
    "acknowledgeType": 1,
    "initialPublisherState": 0,
    "snapshotEnabled": False,
    "idleMaxParkNs": 250000000,
    "idleMinParkNs": 10000000,
    "maxConcurrentInvocations": -1,
    "discoveryPeriodSeconds": 10,
    "useEndpointPrivateAddress": False,
    "queueFullBehavior": 0,
    "maxTargetEndpoints": 2147483647,
    "queueCapacity": 10000,
    **dict.fromkeys(("aws", "gcp", "azure", "kubernetes", "eureka"), OFF),
    "discovery": {"nodeFilterClass": None, "discoveryStrategy": []},
    "sync": {"consistencyCheckStrategy": 0},
    "endpoint": None,
    "properties": {},
}


def added(**changed: Any) -> AddedReplication:
    """Return what is read of one publisher; keys that are None are left out."""
    block = {name: found for name, found in (REQUIRED | changed).items() if found is not None}
    return read_added(json.dumps({"name": "r", "batchPublishers": [block]}))


def problem(text: str) -> str:
    with pytest.raises(AddedJsonError) as caught:
        read_added(text)
    return str(caught.value)


def publisher_problem(**changed: Any) -> str:
    with pytest.raises(AddedJsonError) as caught:
        added(**changed)
    return str(caught.value)


def test_the_least_that_is_needed() -> None:
    expected = WanPublisherConfig("london", "london", (("a.example", 5705), ("b.example", 7000)))
    assert added() == AddedReplication("r", (expected,))


def test_what_tools_write_is_taken() -> None:
    text = json.dumps(
        {
            "name": "r",
            "batchPublishers": [WRITTEN_BY_TOOLS],
            "customPublishers": [],
            "consumer": {"persistWanReplicatedData": False, "className": None, "properties": {}},
        }
    )
    (found,) = read_added(text).publishers
    assert (found.publisher_id, found.queue_capacity) == ("p", 10_000)
    assert found.consistency_check_strategy == "NONE"


def test_everything_that_can_be_said() -> None:
    (found,) = added(
        publisherId="p",
        batchSize=7,
        batchMaxDelayMillis=8,
        responseTimeoutMillis=1009,
        initialPublisherState=1,
        maxConcurrentInvocations=11,
        discoveryPeriodSeconds=12,
        queueFullBehavior=2,
        maxTargetEndpoints=13,
        queueCapacity=110,
        sync={"consistencyCheckStrategy": 1},
        properties={"realm": "to-london", "compression": "none"},
    ).publishers
    assert found == WanPublisherConfig(
        publisher_id="p",
        cluster_name="london",
        target_endpoints=(("a.example", 5705), ("b.example", 7000)),
        realm="to-london",
        batch_size=7,
        batch_max_delay_ms=8,
        response_timeout_ms=1009,
        queue_capacity=110,
        queue_full_behavior="THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE",
        max_concurrent_invocations=11,
        discovery_period_s=12,
        max_target_endpoints=13,
        initial_publisher_state="PAUSED",
        consistency_check_strategy="MERKLE_TREES",
        compression="NONE",
    )
    assert read_publisher(json.loads(packed(publisher_document(found)))) == found


AT: Final = "batchPublishers[0]."


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"clusterName": None}, "clusterName is missing"),
        ({"clusterName": ""}, "clusterName must not be empty"),
        ({"clusterName": 5}, "clusterName must be a text"),
        ({"targetEndpoints": None}, "targetEndpoints is missing"),
        (
            {"targetEndpoints": "a b"},
            "targetEndpoints must be addresses with commas between them, each of them host, "
            "host:port, [IPv6] or [IPv6]:port",
        ),
        (
            {"publisherId": "a&b"},
            "publisherId must not contain &, which separates the parameters of WAN calls",
        ),
        ({"batchSize": 0}, "batchSize must be from 1 to 10000"),
        ({"batchSize": True}, "batchSize must be from 1 to 10000"),
        ({"queueCapacity": 99}, "queueCapacity must be from 100 to 10000000"),
        ({"maxConcurrentInvocations": 0}, "maxConcurrentInvocations must not be 0"),
        ({"queueFullBehavior": 3}, "queueFullBehavior must be from 0 to 2"),
        ({"initialPublisherState": "PAUSED"}, "initialPublisherState must be from 0 to 2"),
        (
            {"useEndpointPrivateAddress": True},
            "useEndpointPrivateAddress is not supported: write the addresses that are reached from "
            "here into targetEndpoints",
        ),
        ({"acknowledgeType": 0}, "acknowledgeType is not supported: must be 1"),
        (
            {"aws": {"enabled": True}},
            "aws is not supported: must not be enabled: write DNS names",
        ),
        (
            {"discovery": {"discoveryStrategy": [{"className": "x"}]}},
            "discovery is not supported: must be empty: write DNS names",
        ),
        ({"endpoint": "x"}, "endpoint is not supported: must be empty"),
        ({"properties": {"password": "x"}}, "properties.password is an unknown key"),
        ({"properties": {"compression": "x"}}, "properties.compression must be one of AUTO, NONE"),
        ({"sync": {"x": 1}}, "sync.x is an unknown key"),
        ({"idleMinParkNs": -1}, "idleMinParkNs must be a number, not negative"),
        ({"snapshotEnabled": 1}, "snapshotEnabled must be true or false"),
        ({"colour": 1}, "colour is an unknown key"),
    ],
)
def test_what_is_wrong_with_a_publisher(changed: dict[str, Any], expected: str) -> None:
    assert publisher_problem(**changed) == AT + expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the third parameter must be a JSON object"),
        ("[1]", "the third parameter must be a JSON object"),
        ("null", "the third parameter must be a JSON object"),
        ("[" * 100_000, "the third parameter must be a JSON object"),
        ("{}", "name is missing"),
        ('{"name": "r"}', "batchPublishers is missing"),
        ('{"name": "r", "batchPublishers": {}}', "batchPublishers must be a list"),
        (
            '{"name": "r", "batchPublishers": []}',
            "batchPublishers must have from 1 to 8 publishers",
        ),
        ('{"name": "r", "batchPublishers": [1]}', "batchPublishers[0] must be a JSON object"),
        ('{"name": "a&b"}', "name must not contain &, which separates the parameters of WAN calls"),
        ('{"name": "r", "name": "s"}', "a key is there twice"),
    ],
)
def test_what_is_wrong_with_the_whole(text: str, expected: str) -> None:
    assert problem(text) == expected


def test_two_publishers_of_one_id() -> None:
    text = json.dumps({"name": "r", "batchPublishers": [REQUIRED, REQUIRED]})
    assert problem(text) == "batchPublishers has two publishers of one publisherId"


@pytest.mark.parametrize(
    ("consumer", "expected"),
    [
        ({"className": "x"}, "consumer.className is not supported: must be empty"),
        ({"properties": {"a": 1}}, "consumer.properties is not supported: must be empty"),
        ({"x": 1}, "consumer.x is an unknown key"),
    ],
)
def test_what_is_wrong_with_a_consumer(consumer: dict[str, Any], expected: str) -> None:
    text = json.dumps({"name": "r", "batchPublishers": [REQUIRED], "consumer": consumer})
    assert problem(text) == expected


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=5), below),
    max_leaves=6,
)


@given(st.text() | JSON.map(json.dumps))
def test_nothing_but_its_error_comes_of_any_text(text: str) -> None:
    with pytest.raises(AddedJsonError):
        read_added(text)


@given(st.sampled_from(sorted(WRITTEN_BY_TOOLS)), JSON)
def test_any_value_of_a_key_is_taken_or_refused_by_name(name: str, value: Any) -> None:
    block = WRITTEN_BY_TOOLS | {name: value}
    told = name
    try:
        read_added(json.dumps({"name": "r", "batchPublishers": [block]}))
    except AddedJsonError as error:
        told = str(error)
    assert name in told


def test_a_member_adds_what_it_shows_itself() -> None:
    identity = {"username-password": {"username": "u", "password": "p"}}
    own = config_from({"security": {"realms": [{"name": "s", "identity": identity}]}}, {}).wan
    (shown,) = added(properties={"realm": "s"}).publishers
    (other,) = added(properties={"realm": "x"}).publishers
    (silent,) = added().publishers

    assert credentials_problem(shown, own) is None
    assert with_credentials(shown, own).identity == own.identities["s"]
    assert credentials_problem(other, own) == (
        "realm x is not in security.realms or has no identity"
    )
    assert credentials_problem(silent, own) == (
        "properties.realm is missing, and there is no certificate to be shown"
    )
    assert "password" not in json.dumps(publisher_document(shown))
