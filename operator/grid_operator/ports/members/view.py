"""What members' documents say, checked field by field. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar

from grid_operator.decide.model import (
    MemberOperation,
    MemberView,
    StructureUse,
    WanPublisherView,
)
from grid_operator.decide.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEALTH_PATH: Final = "/grid/health"
READY_PATH: Final = "/grid/health/ready"
SAFE_PATH: Final = "/grid/health/cluster-safe"
CLUSTER_PATH: Final = "/grid/rest/cluster"
VERSION_PATH: Final = "/grid/rest/management/cluster/version"
OPERATIONS_PATH: Final = "/grid/rest/management/cluster/operations"
USAGE_PATH: Final = "/grid/rest/management/cluster/usage"

WAN_PATH: Final = "/grid/rest/wan/status"
WAN_UNCONFIGURED: Final = "wan-replication is not configured"

MAX_OPERATIONS: Final = 256
MAX_STRUCTURES: Final = 2_000
MAX_WORD_LENGTH: Final = 32
MAX_ID_LENGTH: Final = 64
MAX_ADDRESS_LENGTH: Final = 300
MAX_TEXT_LENGTH: Final = 512
"""In characters. What is longer is not in the interface, and would not fit into a status."""

FieldT = TypeVar("FieldT", int, bool)


class BadAnswerError(Exception):
    """The member answered something that is not in the interface."""


def parse_json(body: bytes, path: str) -> object:
    """Return the JSON value of a document.

    Raises:
        BadAnswerError: It is none.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswerError(f"answered something other than JSON to GET {path}") from error


def parse_object(body: bytes, path: str) -> dict[str, object]:
    """Return the JSON object of a document.

    Raises:
        BadAnswerError: It is none.
    """
    document = parse_json(body, path)
    if not isinstance(document, dict):
        raise BadAnswerError(f"answered no JSON object to GET {path}")
    return document


def member_view(documents: Mapping[str, bytes], *, ready: bool) -> MemberView:
    """Return what a member's documents say together.

    Args:
        documents: Bodies by path; those of operations and usage may be missing.
        ready: Whether the ready check answered 200.

    Raises:
        BadAnswerError: A document is not as the interface says.
    """
    health = parse_object(documents[HEALTH_PATH], HEALTH_PATH)
    member = _local_member(parse_object(documents[CLUSTER_PATH], CLUSTER_PATH))
    version = parse_object(documents[VERSION_PATH], VERSION_PATH)
    return MemberView(
        uuid=_word(member, "uuid", MAX_ID_LENGTH, CLUSTER_PATH),
        address=_word(member, "address", MAX_ADDRESS_LENGTH, CLUSTER_PATH),
        version=_word(member, "memberVersion", MAX_WORD_LENGTH, CLUSTER_PATH),
        cluster_version=_word(version, "version", MAX_WORD_LENGTH, VERSION_PATH),
        node_state=node_state(health),
        cluster_state=_word(health, "clusterState", MAX_WORD_LENGTH, HEALTH_PATH),
        cluster_safe=_field(health, "clusterSafe", bool, HEALTH_PATH),
        migration_queue_size=_field(health, "migrationQueueSize", int, HEALTH_PATH),
        cluster_size=_field(health, "clusterSize", int, HEALTH_PATH),
        ready=ready,
        operations=_operations(documents.get(OPERATIONS_PATH)),
        structures=_structures(documents.get(USAGE_PATH)),
    )


def node_state(health: Mapping[str, object]) -> str:
    """Return the node state of a health document.

    Raises:
        BadAnswerError: It has none.
    """
    return _word(health, "nodeState", MAX_WORD_LENGTH, HEALTH_PATH)


def _operations(body: bytes | None) -> tuple[MemberOperation, ...]:
    path = OPERATIONS_PATH
    return tuple(
        MemberOperation(
            id=_word(item, "id", MAX_ID_LENGTH, path),
            kind=_word(item, "kind", MAX_ID_LENGTH, path),
            stage=_word(item, "stage", MAX_WORD_LENGTH, path),
            progress=_field(item, "progress", int, path),
            error=printable(str(item.get("error") or ""))[:MAX_TEXT_LENGTH],
        )
        for item in list(_items(body, path))[-MAX_OPERATIONS:]
    )


def _structures(body: bytes | None) -> tuple[StructureUse, ...]:
    path = USAGE_PATH
    if body is None:
        return ()
    found = parse_object(body, path).get("structures")
    return tuple(
        StructureUse(
            kind=_word(item, "kind", MAX_ID_LENGTH, path),
            name=_text(item, "name", MAX_TEXT_LENGTH, path),
            entries=_field(item, "entries", int, path),
        )
        for item in list(_dicts(found, path))[:MAX_STRUCTURES]
    )


def wan_publishers(body: bytes) -> tuple[WanPublisherView, ...]:
    """Return the publishers of a document about WAN replication.

    Raises:
        BadAnswerError: It is not as the interface says.
    """
    path = WAN_PATH
    return tuple(
        WanPublisherView(
            replication=_text(replication, "name", MAX_TEXT_LENGTH, path),
            id=_text(publisher, "publisherId", MAX_TEXT_LENGTH, path),
            states={
                _word(member, "uuid", MAX_ID_LENGTH, path): _word(
                    member, "state", MAX_WORD_LENGTH, path
                )
                for member in _dicts(publisher.get("members"), path)
            },
            reason=printable(str(publisher.get("needsSyncReason") or ""))[:MAX_TEXT_LENGTH],
        )
        for replication in _dicts(parse_object(body, path).get("replications"), path)
        for publisher in _dicts(replication.get("publishers"), path)
    )


def _items(body: bytes | None, path: str) -> Iterator[dict[str, object]]:
    return iter(()) if body is None else _dicts(parse_json(body, path), path)


def _dicts(value: object, path: str) -> Iterator[dict[str, object]]:
    if not isinstance(value, list):
        raise BadAnswerError(f"answered no proper list to GET {path}")
    for item in value:
        if not isinstance(item, dict):
            raise BadAnswerError(f"answered no proper list to GET {path}")
        yield item


def _local_member(document: dict[str, object]) -> dict[str, object]:
    members = document.get("members")
    for member in members if isinstance(members, list) else ():
        if isinstance(member, dict) and member.get("localMember") is True:
            return member
    raise BadAnswerError(f"answered no local member to GET {CLUSTER_PATH}")


def _text(document: Mapping[str, object], name: str, limit: int, path: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or len(value) > limit or not value.isprintable():
        raise BadAnswerError(f"answered no proper {name} to GET {path}")
    return value


def _word(document: Mapping[str, object], name: str, limit: int, path: str) -> str:
    """Return text in ASCII, whose length stays the same in whatever case it is written."""
    value = _text(document, name, limit, path)
    if not value.isascii():
        raise BadAnswerError(f"answered no proper {name} to GET {path}")
    return value


def _field(document: Mapping[str, object], name: str, kind: type[FieldT], path: str) -> FieldT:
    value = document.get(name)
    if type(value) is not kind:  # bool is an int to isinstance
        raise BadAnswerError(f"answered no proper {name} to GET {path}")
    return value
