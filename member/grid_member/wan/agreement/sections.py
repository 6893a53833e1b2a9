"""The WAN sections of the members' configurations, and the one that the cluster goes by. Pure.

A section is what a member's file says, without credentials. The union of the sections of all
members, oldest member first, with what was added by calls and without what was removed by calls,
is the content of `wan/config`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.wan.agreement.definitions import (
    Document,
    packed,
    publisher_document,
    read_publisher,
    without_defaults,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grid_member.config.model.member import MemberConfig
    from grid_member.config.model.wan import WanPublisherConfig, WanReferenceConfig

Publishers: TypeAlias = "dict[str, dict[str, Document]]"
"""Definitions by replication and publisher."""
Removed: TypeAlias = "Mapping[PublisherName, frozenset[str]]"
"""The digests of the definitions that calls have removed, by publisher."""
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class Section:
    """What is configured about WAN replication, but for credentials and the listener."""

    maps: dict[str, Document | None]
    """The references of all configured maps; None: maps of this name are not replicated."""
    replications: Publishers
    tombstone_retention_s: int
    max_tombstones: int
    max_clock_ahead_s: int

    def pack(self) -> bytes:
        """Return it as it is stored."""
        return packed(self._document())

    def _document(self) -> Document:
        return {
            "maps": self.maps,
            "replications": self.replications,
            "tombstone_retention_s": self.tombstone_retention_s,
            "max_tombstones": self.max_tombstones,
            "max_clock_ahead_s": self.max_clock_ahead_s,
        }

    @classmethod
    def read(cls, document: Mapping[str, object]) -> Section:
        """Return what `pack` made, as JSON gives it back."""
        return cls(
            cast("dict[str, Document | None]", document["maps"]),
            cast("Publishers", document["replications"]),
            cast("int", document["tombstone_retention_s"]),
            cast("int", document["max_tombstones"]),
            cast("int", document["max_clock_ahead_s"]),
        )

    @property
    def digest(self) -> str:
        """Names the content."""
        return hashlib.sha256(self.pack()).hexdigest()

    @property
    def configured(self) -> bool:
        """Whether there is any replication."""
        return bool(self.replications)

    def publisher(self, name: PublisherName) -> WanPublisherConfig | None:
        """Return a publisher without credentials, None when there is none of this name."""
        found = self.replications.get(name.replication, {}).get(name.publisher)
        return None if found is None else read_publisher(found)

    def publishers(self) -> Iterator[tuple[PublisherName, WanPublisherConfig]]:
        """Yield all publishers, without credentials."""
        for replication, publishers in self.replications.items():
            for publisher, definition in publishers.items():
                yield PublisherName(replication, publisher), read_publisher(definition)

    def published_to(self, cluster_name: str) -> tuple[str, ...]:
        """Return the configured names of the maps that any publisher sends to a cluster."""
        sending = {
            name.replication
            for name, publisher in self.publishers()
            if publisher.cluster_name == cluster_name
        }
        return tuple(
            sorted(
                name
                for name, reference in self.maps.items()
                if reference is not None and reference["replication"] in sending
            )
        )

    def agreement(self, revision: int, cluster_id: bytes) -> Agreement:
        """Return what the state machine goes by."""
        return Agreement(
            revision=revision,
            cluster_id=cluster_id,
            maps=tuple(
                (name, None if found is None else _map_reference(found))
                for name, found in sorted(self.maps.items())
            ),
            publishers=tuple(
                _agreed(PublisherName(replication, publisher), definition)
                for replication, publishers in sorted(self.replications.items())
                for publisher, definition in sorted(publishers.items())
            ),
            tombstone_retention_ms=self.tombstone_retention_s * _MILLISECONDS,
            max_tombstones=self.max_tombstones,
            max_clock_ahead_ms=self.max_clock_ahead_s * _MILLISECONDS,
        )


@dataclass(frozen=True, slots=True)
class Union:
    """What the members agree on, and the publishers that they define differently."""

    section: Section
    differing: tuple[PublisherName, ...] = field(default=())


def section_of(config: MemberConfig) -> Section:
    """Return a member's section."""
    wan = config.wan
    return Section(
        maps={
            name: None if found.wan is None else _reference(found.wan)
            for name, found in config.maps.items()
        },
        replications={
            name: {each: publisher_document(found) for each, found in block.publishers.items()}
            for name, block in wan.replications.items()
        },
        tombstone_retention_s=wan.tombstone_retention_s,
        max_tombstones=wan.max_tombstones,
        max_clock_ahead_s=wan.max_clock_ahead_s,
    )


def definition_digest(definition: Document) -> str:
    """Return what tells a definition of a publisher from another one.

    Settings at their defaults do not count: a later version has more settings.
    """
    return hashlib.sha256(packed(without_defaults(definition))).hexdigest()


def definitions_of(name: PublisherName, sections: Iterable[Section]) -> frozenset[str]:
    """Return the digests of the definitions that members have of a publisher."""
    found = (section.replications.get(name.replication, {}) for section in sections)
    return frozenset(
        definition_digest(each[name.publisher]) for each in found if name.publisher in each
    )


def union_of(
    sections: Sequence[Section],
    added: Iterable[Publishers] = (),
    removed: Removed | None = None,
) -> Union:
    """Return what members with these sections agree on.

    Args:
        sections: those of all members, at least one, oldest member first.
        added: what calls have added, in the order of the calls.
        removed: what calls have removed.
    """
    removed = removed or {}
    maps: dict[str, Document | None] = {}
    replications: Publishers = {}
    differing: dict[PublisherName, None] = {}
    for section in sections:
        for name, reference in section.maps.items():
            if maps.get(name) is None:
                maps[name] = reference
    for each in (*(section.replications for section in sections), *added):
        for replication, publishers in each.items():
            present = replications.setdefault(replication, {})
            for publisher, definition in publishers.items():
                called = PublisherName(replication, publisher)
                if definition_digest(definition) in removed.get(called, ()):
                    continue
                if present.setdefault(publisher, definition) != definition:
                    differing[called] = None
    oldest = sections[0]
    section = Section(
        _declared(maps, replications),
        replications,
        oldest.tombstone_retention_s,
        oldest.max_tombstones,
        oldest.max_clock_ahead_s,
    )
    return Union(section, tuple(differing))


def _declared(
    maps: dict[str, Document | None], replications: Publishers
) -> dict[str, Document | None]:
    """Leave out references to what no member declares any more."""
    return {
        name: found if found is None or found["replication"] in replications else None
        for name, found in maps.items()
    }


def _reference(config: WanReferenceConfig) -> Document:
    return {
        "replication": config.replication,
        "policy": config.merge_policy,
        "republishing": config.republishing,
        "include": list(config.include),
        "exclude": list(config.exclude),
    }


def _map_reference(found: Document) -> MapReference:
    return MapReference(
        replication=str(found["replication"]),
        policy=MergePolicy(found["policy"]),
        republishing=bool(found["republishing"]),
        include=tuple(map(str, cast("list[str]", found["include"]))),
        exclude=tuple(map(str, cast("list[str]", found["exclude"]))),
    )


def _agreed(name: PublisherName, definition: Document) -> AgreedPublisher:
    publisher = read_publisher(definition)
    return AgreedPublisher(
        name=name,
        cluster_name=publisher.cluster_name,
        queue_capacity=publisher.queue_capacity,
        when_full=WhenQueueFull(publisher.queue_full_behavior),
        initial_state=PublisherState(publisher.initial_publisher_state),
    )
