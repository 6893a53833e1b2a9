"""The description of the interface is complete, well-formed and true of a running member."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jsonschema
import pytest

from grid_member.http.openapi.description import Schemas, description
from grid_member.http.openapi.rows import DESCRIBED
from grid_member.http.table import ROUTES, Route
from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.member.running import RunningMember

DOCUMENT = description("1.2.3")
EXTRA = "  cp-subsystem: {cp-member-count: 3}"
JOIN = "  network:\n    join: {tcp-ip: {enabled: true, member-list: [a]}}"
TWINS = {"HEAD", "PUT"}
"""Methods that do what GET and POST do, and are described with them."""


def described() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and operation of everything described."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


OPERATIONS = list(described())


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """Return what a part refers to, or the part itself."""
    while "$ref" in part:
        found: Any = DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def plain(path: str) -> str:
    return path.replace("...}", "}")


def test_every_row_is_described_and_nothing_else() -> None:
    wanted = Counter((m, plain(row.path)) for row in ROUTES for m in row.methods if m not in TWINS)
    assert Counter((method, path) for method, path, _ in OPERATIONS) == wanted
    rows = {(m, row.path) for row in ROUTES for m in row.methods if m not in TWINS}
    assert set(DESCRIBED) == rows


def test_every_twin_has_the_method_that_is_described_for_it() -> None:
    for row in ROUTES:
        assert "HEAD" not in row.methods or "GET" in row.methods
        assert "PUT" not in row.methods or "POST" in row.methods


def row_of(method: str, path: str) -> Route:
    return next(row for row in ROUTES if plain(row.path) == path and method in row.methods)


EACH_OPERATION = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS]
)


@EACH_OPERATION
def test_an_operation_says_what_its_row_says(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    row = row_of(method, path)
    assert operation["tags"] == sorted(group.value for group in row.groups)
    assert operation["summary"]
    named = [p for p in operation.get("parameters", ()) if "$ref" not in p]
    in_path = {p["name"] for p in named if p["in"] == "path"}
    assert in_path == set(re.findall(r"\{(\w+)\}", path))
    in_headers = [p["name"] for p in named if p["in"] != "path"]
    assert in_headers == (["X-Grid-Leave"] if path.endswith("/memberShutdown") else [])
    statuses = set(map(int, operation["responses"]))
    assert {400, 403, 413, 414, 431, 500, 503} <= statuses
    assert (401 in statuses) is not row.probe
    assert operation["security"] == ([{}] if row.probe else [{}, {"basic": []}])
    if row.parameters is None:
        return
    body = operation["requestBody"]["content"]["text/plain"]
    named = re.findall(r"\{(\w+)\}", operation["requestBody"]["description"])
    assert len(named) == row.parameters == body["example"].count("&") + 1
    pattern = body["schema"]["pattern"]
    assert re.search(pattern, body["example"])
    assert re.search(pattern, body["example"] + "&more&%26")
    assert not re.search(pattern, body["example"].rpartition("&")[0])
    assert not re.search(pattern, body["example"] + "%2")
    assert {"$ref": "#/components/parameters/IdempotencyKey"} in operation["parameters"]


def test_every_name_stands_once_and_every_reference_leads_somewhere() -> None:
    identifiers = [operation["operationId"] for *_, operation in OPERATIONS]
    assert len(identifiers) == len(set(identifiers))
    assert all(re.fullmatch(r"\w+", identifier) for identifier in identifiers)
    references = re.findall(r"'\$ref': '([^']*)'", str(DOCUMENT))
    assert references
    assert all(resolved({"$ref": reference}) for reference in references)
    used = {reference.split("/")[-1] for reference in references}
    components = DOCUMENT["components"]
    unused = {name for kind in components for name in components[kind]} - used
    assert unused == {"basic"}
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert {tag for *_, operation in OPERATIONS for tag in operation["tags"]} == tags


def test_every_schema_is_one() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["description"].endswith(".")


def test_only_what_json_has_makes_a_schema() -> None:
    with pytest.raises(TypeError, match="JSON has no"):
        Schemas().schema(bytes)
    with pytest.raises(TypeError, match="JSON has no"):
        Schemas().schema(dict[str, bytes])


def check(operation: dict[str, Any], reply: Reply) -> None:
    """Compare an answer with what the description says of its status."""
    assert str(reply.status) in operation["responses"], reply
    answer = resolved(operation["responses"][str(reply.status)])
    known = {"Date", "Content-Length", "Content-Type", "Connection", *answer.get("headers", ())}
    assert {name for name, _ in reply.headers} <= known
    content = answer.get("content")
    if content is None:
        assert reply.body == b""
        assert reply.header("Content-Type") is None
        return
    ((media_type, said),) = content.items()
    if media_type == "*/*":
        return
    assert reply.header("Content-Type") == media_type
    schema = {**said["schema"], "components": DOCUMENT["components"]}
    found = reply.json if media_type == "application/json" else reply.body.decode()
    jsonschema.Draft202012Validator(schema).validate(found)


def filled(path: str, operation: dict[str, Any]) -> str:
    for parameter in map(resolved, operation.get("parameters", ())):
        if parameter["in"] == "path":
            name = "{" + parameter["name"] + "}"
            path = path.replace(name, quote(str(parameter["example"]), safe=""))
    return path


def example(operation: dict[str, Any]) -> bytes | None:
    body = operation.get("requestBody")
    if body is None:
        return None
    content = body["content"].get("text/plain")
    return b"a value" if content is None else str(content["example"]).encode()


NO_NAME = ("/grid/rest/maps", "/grid/rest/queues")
REFUSED = {
    **{f"{method} {path}": 400 for method in ("GET", "POST", "DELETE") for path in NO_NAME},
    "POST /grid/rest/config/reload": 409,
    "GET /grid/health/{check}": 400,
    "GET /grid/rest/license": 404,
    "DELETE /grid/rest/queues/{name}/{seconds}": 204,
    "GET /grid/rest/maps/{name}/{key}": 204,
}
"""What the examples are answered with where that is not 200."""


@EACH_OPERATION
async def test_the_example_is_answered_as_described(
    start_member: Callable[..., RunningMember],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    text = configuration(extra=EXTRA).replace("  network:", JOIN, 1)
    member = await start_member(text).start()
    where, body = filled(path, operation), example(operation)

    reply = await once(member.port, method, where, body)

    check(operation, reply)
    if not {"WAN", "PERSISTENCE"}.isdisjoint(operation["tags"]):
        assert reply.status in (200, 409)
    elif path.startswith("/grid/rest/cp-subsystem") and method == "POST":
        assert reply.status in (200, 400, 409)
    else:
        assert reply.status == REFUSED.get(f"{method} {path}", 200)


@EACH_OPERATION
async def test_refusals_are_answered_as_described(
    start_member: Callable[..., RunningMember],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    limits = "  limits: {value-bytes: 100, header-bytes: 2000}"
    member = await start_member(configuration(extra=f"{EXTRA}\n{limits}")).start()
    closed = await start_member(configuration([])).start()
    where, body = filled(path, operation), example(operation)

    replies = {
        400: await once(member.port, method, where, body, Transfer_Encoding="odd"),
        401: await once(member.management_port, method, where, body),
        403: await once(closed.port, method, where, body),
        413: await once(member.port, method, where, b"x" * 101),
        431: await once(member.port, method, where, body, X="x" * 1990),
    }

    if path in NO_NAME:
        assert replies.pop(413).status == 400
    if row_of(method, path).probe:
        assert replies.pop(401).status == 200
    for status, reply in replies.items():
        check(operation, reply)
        assert reply.status == status
    if row_of(method, path).parameters is not None:
        wrong = await once(
            member.port, method, where, b"other" + (body or b"").removeprefix(b"dev")
        )
        few = await once(member.port, method, where, b"dev")
        check(operation, wrong)
        check(operation, few)
        assert (wrong.status, few.status) == (403, 400)


@EACH_OPERATION
async def test_before_the_start_the_answer_is_as_described(
    start_member: Callable[..., RunningMember],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    text = configuration(extra=EXTRA).replace("  network:", JOIN, 1)
    member = await start_member(text).open()

    reply = await once(member.port, method, filled(path, operation), example(operation))

    check(operation, reply)
    assert reply.status != 500
    if operation["tags"] == ["DATA"] and path not in NO_NAME:
        assert (reply.status, reply.body) == (503, b"")
        assert reply.header("Retry-After") == "1"


async def test_values_are_answered_as_described(member: RunningMember) -> None:
    entry, size, poll = (
        "/grid/rest/maps/{name}/{key}",
        "/grid/rest/queues/{name}/size",
        "/grid/rest/queues/{name}/{seconds}",
    )
    operations = {(m, p): operation for m, p, operation in OPERATIONS}
    offer = "/grid/rest/queues/two"
    for path in ("/grid/rest/maps/m/k", offer, offer, offer):
        full = await once(member.port, "POST", path, b"v", Content_Type="x/y")
    check(operations["POST", "/grid/rest/queues/{name}"], full)
    assert full.status == 503
    read = await once(member.port, "GET", "/grid/rest/maps/m/k")
    counted = await once(member.port, "GET", f"{offer}/size")
    item = await once(member.port, "DELETE", f"{offer}/0")
    check(operations["GET", entry], read)
    check(operations["GET", size], counted)
    check(operations["DELETE", poll], item)
    assert [r.status for r in (read, counted, item)] == [200, 200, 200]


async def test_a_license_that_was_set_is_shown_as_described(member: RunningMember) -> None:
    await once(member.port, "POST", "/grid/rest/license", b"dev&&KEY")
    reply = await once(member.port, "GET", "/grid/rest/license")
    check(DOCUMENT["paths"]["/grid/rest/license"]["get"], reply)
    assert reply.status == 200


async def test_the_member_serves_the_description(member: RunningMember) -> None:
    where = "/grid/rest/openapi.json"
    reply = await once(member.port, "GET", where)
    head = await once(member.port, "HEAD", where)
    assert reply.json == DOCUMENT
    assert head.header("Content-Length") == reply.header("Content-Length")
    assert reply.header("Content-Type") == "application/json"


async def test_it_is_the_same_whatever_is_enabled(
    start_member: Callable[..., RunningMember],
) -> None:
    few = await start_member(configuration(["CLUSTER_READ"])).start()
    assert (await once(few.port, "GET", "/grid/rest/openapi.json")).json == DOCUMENT
