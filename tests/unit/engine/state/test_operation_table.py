"""An operation is declared once, and everything else follows from its declaration."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import pytest

from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.engine.state.codec import NewerError, decode_record, encode_record
from grid_member.engine.state.fields import ENTRY_FIELDS
from grid_member.engine.state.layout import (
    BLOB,
    CLUSTER_STATE,
    CONTENT_TYPE,
    ENTRY,
    NUMBER,
    TEXT,
    ZERO,
)
from grid_member.engine.state.machine import State
from grid_member.engine.state.operation_table import (
    OPERATION_BYTES,
    OPERATIONS,
    OperationSpec,
    OperationTable,
    Scope,
    WhenFull,
)
from grid_member.engine.state.operations import (
    ClusterStateChange,
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    MemberGone,
    Operation,
    QueueOffer,
    QueueTake,
    Record,
    SystemExpire,
    SystemPut,
    SystemRemove,
    TransientStateChange,
    WanMerge,
)

if TYPE_CHECKING:
    from grid_member.engine.state.operation_table import Handler

MEMBER = b"m" * 16
SOURCES = Path(__file__).parents[4] / "member" / "grid_member"
DECLARING = ("operations.py", "operation_table.py")


class Append(NamedTuple):
    """An operation that no version has: it appends to the value of an entry."""

    name: str
    key: str
    suffix: bytes
    content_type: str | None
    times: int
    state: ClusterState
    former: int


def appending(state: State) -> Handler:
    def append(operation: Append, member: bytes, place: int, now_ms: int) -> bool:
        entry = state.entry(operation.name, operation.key, now_ms)
        value = (b"" if entry is None else entry.value) + operation.suffix * operation.times
        put = MapPut(operation.name, operation.key, value, operation.content_type, 0)
        state.maps.put(put, member, place, now_ms)
        return entry is not None

    return append


WITH_APPEND = OperationTable(
    *OPERATIONS.specs,
    OperationSpec(
        Append,
        0x7F,
        (TEXT, TEXT, BLOB, CONTENT_TYPE, NUMBER, CLUSTER_STATE, ZERO),
        appending,
        Scope.DATA,
        WhenFull.REFUSED,
        refused_when_passive=True,
        size_bytes=lambda operation: len(operation.suffix) * operation.times,
        former=((0x7E, (TEXT, TEXT, BLOB, CONTENT_TYPE, NUMBER, CLUSTER_STATE, NUMBER)),),
    ),
)
APPEND = cast("Operation", Append("m", "k", b"+", "text/plain", 3, ClusterState.FROZEN, 0))
PUT = MapPut("m", "k", b"v", None, 0)
RECORD = Record(MEMBER, 1, 1, (PUT, APPEND, APPEND, MapTouch("m", ()), PUT))


def test_a_declared_operation_is_written_and_read() -> None:
    assert decode_record(encode_record(RECORD, WITH_APPEND), WITH_APPEND) == RECORD
    alone = encode_record(Record(MEMBER, 1, 1, (APPEND,)), WITH_APPEND)
    assert alone[37:-4].hex() == (
        "7f000000016d000000016b000000012b0000000a746578742f706c61696e0000000000000003"
        "0000000666726f7a656e"
    )
    with pytest.raises(NewerError, match="operation 0x7f"):
        decode_record(alone)


def test_a_declared_operation_is_applied_unless_the_cluster_is_passive() -> None:
    state = State(WITH_APPEND)
    assert state.apply(1, 1, Record(MEMBER, 1, 1, (APPEND, APPEND))) == [False, True]
    entry = state.entry("m", "k", 1)
    assert entry is not None
    assert entry.value == b"++++++"
    passive = ClusterStateChange(ClusterState.PASSIVE)
    outcomes = state.apply(2, 2, Record(MEMBER, 1, 2, (passive, APPEND)))
    assert outcomes is not None
    assert isinstance(outcomes[1], Refused)
    assert outcomes[1].reason is Reason.PASSIVE


def test_a_declared_operation_counts_where_others_do() -> None:
    kind = type(APPEND)
    table = WITH_APPEND
    assert kind in table.of_data
    assert kind in table.growing
    assert kind in table.refused_when_passive
    assert kind not in table.of_system | table.notes | table.sent_again
    assert table.grows(Record(MEMBER, 1, 1, (MapClear("m"), APPEND)))
    assert not table.grows(Record(MEMBER, 1, 1, (MapClear("m"),)))
    assert table.taken_bytes(APPEND) == OPERATION_BYTES + 3


def test_each_operation_is_declared_once() -> None:
    declared = [spec.operation for spec in OPERATIONS.specs]
    assert len(declared) == len(set(declared))
    assert set(declared) == set(get_args(Operation))
    tags = [tag for spec in OPERATIONS.specs for tag in (spec.tag, *dict(spec.former))]
    assert len(tags) == len(set(tags))
    assert len(OPERATIONS.readers) == len(tags)


def test_layouts_have_the_fields_of_their_operations() -> None:
    for spec in OPERATIONS.specs:
        for fields in (spec.fields, *dict(spec.former).values()):
            count = sum(ENTRY_FIELDS if field is ENTRY else 1 for field in fields)
            assert count == len(spec.operation._fields), spec.operation
            assert ENTRY not in fields[1:]


def test_what_is_refused_taken_and_sent_again() -> None:
    growing = {MapPut, MapPutBounded, MapTouch, QueueOffer, WanMerge}
    assert growing == OPERATIONS.growing
    assert {SystemPut} == OPERATIONS.notes
    assert set(get_args(Operation)) - growing - {SystemPut, SystemRemove} == OPERATIONS.sent_again
    assert OPERATIONS.refused_when_passive == {
        *(MapPut, MapPutBounded, MapRemove, MapClear, QueueOffer, QueueTake, WanMerge)
    }
    system = {ClusterStateChange, TransientStateChange, SystemPut, SystemRemove, SystemExpire}
    assert system == OPERATIONS.of_system
    assert set(get_args(Operation)) - system - {MemberGone} == OPERATIONS.of_data


def test_puts_take_as_much_with_a_bound_as_without() -> None:
    for content_type in (None, "text/plain"):
        put = MapPut("name", "key", b"value", content_type, 0)
        bounded = MapPutBounded(*put, 0, None)
        assert OPERATIONS.taken_bytes(put) == OPERATIONS.taken_bytes(bounded)


NAMES = {operation.__name__ for operation in get_args(Operation)}


def listed(source: str) -> list[int]:
    """Return the lines with a collection of operations, or with a choice among their types."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict, ast.Call, ast.Match))
        and len(named(node)) > 1
    ]


def named(node: ast.AST) -> set[str]:
    match node:
        case ast.Set(elts=found) | ast.Tuple(elts=found) | ast.List(elts=found):
            names = found
        case ast.Dict(keys=keys):
            names = [key for key in keys if key is not None]
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            names = [one for one in ast.walk(kinds) if isinstance(one, ast.expr)]
        case ast.Match(cases=cases):
            patterns = [case.pattern for case in cases]
            names = [one.cls for one in patterns if isinstance(one, ast.MatchClass)]
        case _:
            return set()
    return {name.id for name in names if isinstance(name, ast.Name) and name.id in NAMES}


def test_no_other_module_lists_operations() -> None:
    files = [file for file in SOURCES.rglob("*.py") if file.name not in DECLARING]
    assert len(files) > 300
    found = {
        str(file.relative_to(SOURCES)): lines
        for file in files
        if (lines := listed(file.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "GROWING = frozenset({MapPut, QueueOffer})",
        "GROWING = (MapPut, QueueOffer)",
        "HANDLERS = {MapPut: put, QueueOffer: offer}",
        "grows = isinstance(operation, MapPut | QueueOffer)",
        "grows = isinstance(operation, (MapPut, QueueOffer))",
        "match operation:\n    case MapPut():\n        pass\n    case QueueOffer():\n        pass",
    ],
)
def test_a_list_of_operations_is_found(source: str) -> None:
    assert listed(source)
