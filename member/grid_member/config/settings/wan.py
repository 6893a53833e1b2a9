"""The settings of WAN replication: replications, references of maps, and what a target takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from grid_member.config.settings.setting import (
    MAX_COUNT,
    RefusedValue,
    Setting,
    choice,
    flag,
    number,
    text,
)

BATCH_PUBLISHER: Final = "wan-replication.*.batch-publisher"
MAX_INVOCATIONS: Final = 32
MERGE_POLICIES: Final = (
    "LatestUpdateMergePolicy",
    "PassThroughMergePolicy",
    "PutIfAbsentMergePolicy",
)
_PUBLISHER: Final = f"{BATCH_PUBLISHER}.*"
_REFERENCE: Final = "map.*.wan-replication-ref.*"
_LATEST: Final = "use LatestUpdateMergePolicy"
_REFUSED_POLICIES: Final = tuple(
    RefusedValue(f"{policy}MergePolicy", _LATEST)
    for policy in ("HigherHits", "LatestAccess", "ExpirationTime", "Discard", "HyperLogLog")
)
_PRIVATE_ADDRESSES: Final = (
    "write the addresses that are reached from here into target-endpoints, leave it out"
)
_DEFAULT_FILE: Final = "Default: that of `network.wan.ssl`."


def _always_true(path: str, about: str, why: str) -> Setting:
    return replace(flag(path, True, about), refused_values=(RefusedValue("false", why),))


def _ssl(section: str) -> tuple[Setting, ...]:
    return (
        flag(
            f"{section}.enabled",
            None,
            "Whether the member speaks TLS with the target. Default: as `network.wan.ssl.enabled`.",
        ),
        text(
            f"{section}.ca-file",
            None,
            f"PEM, the authorities that the target's certificate is from. {_DEFAULT_FILE}",
        ),
        text(
            f"{section}.certificate-file",
            None,
            f"PEM, the certificate that the member shows to the target. {_DEFAULT_FILE}",
        ),
        text(f"{section}.key-file", None, "Required with it: PEM, the certificate's private key."),
        text(f"{section}.key-password", None, "Of an encrypted key; never shown or logged."),
        choice(
            f"{section}.minimum-version",
            "TLSv1.2",
            "The member refuses older versions.",
            *("TLSv1.2", "TLSv1.3"),
        ),
    )


WAN_REFERENCES: Final[tuple[Setting, ...]] = (
    replace(
        choice(
            f"{_REFERENCE}.merge-policy-class-name",
            MERGE_POLICIES[0],
            "Which change of a key counts at the target. The name of a package before it is "
            "dropped.",
            *MERGE_POLICIES,
            refused=_REFUSED_POLICIES,
        ),
        drops_package=True,
    ),
    flag(
        f"{_REFERENCE}.republishing-enabled",
        True,
        "Whether changes that other clusters sent are published again.",
    ),
    text(
        f"{_REFERENCE}.key-filter.include.[]",
        None,
        "Pattern of keys with one `*` at most: with one or more, only keys that match one of them "
        "are replicated.",
    ),
    text(
        f"{_REFERENCE}.key-filter.exclude.[]",
        None,
        "Pattern of keys with one `*` at most: keys that match one of them are not replicated.",
    ),
    flag("map.*.merkle-tree.enabled", None, "Without effect: digests are made when needed."),
    number("map.*.merkle-tree.depth", 10, "Without effect.", 2, 27),
)

WAN: Final[tuple[Setting, ...]] = (
    text(
        f"{_PUBLISHER}.cluster-name",
        None,
        "Required: the `cluster-name` of the target, which refuses another one.",
    ),
    text(
        f"{_PUBLISHER}.target-endpoints",
        None,
        "Required: addresses of the target's WAN port with commas between them, at most 32: host, "
        "host:port, [IPv6] or [IPv6]:port. Without a port 5705.",
    ),
    text(
        f"{_PUBLISHER}.realm",
        None,
        "The name of a realm in `security.realms` whose identity the member shows to the target. "
        "Required unless the member shows a certificate.",
    ),
    number(f"{_PUBLISHER}.batch-size", 500, "How many changes a batch holds at most.", 1, 10_000),
    number(
        f"{_PUBLISHER}.batch-max-delay-millis",
        1000,
        "How long a batch waits for more changes while another one is under way.",
        0,
        60_000,
    ),
    number(
        f"{_PUBLISHER}.response-timeout-millis",
        60_000,
        "How long the member waits for the answer to a batch before it sends the batch again.",
        1000,
        600_000,
    ),
    choice(
        f"{_PUBLISHER}.acknowledge-type",
        "ACK_ON_OPERATION_COMPLETE",
        "A batch is acknowledged when the target has committed it.",
        "ACK_ON_OPERATION_COMPLETE",
        refused=(
            RefusedValue(
                "ACK_ON_RECEIPT", "use ACK_ON_OPERATION_COMPLETE, what is received may be lost"
            ),
        ),
    ),
    number(
        f"{_PUBLISHER}.queue-capacity",
        100_000,
        "How many keys of a map that one member changed may wait for the target.",
        100,
        10_000_000,
    ),
    choice(
        f"{_PUBLISHER}.queue-full-behavior",
        "DISCARD_AFTER_MUTATION",
        "What becomes of a change that a full queue has no place for: it is stored and the map is "
        "compared with the target later, or the write is refused (503), always or while the "
        "member's publisher is REPLICATING.",
        "DISCARD_AFTER_MUTATION",
        "THROW_EXCEPTION",
        "THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE",
    ),
    number(
        f"{_PUBLISHER}.max-concurrent-invocations",
        -1,
        "How many batches are under way at once; -1 is from 1 to 8 by the target's speed. 0 is an "
        "error.",
        -1,
        MAX_INVOCATIONS,
    ),
    number(
        f"{_PUBLISHER}.discovery-period-seconds",
        10,
        "How often the member resolves the names of the endpoints.",
        1,
        3600,
    ),
    number(
        f"{_PUBLISHER}.max-target-endpoints",
        MAX_COUNT,
        "To how many addresses the member connects at most.",
        1,
    ),
    replace(
        flag(
            f"{_PUBLISHER}.use-endpoint-private-address",
            False,
            "The member connects to the addresses of target-endpoints alone.",
        ),
        refused_values=(RefusedValue("true", _PRIVATE_ADDRESSES),),
    ),
    choice(
        f"{_PUBLISHER}.initial-publisher-state",
        "REPLICATING",
        "The publisher's state on a member that has none stored.",
        *("REPLICATING", "PAUSED", "STOPPED"),
    ),
    _always_true(
        f"{_PUBLISHER}.snapshot-enabled",
        "Of several changes of a key only the newest one is sent.",
        "only the newest change of a key travels, leave it out",
    ),
    choice(
        f"{_PUBLISHER}.sync.consistency-check-strategy",
        "MERKLE_TREES",
        "MERKLE_TREES: a synchronisation compares digests and sends what differs. NONE: it sends "
        "everything, and there is no consistency check.",
        *("MERKLE_TREES", "NONE"),
    ),
    choice(
        f"{_PUBLISHER}.sync.extra-entries",
        "KEEP",
        "What a synchronisation does with entries that only the target has.",
        *("KEEP", "REMOVE"),
    ),
    choice(
        f"{_PUBLISHER}.compression",
        "AUTO",
        "AUTO: the member compresses batches where that makes them a fifth smaller.",
        *("AUTO", "NONE"),
    ),
    *_ssl(f"{_PUBLISHER}.ssl"),
    _always_true(
        "wan-replication.*.consumer.persist-wan-replicated-data",
        "Entries that other clusters sent are kept as the map's `data-persistence` says.",
        "entries that come are kept as the map's data-persistence says, leave it out",
    ),
    text(
        "wan.accepted-clusters.[]",
        None,
        "Name of a cluster whose changes this one takes. Default: of any that authenticates.",
    ),
    number(
        "wan.tombstone-retention-seconds",
        604_800,
        "How long the members remember a removed entry for a cluster that is silent.",
        600,
        31_536_000,
    ),
    number(
        "wan.max-tombstones",
        1_000_000,
        "How many removed entries of a map the members remember at most.",
        1,
    ),
    number(
        "wan.max-clock-ahead-seconds",
        60,
        "How far the time of a change may be ahead of this cluster's; a map whose changes are "
        "further ahead waits at its source.",
        1,
        3600,
    ),
)
