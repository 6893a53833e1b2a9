"""Promise: a member sends to the target that the members agreed on, with what its own file shows.

The file alone says where a publisher sends only before there is an agreement.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.config.model.member import User
from grid_member.config.model.wan import (
    WanConfig,
    WanPublisherConfig,
    WanReplicationConfig,
    WanTargetTlsConfig,
)
from grid_member.engine.wan.agreement import PublisherName
from grid_member.wan.agreement.definitions import credentials_problem, own_side, with_credentials
from tests.unit.member.wan.jobs.sites import PEER, add_peer, calls, change
from tests.unit.member.wan.pairs import Site, start_both, until_quiet, until_value
from tests.unit.member.wan.test_pair import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TO_OLD: Final = User("peer", "old")
TO_NEW: Final = User("peer", "new")
OWN_TLS: Final = WanTargetTlsConfig("publisher.ssl", Path("own.crt"))
LISTENER_TLS: Final = WanTargetTlsConfig("wan.ssl", Path("listener.crt"))
IN_FILE: Final = WanPublisherConfig(
    "peer", "london", (("a", 5705),), realm="old", identity=TO_OLD, tls=OWN_TLS
)


@pytest.fixture
async def moved() -> AsyncIterator[tuple[Site, Site, Site]]:
    """Return a source, its target, and another cluster of the target's name."""
    tokyo_port, port, other_port = free_port(), free_port(), free_port()
    tokyo = Site("tokyo", tokyo_port, "london", port)
    london = Site("london", port, "tokyo", tokyo_port, publishes=False)
    other = Site("london", other_port, "tokyo", tokyo_port, publishes=False)
    yield tokyo, london, other
    for site in (tokyo, london, other):
        await site.stop()


async def test_a_publisher_that_a_call_replaced_sends_to_the_new_address(
    moved: tuple[Site, Site, Site],
) -> None:
    tokyo, london, other = moved
    await london.start()
    await other.start()
    await start_both(tokyo)
    await tokyo.put("orders", "before", b"1")
    await until_value(london, "orders", "before", b"1")
    assert tokyo.figures.endpoint == f"127.0.0.1 port {london.port}"
    await until_quiet(tokyo)

    await change(tokyo, *calls(tokyo).remove(PEER))
    await add_peer(tokyo, "london", other.port)
    # At once: the sender has not looked for another definition yet.
    await tokyo.put("orders", "after", b"2")
    await until_value(other, "orders", "after", b"2")
    assert tokyo.figures.endpoint == f"127.0.0.1 port {other.port}"
    await until_quiet(tokyo)
    assert await london.get("orders", "after") is None


def own_file(tls: WanTargetTlsConfig | None = LISTENER_TLS, *, tls_problem: str = "") -> WanConfig:
    return WanConfig(
        {"rep": WanReplicationConfig("rep", {"peer": IN_FILE})},
        identities={"old": TO_OLD, "new": TO_NEW},
        tls=tls,
        tls_problem=tls_problem,
    )


def agreed(endpoint: str, realm: str = "old", cluster_name: str = "london") -> WanPublisherConfig:
    return WanPublisherConfig("peer", cluster_name, ((endpoint, 5705),), realm=realm)


def sent_with(publisher: WanPublisherConfig, own: WanConfig, replication: str = "rep") -> Any:
    side = own_side(PublisherName(replication, "peer"), publisher, own)
    assert credentials_problem(publisher, side) is None
    found = with_credentials(publisher, side)
    assert found.target_endpoints == publisher.target_endpoints
    return found.identity, found.tls


def test_credentials_and_tls_are_those_of_the_own_file() -> None:
    own = own_file()
    assert sent_with(agreed("a"), own) == (TO_OLD, OWN_TLS)
    assert sent_with(agreed("b"), own) == (TO_OLD, OWN_TLS)
    assert sent_with(agreed("b", "new"), own) == (TO_NEW, OWN_TLS)


def test_the_tls_of_a_publisher_is_for_its_target_alone() -> None:
    own = own_file()
    assert sent_with(agreed("b", cluster_name="paris"), own) == (TO_OLD, LISTENER_TLS)
    assert sent_with(agreed("a"), own, "other") == (TO_OLD, LISTENER_TLS)


def test_a_listener_without_authorities_does_not_hold_up_a_publisher_with_its_own() -> None:
    own = own_file(None, tls_problem="network.wan.ssl has no ca-file")
    assert sent_with(agreed("b"), own) == (TO_OLD, OWN_TLS)
    side = own_side(PublisherName("other", "peer"), agreed("b"), own)
    assert credentials_problem(agreed("b"), side) == "network.wan.ssl has no ca-file"


def test_a_member_without_the_agreed_realm_cannot_send() -> None:
    side = own_side(PublisherName("rep", "peer"), agreed("a", "gone"), own_file())
    problem = credentials_problem(agreed("a", "gone"), side)
    assert problem == "realm gone is not in security.realms or has no identity"
