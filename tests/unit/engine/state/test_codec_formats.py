"""Bytes that were written once and must be read for ever."""

from __future__ import annotations

import pytest

from grid_member.engine.api import ClusterState, Eviction, EvictionPolicy
from grid_member.engine.state import codec
from grid_member.engine.state.operations import (
    Access,
    ClusterStateChange,
    MapClear,
    MapExpire,
    MapExpireIdle,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
    SystemExpire,
    SystemPut,
    SystemRemove,
    TransientStateChange,
    WanAcknowledge,
    WanAgree,
    WanCompare,
    WanDropQueue,
    WanMemberState,
    WanMerge,
    WanPurge,
)
from grid_member.engine.state.snapshot import (
    EntryPart,
    ForgottenPart,
    ItemPart,
    MemberMark,
    MemberPart,
    Part,
    QueuedPart,
    RestartStatePart,
    StampPart,
    SystemPart,
    SystemValuePart,
    TombstonePart,
    TrackedEntryPart,
    WanMapPart,
    WanPart,
)
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.engine.wan.changes import Change, ChangeKind

MEMBER = bytes(range(16))
PLAIN_RECORD = Record(
    MEMBER,
    3,
    7,
    (
        MapPut("m", "k", b"v", "t/p", 5000),
        MapPut("m", "l", b"", None, 0),
        MapRemove("m", "k"),
        MapClear("n"),
        MapExpire("m", "l"),
        QueueOffer("q", b"i", None, 9),
        QueueTake("q"),
        QueueConfirm("q", 65536, 131072),
        QueueReturn("q", 65537, 131073),
        ClusterStateChange(ClusterState.PASSIVE),
    ),
)
PLAIN_RECORD_HEX = (
    "01000102030405060708090a0b0c0d0e0f000000000000000300000000000000070000000a01000000010000"
    "0001000000010000000300000000000013886d6b76742f7001000000010000000100000000ffffffff000000"
    "00000000006d6c02000000016d000000016b03000000016e04000000016d000000016c100000000171000000"
    "0169ffffffff0000000000000009110000000171140000000171000000000001000000000000000200001500"
    "0000017100000000000100010000000000020001200000000770617373697665a37e6454"
)
PLAIN_PARTS: list[Part] = [
    SystemPart(8, 1234, ClusterState.ACTIVE),
    MemberPart(MEMBER, MemberMark(3, 7, 1)),
    EntryPart("m", "k", b"v", "t/p", 5000),
    ItemPart("q", 65536, b"i", None, MEMBER, 131072),
    ItemPart("q", 65537, b"j", "t", None, 0),
]
PLAIN_PARTS_HEX = (
    "010000000501000000000000000800000000000004d200000006616374697665020000001000010203040506"
    "0708090a0b0c0d0e0f0000000000000003000000000000000700000000000000010300000001000000010000"
    "00010000000300000000000013886d6b76742f7008000000017100000000000100000000000169ffffffff00"
    "000010000102030405060708090a0b0c0d0e0f00000000000200000400000001710000000000010001000000"
    "016a000000017400000000986751f9"
)
FORMER_RECORD = Record(MEMBER, 3, 7, (QueueConfirm("q", 65536, 0), QueueReturn("q", 65537, 0)))
"""The ends of deliveries named none at first."""
FORMER_RECORD_HEX = (
    "01000102030405060708090a0b0c0d0e0f000000000000000300000000000000070000000212000000017100"
    "0000000001000013000000017100000000000100010ab765ef"
)
FORMER_PARTS: list[Part] = [ItemPart("q", 65536, b"i", None, MEMBER, 0)]
FORMER_PARTS_HEX = (
    "010000000104000000017100000000000100000000000169ffffffff00000010000102030405060708090a0b"
    "0c0d0e0fa28ee892"
)
BOUNDED_RECORD = Record(
    MEMBER,
    3,
    7,
    (
        MapPutBounded("m", "k", b"v", None, 5000, 9000, None),
        MapPutBounded("m", "k", b"v", None, 0, 0, Eviction(EvictionPolicy.LRU, 10, 0)),
        MapPutBounded("m", "k", b"v", None, 0, 0, Eviction(EvictionPolicy.LFU, 0, 99)),
        MapPutBounded("m", "k", b"v", None, 0, 0, Eviction(EvictionPolicy.RANDOM, 1, 2)),
        MapTouch("m", (Access("k", 1234, 1), Access("l", 1235, 0))),
        MapExpireIdle("m", "k", 1234),
    ),
)
BOUNDED_RECORD_HEX = (
    "01000102030405060708090a0b0c0d0e0f000000000000000300000000000000070000000605000000010000"
    "000100000001ffffffff00000000000013886d6b7600000000000023280005000000010000000100000001ff"
    "ffffff00000000000000006d6b76000000000000000001000000000000000a00000000000000000500000001"
    "0000000100000001ffffffff00000000000000006d6b76000000000000000002000000000000000000000000"
    "0000006305000000010000000100000001ffffffff00000000000000006d6b76000000000000000003000000"
    "0000000001000000000000000206000000016d00000002000000016b00000000000004d20000000100000001"
    "6c00000000000004d30000000007000000016d000000016b00000000000004d2c5009f1f"
)
TRACKED_PARTS: list[Part] = [
    TrackedEntryPart("m", "k", b"v", "t/p", 5000, 9000, 1234, None, 1),
    TrackedEntryPart("m", "k", b"v", None, 0, 0, 0, EvictionPolicy.LFU, 7),
]
TRACKED_PARTS_HEX = (
    "0100000002050000000100000001000000010000000300000000000013886d6b76742f700000000000002328"
    "00000000000004d200000000000000000105000000010000000100000001ffffffff00000000000000006d6b"
    "76000000000000000000000000000000000200000000000000071e05b840"
)
SYSTEM_RECORD = Record(
    MEMBER,
    3,
    7,
    (
        TransientStateChange(ClusterState.FROZEN),
        SystemPut("config/1", b"{}", 0),
        SystemPut("idempotency/k", b"", 5000),
        SystemRemove("license"),
        SystemExpire(),
    ),
)
SYSTEM_RECORD_HEX = (
    "01000102030405060708090a0b0c0d0e0f000000000000000300000000000000070000000521000000066672"
    "6f7a656e3000000008636f6e6669672f31000000027b7d0000000000000000300000000d6964656d706f7465"
    "6e63792f6b00000000000000000000138831000000076c6963656e736532fd556bc4"
)
SYSTEM_PARTS: list[Part] = [
    SystemPart(8, 1234, ClusterState.PASSIVE),
    RestartStatePart(ClusterState.NO_MIGRATION),
    SystemValuePart("config/1", b"{}", 0),
    SystemValuePart("idempotency/k", b"", 6234),
]
SYSTEM_PARTS_HEX = (
    "010000000401000000000000000800000000000004d20000000770617373697665060000000c6e6f5f6d6967"
    "726174696f6e0700000008636f6e6669672f31000000027b7d0000000000000000070000000d6964656d706f"
    "74656e63792f6b00000000000000000000185aa753a188"
)

LONDON = PublisherName("r", "london")
AGREEMENT = Agreement(
    3,
    b"o" * 16,
    (
        ("m", MapReference("r", MergePolicy.PASS_THROUGH, True, ("a*",), ("tmp-*", "x"))),
        ("n", None),
    ),
    (AgreedPublisher(LONDON, "l", 9, WhenQueueFull.THROW_EXCEPTION, PublisherState.PAUSED),),
    600_000,
    1000,
    60_000,
)
CHANGE = Change("m", ChangeKind.PUT, "k", 77, b"v", "t/p", 5000, 9, (b"1" * 16, b"2" * 16))
WAN_RECORD = Record(
    MEMBER,
    3,
    7,
    (
        WanAgree(AGREEMENT),
        WanMerge(CHANGE, MergePolicy.LATEST_UPDATE, Eviction(EvictionPolicy.LRU, 10, 0)),
        WanMerge(
            Change("m", ChangeKind.CLEAR, "", 78, b"", None, 0, 0, ()),
            MergePolicy.PUT_IF_ABSENT,
            None,
        ),
        WanAcknowledge(LONDON, (("m", MEMBER, 65536),)),
        WanMemberState(LONDON, MEMBER, PublisherState.STOPPED),
        WanDropQueue(LONDON, MEMBER),
        WanCompare(LONDON, "m", b"j" * 16, begin=True),
        WanPurge("m", 77, waited_for=False),
    ),
)
WAN_RECORD_HEX = (
    "01000102030405060708090a0b0c0d0e0f000000000000000300000000000000070000000850000000000000"
    "0003000000106f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f00000002000000016d01000000017202010000000100"
    "000002612a0000000200000005746d702d2a0000000178000000016e00000000010000000172000000066c6f"
    "6e646f6e000000016c0000000000000009020200000000000927c000000000000003e8000000000000ea6051"
    "0000000100000001000000010000000300000000000013886d6b76742f7001000000000000004d0000000000"
    "0000090231313131313131313131313131313131323232323232323232323232323232320101000000000000"
    "000a000000000000000051000000010000000000000000ffffffff00000000000000006d0300000000000000"
    "4e0000000000000000000300520000000172000000066c6f6e646f6e00000001000000016d00000010000102"
    "030405060708090a0b0c0d0e0f0000000000010000530000000172000000066c6f6e646f6e00000010000102"
    "030405060708090a0b0c0d0e0f03540000000172000000066c6f6e646f6e0000001000010203040506070809"
    "0a0b0c0d0e0f550000000172000000066c6f6e646f6e000000016d000000106a6a6a6a6a6a6a6a6a6a6a6a6a"
    "6a6a6a0156000000016d000000000000004d00c338bfed"
)
WAN_PARTS: list[Part] = [
    WanPart(79, AGREEMENT, ((LONDON, MEMBER, PublisherState.REPLICATING),)),
    WanPart(79, None, ()),
    WanMapPart("m", 1, 2, (b"1" * 16,), 3, 4, True, ((LONDON, MEMBER, 65536, 5, b"j" * 16),)),
    StampPart("m", "k", 77, (b"1" * 16,)),
    TombstonePart("m", "l", 78, ()),
    QueuedPart("m", LONDON, MEMBER, "l", 65537),
]
WAN_PARTS_HEX = (
    "010000000610000000000000004f010000000000000003000000106f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f00"
    "000002000000016d01000000017202010000000100000002612a0000000200000005746d702d2a0000000178"
    "000000016e00000000010000000172000000066c6f6e646f6e000000016c0000000000000009020200000000"
    "000927c000000000000003e8000000000000ea60000000010000000172000000066c6f6e646f6e0000001000"
    "0102030405060708090a0b0c0d0e0f0110000000000000004f000000000012000000016d0000000000000001"
    "0000000000000002013131313131313131313131313131313100000000000000030000000000000004010000"
    "00010000000172000000066c6f6e646f6e00000010000102030405060708090a0b0c0d0e0f00000000000100"
    "0005000000106a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a11000000016d000000016b000000000000004d013131"
    "313131313131313131313131313113000000016d000000016c000000000000004e0014000000016d00000001"
    "72000000066c6f6e646f6e00000010000102030405060708090a0b0c0d0e0f000000016c0000000000010001"
    "d84c9e6d"
)


@pytest.mark.parametrize(
    ("record", "written"),
    [
        (PLAIN_RECORD, PLAIN_RECORD_HEX),
        (BOUNDED_RECORD, BOUNDED_RECORD_HEX),
        (SYSTEM_RECORD, SYSTEM_RECORD_HEX),
        (WAN_RECORD, WAN_RECORD_HEX),
    ],
)
def test_records_of_format_1(record: Record, written: str) -> None:
    assert codec.decode_record(bytes.fromhex(written)) == record
    assert codec.encode_record(record).hex() == written


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        (PLAIN_PARTS, PLAIN_PARTS_HEX),
        (TRACKED_PARTS, TRACKED_PARTS_HEX),
        (SYSTEM_PARTS, SYSTEM_PARTS_HEX),
        (WAN_PARTS, WAN_PARTS_HEX),
        ([ForgottenPart(77)], "010000000115000000000000004d4d4cc99c"),
    ],
)
def test_image_parts_of_format_1(parts: list[Part], written: str) -> None:
    assert codec.decode_parts(bytes.fromhex(written)) == parts
    assert codec.encode_parts(parts).hex() == written


def test_what_is_not_written_any_more_is_read() -> None:
    assert codec.decode_record(bytes.fromhex(FORMER_RECORD_HEX)) == FORMER_RECORD
    assert codec.decode_parts(bytes.fromhex(FORMER_PARTS_HEX)) == FORMER_PARTS
