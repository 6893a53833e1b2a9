"""A publisher as members tell it to each other: JSON without credentials and without files."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.config.model.wan import WanPublisherConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config.model.wan import WanConfig
    from grid_member.engine.wan.agreement import PublisherName

Document: TypeAlias = "dict[str, object]"
_OWN: Final = frozenset({"identity", "tls"})
"""What each member takes from its own file."""
_NAMES: Final = tuple(each.name for each in fields(WanPublisherConfig) if each.name not in _OWN)
_DEFAULTS: Final[Document] = {
    each.name: each.default for each in fields(WanPublisherConfig) if each.default is not MISSING
}


def publisher_document(publisher: WanPublisherConfig) -> Document:
    """Return what the members keep of a publisher."""
    document = {name: getattr(publisher, name) for name in _NAMES}
    # As JSON gives it back, so that documents of one content are equal.
    return document | {"target_endpoints": [list(each) for each in publisher.target_endpoints]}


def read_publisher(document: Mapping[str, object]) -> WanPublisherConfig:
    """Return what `publisher_document` made, as JSON gives it back; without identity and TLS.

    What a newer member has added is left out, and what an older one has not has its default.
    """
    found = {name: document[name] for name in _NAMES if name in document}
    listed = found.pop("target_endpoints", [])
    endpoints = tuple((str(host), int(port)) for host, port in listed)  # type: ignore[attr-defined]
    return WanPublisherConfig(**found, target_endpoints=endpoints)  # type: ignore[arg-type]


def without_defaults(document: Mapping[str, object]) -> Document:
    """Return a document without the settings that are at their defaults."""
    return {
        name: value
        for name, value in document.items()
        if name not in _DEFAULTS or _DEFAULTS[name] != value
    }


def declared_publisher(name: PublisherName, own: WanConfig) -> WanPublisherConfig | None:
    """Return the publisher of this member's file, None when the file has none of the name."""
    replication = own.replications.get(name.replication)
    return None if replication is None else replication.publishers.get(name.publisher)


def own_side(name: PublisherName, publisher: WanPublisherConfig, own: WanConfig) -> WanConfig:
    """Return what this member has to show to the target of a publisher that was agreed on.

    A file that has a publisher of the name for the same cluster says how to speak TLS with it,
    also when the members agreed on other addresses or settings.
    """
    declared = declared_publisher(name, own)
    if declared is None or declared.cluster_name != publisher.cluster_name:
        return own
    return replace(own, tls=declared.tls, tls_problem="")


def with_credentials(publisher: WanPublisherConfig, own: WanConfig) -> WanPublisherConfig:
    """Return a publisher with what this member shows to the target, as far as its file has it."""
    return replace(publisher, identity=own.identities.get(publisher.realm or ""), tls=own.tls)


def credentials_problem(publisher: WanPublisherConfig, own: WanConfig) -> str | None:
    """Return why this member cannot send for a publisher that is added, None when it can."""
    if own.tls_problem:
        return own.tls_problem
    if publisher.realm is not None and publisher.realm not in own.identities:
        return f"realm {publisher.realm} is not in security.realms or has no identity"
    if publisher.realm is None and (own.tls is None or own.tls.certificate is None):
        return "properties.realm is missing, and there is no certificate to be shown"
    return None


def packed(document: object) -> bytes:
    """Return a document as bytes, the same for the same content."""
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
