"""What members with different files agree on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grid_member.config import config_from
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.wan.agreement.sections import (
    Section,
    definition_digest,
    definitions_of,
    section_of,
    union_of,
)

if TYPE_CHECKING:
    from tests.unit.member.config.trees import Tree

IDENTITY = {"username-password": {"username": "u", "password": "s3cret"}}
LONDON = PublisherName("r", "london")


def section(publishers: Tree | None = None, maps: Tree | None = None, **wan: Any) -> Section:
    """Return the section of a member with one replication, None for none."""
    required = {"cluster-name": "c", "target-endpoints": "a", "realm": "s"}
    blocks = {name: required | block for name, block in (publishers or {}).items()}
    tree = {
        "security": {"realms": [{"name": "s", "identity": IDENTITY}]},
        "wan-replication": {} if publishers is None else {"r": {"batch-publisher": blocks}},
        "map": maps or {},
        "wan": {name.replace("_", "-"): value for name, value in wan.items()},
    }
    return section_of(config_from(tree, {}))


def references(**more: Any) -> Tree:
    return {"m": {"wan-replication-ref": {"r": more}}}


def test_a_section_is_kept_as_it_is_and_without_credentials() -> None:
    one = section({"london": {"queue-capacity": 100}}, references())
    packed = one.pack()
    assert b"s3cret" not in packed
    assert Section.read(json.loads(packed)) == one
    assert Section.read(json.loads(packed)).digest == one.digest


def test_what_the_state_machine_goes_by() -> None:
    maps = references(**{"republishing-enabled": False, "key-filter": {"exclude": ["a*"]}})
    one = section(
        {
            "london": {
                "queue-capacity": 100,
                "queue-full-behavior": "THROW_EXCEPTION",
                "initial-publisher-state": "PAUSED",
            }
        },
        maps | {"a": {}},
        max_tombstones=7,
        max_clock_ahead_seconds=8,
        tombstone_retention_seconds=900,
    )
    assert one.agreement(3, b"i" * 16) == Agreement(
        revision=3,
        cluster_id=b"i" * 16,
        maps=(
            ("a", None),
            ("m", MapReference("r", MergePolicy.LATEST_UPDATE, False, (), ("a*",))),
        ),
        publishers=(
            AgreedPublisher(LONDON, "c", 100, WhenQueueFull.THROW_EXCEPTION, PublisherState.PAUSED),
        ),
        tombstone_retention_ms=900_000,
        max_tombstones=7,
        max_clock_ahead_ms=8000,
    )


def test_a_publisher_begins_with_the_first_member_and_ends_with_the_last() -> None:
    without, one, both = section(), section({"london": {}}), section({"london": {}, "paris": {}})
    assert union_of([without, one]).section.replications == one.replications
    assert union_of([one, both]).section.replications == both.replications
    assert union_of([without, without]).section.replications == {}


def test_a_reference_counts_when_one_member_has_it() -> None:
    with_maps, plain = section({"london": {}}, references()), section(None, {"m": {}, "n": {}})
    found = union_of([plain, with_maps]).section.maps
    assert found["m"] == with_maps.maps["m"]
    assert found["n"] is None


def test_of_two_definitions_that_of_the_oldest_member_counts() -> None:
    old, new = section({"london": {"batch-size": 1}}), section({"london": {"batch-size": 2}})
    union = union_of([old, new, new])
    assert union.section.replications == old.replications
    assert union.differing == (LONDON,)
    assert union_of([new, new]).section.replications == new.replications
    assert union_of([new, new]).differing == ()


def test_what_a_call_added_counts_beside_the_files() -> None:
    added = section({"paris": {}}).replications
    union = union_of([section({"london": {}})], [added])
    assert set(union.section.replications["r"]) == {"london", "paris"}


def test_a_file_does_not_bring_back_what_a_call_removed_unless_it_says_something_else() -> None:
    old, new = section({"london": {"batch-size": 1}}), section({"london": {"batch-size": 2}})
    removed = {LONDON: definitions_of(LONDON, [old])}
    assert union_of([old], (), removed).section.replications == {"r": {}}
    assert union_of([new], (), removed).section.replications == new.replications
    both = {LONDON: definitions_of(LONDON, [old, new])}
    assert union_of([old, new], (), both).section.replications == {"r": {}}


def test_a_setting_of_a_later_version_does_not_bring_back_what_was_removed() -> None:
    before = section({"london": {"batch-size": 1}}).replications["r"]["london"]
    assert definition_digest(before | {"of_a_later_version": 5}) != definition_digest(before)
    shorter = {name: found for name, found in before.items() if name != "compression"}
    assert before["compression"] == "AUTO", "its default"
    assert definition_digest(shorter) == definition_digest(before)


def test_a_reference_to_what_nobody_declares_is_none() -> None:
    lonely = section({"london": {}}, references())
    lonely.replications.clear()
    assert union_of([lonely]).section.maps == {"m": None}
