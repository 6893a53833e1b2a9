"""What the members' own loader reads of `spec.wan` and `spec.wanListener`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grid_member.wan.agreement.added_json import read_added
from grid_member.wan.agreement.definitions import publisher_document
from grid_operator.render.configuration.wan import wished_publishers
from tests.unit.operator.api.clusters import WAN_SPEC, make_cluster
from tests.unit.operator.render.configuration.test_member_configuration import ADVANCED, loaded

FORMATS = pytest.mark.parametrize("file_format", ["Yaml", "Xml"])


@FORMATS
def test_a_member_knows_the_publishers_of_the_spec(file_format: str) -> None:
    config = loaded(WAN_SPEC, file_format).wan

    assert {name: set(r.publishers) for name, r in config.replications.items()} == {
        "everywhere": {"london", "paris"},
        "empty": set(),
    }
    london = config.replications["everywhere"].publishers["london"]
    assert london.cluster_name == "london"
    assert london.target_endpoints == (("london-wan.default.svc", 5705),)
    assert (london.queue_capacity, london.batch_size) == (1000, 50)
    assert london.queue_full_behavior == "THROW_EXCEPTION"
    assert london.initial_publisher_state == "PAUSED"
    assert london.identity is not None
    assert london.identity.name == london.identity.password == "london-wan & 's"
    paris = config.replications["everywhere"].publishers["paris"]
    assert paris.target_endpoints == (("paris.example", 5705), ("2001:db8::1", 5706))
    assert paris.initial_publisher_state == "REPLICATING"


@FORMATS
def test_a_map_refers_to_its_replication_as_the_spec_says(file_format: str) -> None:
    maps = loaded(WAN_SPEC, file_format).maps

    reference = maps["orders"].wan
    assert reference is not None
    assert (reference.replication, reference.merge_policy) == (
        "everywhere",
        "PassThroughMergePolicy",
    )
    assert not reference.republishing
    assert (reference.include, reference.exclude) == (("a*", "<b>"), ("*tmp",))
    assert maps["local"].wan is None


@FORMATS
@pytest.mark.parametrize("network", [{}, ADVANCED], ids=["network", "advanced"])
def test_a_member_listens_for_clusters_as_the_spec_says(
    file_format: str, network: dict[str, Any]
) -> None:
    config = loaded({**WAN_SPEC, **network}, file_format)

    assert config.wan_listener is not None
    assert config.wan_listener.port == 5805
    assert [user.name for user in config.wan_listener.users or ()] == ["wan"]
    assert config.wan_listener.tls is not None
    assert str(config.wan_listener.tls.certificate) == "/etc/grid-wan-tls/tls.crt"
    assert config.wan_listener.tls.client_certificates.value == "optional"
    assert config.wan.accepted_clusters == ("london", "paris")
    publisher = config.wan.replications["everywhere"].publishers["london"]
    assert publisher.tls is not None
    assert str(publisher.tls.ca) == "/etc/grid-wan-tls/ca.crt"


@FORMATS
def test_without_a_listener_nobody_sends_to_the_member(file_format: str) -> None:
    spec = {key: value for key, value in WAN_SPEC.items() if key != "wanListener"}

    config = loaded(spec, file_format)

    assert config.wan_listener is None
    assert config.wan.accepted_clusters is None
    assert config.wan.replications["everywhere"].publishers["london"].tls is None


def test_a_call_adds_what_the_file_has() -> None:
    """Members would warn for ever of two definitions of one publisher."""
    config = loaded(WAN_SPEC, "Yaml").wan

    for wish in wished_publishers(make_cluster(WAN_SPEC)):
        added = read_added(wish.definition)
        (publisher,) = added.publishers
        written = config.replications[added.name].publishers[publisher.publisher_id]
        assert publisher_document(publisher) == publisher_document(written)
        assert "password" not in json.dumps(wish.definition)
