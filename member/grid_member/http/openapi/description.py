"""The OpenAPI 3.1 description of the interface, made from the routing table.

It is the same on every listener: which groups are enabled is shown by no answer but 403.
"""

from __future__ import annotations

import functools
import json
import re
import types
import typing
from typing import Final, Literal, TypeAlias

from grid_member.cluster.values.idempotency import MAX_KEY_CHARACTERS
from grid_member.http.openapi.answer_types import Failure
from grid_member.http.openapi.rows import (
    DESCRIBED,
    NUMBER,
    VALUE,
    AnswerDescription,
    OperationDescription,
)
from grid_member.http.table import MAX_POLL_S, ROUTES, Route
from grid_member.http.wire.answers import JSON

Json: TypeAlias = dict[str, typing.Any]

OPENAPI_VERSION: Final = "3.1.0"
METHODS: Final = ("GET", "POST", "DELETE")
"""The methods described: PUT does what POST does, HEAD what GET does."""
ABOUT: Final = (
    "Maps and queues over HTTP, and the management of the members that hold them. An endpoint "
    "answers when one of its groups, shown as tags, is enabled on the port asked; else 403. PUT "
    "does what POST does, HEAD what GET does but for /grid/health/ready, one trailing slash and "
    "the query string are ignored, but a clear of a map with either is 400. An error without a "
    "body says why in X-Grid-Error. Names and keys are percent-encoded, + is a space; a key may "
    "hold slashes as they are."
)
_GROUPS: Final = {
    "DATA": "Maps and queues.",
    "HEALTH_CHECK": "Health of the member and of the cluster.",
    "CLUSTER_READ": "What the cluster is and does.",
    "CLUSTER_WRITE": "Changes of the cluster.",
    "PERSISTENCE": "Backups of the store, and starts from a damaged one.",
    "WAN": "Replication to other clusters.",
    "CP": "The CP subsystem.",
}
_PARAMETERS: Final[dict[str, Json]] = {
    "name": {"schema": {"type": "string", "minLength": 1}, "example": "default"},
    "key": {"schema": {"type": "string", "minLength": 1}, "example": "greeting"},
    "seconds": {
        "schema": {"type": "integer", "minimum": 0, "maximum": MAX_POLL_S},
        "example": 0,
    },
    "check": {"schema": {"type": "string", "minLength": 1}, "example": "other"},
    "uuid": {
        "schema": {"type": "string", "format": "uuid"},
        "example": "00000000-0000-0000-0000-000000000001",
    },
    "id": {"schema": {"type": "integer", "minimum": 0}, "example": 1},
}
_HEADERS: Final[dict[str, Json]] = {
    "X-Grid-Error": {
        "description": "Why, in printable ASCII.",
        "schema": {"type": "string", "maxLength": 256},
    },
    "Retry-After": {
        "description": "Seconds after which the same request may be answered otherwise.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {"description": "The realm.", "schema": {"type": "string"}},
    "X-Grid-Operation": {
        "description": "The id of what was begun, as management/cluster/operations shows it.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "Deprecation": {"description": "Another call is to be used.", "schema": {"const": "true"}},
}
_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "The first outcome with status 200 under a key is answered again, without a second effect."
    ),
    "schema": {"type": "string", "pattern": f"^[!-~]{{1,{MAX_KEY_CHARACTERS}}}$"},
}
_ASKED: Final[dict[str, Json]] = {
    "X-Grid-Leave": {
        "description": "With it the member moves its copies to others first and never comes back.",
        "schema": {"const": "forever"},
    },
}
_REASON: Final = ("X-Grid-Error",)
_LATER: Final = ("X-Grid-Error", "Retry-After")
_COMMON: Final[dict[int, AnswerDescription]] = {
    400: AnswerDescription("The request or a parameter in it is malformed.", headers=_REASON),
    403: AnswerDescription(
        "The endpoint's group is disabled, or the credentials in the body are wrong.",
        Failure,
        ("Retry-After",),
    ),
    408: AnswerDescription("The rest of the request did not come in time.", headers=_REASON),
    413: AnswerDescription("The body is too large.", headers=_REASON),
    414: AnswerDescription("The name, the key or the request line is too long.", headers=_REASON),
    417: AnswerDescription(
        "An Expect header with something else than 100-continue.", headers=_REASON
    ),
    431: AnswerDescription("The header block is too large.", headers=_REASON),
    500: AnswerDescription("An unexpected error.", headers=_REASON),
    503: AnswerDescription(
        "It cannot be done now; of several members: no majority answers, this one has not joined, "
        "or one does not show yet what was changed.",
        headers=_LATER,
    ),
}
_CHALLENGE: Final = AnswerDescription(
    "HTTP Basic authentication is missing or wrong; only where it is asked for.",
    headers=("WWW-Authenticate", "Retry-After"),
)
_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
SCHEMAS: Final = "#/components/schemas/"
_BRACES: Final = re.compile(r"\{(\w+)(?:\.\.\.)?\}")
_CREDENTIALS: Final = (("name", "dev"), ("password", ""))


def description(version: str) -> Json:
    """Return the description of the interface of a member of this version."""
    schemas = Schemas()
    operations = _Operations(schemas)
    paths: dict[str, Json] = {}
    for row in ROUTES:
        for method in METHODS:
            if method in row.methods:
                path = _BRACES.sub(r"{\1}", row.path)
                paths.setdefault(path, {})[method.lower()] = operations.operation(row, method)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Grid member",
            "version": version,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": about} for name, about in _GROUPS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas.by_name,
            "responses": {f"Common{s}": operations.answer(shown) for s, shown in _ALL.items()},
            "headers": _HEADERS,
            "parameters": {"IdempotencyKey": _KEY},
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


@functools.lru_cache(maxsize=1)
def encode(version: str) -> bytes:
    """Return the description as JSON."""
    return json.dumps(description(version), separators=(",", ":")).encode()


class Schemas:
    """Collects the schemas that a description refers to, each once and by its name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Json] = {}

    @property
    def by_name(self) -> Json:
        """The schemas by name, in the order of the alphabet."""
        return dict(sorted(self._by_name.items()))

    def schema(self, kind: object) -> Json:
        """Return the schema of a type: a JSON type, a Literal, a list, a union or a TypedDict.

        Raises:
            TypeError: JSON has no such type.
        """
        if typing.is_typeddict(kind):
            return self._document(kind)
        plain = _PLAIN.get(kind)  # type: ignore[call-overload]
        if plain is not None:
            return {"type": plain}
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self.schema(arguments[0])}
        if origin in (types.UnionType, typing.Union):
            return {"anyOf": [self.schema(each) for each in arguments]}
        if kind is object:
            return {}
        raise TypeError(f"JSON has no {kind}")

    def _document(self, kind: object) -> Json:
        # A TypedDict is a class for the program and not for its types.
        name = str(getattr(kind, "__name__", ""))
        if name not in self._by_name:
            self._by_name[name] = {}  # one that contains itself ends here
            hints = typing.get_type_hints(kind)
            self._by_name[name] = {
                "description": kind.__doc__ or "",
                "type": "object",
                "properties": {field: self.schema(hint) for field, hint in hints.items()},
                "required": list(hints),
                "additionalProperties": False,
            }
        return {"$ref": SCHEMAS + name}


class _Operations:
    """Describes the rows, one method at a time."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def operation(self, row: Route, method: str) -> Json:
        described = DESCRIBED[method, row.path]
        operation: Json = {
            "operationId": _identifier(row.path, method),
            "summary": described.summary,
            "tags": sorted(group.value for group in row.groups),
        }
        if described.deprecated:
            operation["deprecated"] = True
        parameters = [_parameter(name) for name in _BRACES.findall(row.path)]
        if row.parameters is not None:
            parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
        parameters += [{"name": name, "in": "header", **_ASKED[name]} for name in described.headers]
        if parameters:
            operation["parameters"] = parameters
        body = _body(row, described)
        if body is not None:
            operation["requestBody"] = body
        # The probes never ask; the others do where they are protected or on the management port.
        operation["security"] = [{}] if row.probe else [{}, {"basic": []}]
        operation["responses"] = self._answers(row, described)
        return operation

    def _answers(self, row: Route, described: OperationDescription) -> Json:
        answers = {
            status: {"$ref": f"#/components/responses/Common{status}"}
            for status in _ALL
            if not (row.probe and status == _UNAUTHORIZED)
        }
        headers = ("Deprecation",) if described.deprecated else ()
        answers |= {s: self.answer(shown, *headers) for s, shown in described.answers.items()}
        return {str(status): answers[status] for status in sorted(answers)}

    def answer(self, shown: AnswerDescription, *more_headers: str) -> Json:
        found: Json = {"description": shown.description}
        headers = (*shown.headers, *more_headers)
        if headers:
            found["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
        if shown.kind == VALUE:
            found["content"] = {"*/*": {}}
        elif shown.kind == NUMBER:
            found["content"] = {"text/plain": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
        elif shown.kind is not None:
            found["content"] = {JSON: {"schema": self._schemas.schema(shown.kind)}}
        return found


_UNAUTHORIZED: Final = 401
_ALL: Final = dict(sorted({**_COMMON, _UNAUTHORIZED: _CHALLENGE}.items()))


def _identifier(path: str, method: str) -> str:
    words = re.findall(r"\w+", path.removeprefix("/grid/").removeprefix("rest/"))
    return "_".join([method.lower(), *words])


def _parameter(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, **_PARAMETERS[name]}


def _body(row: Route, described: OperationDescription) -> Json | None:
    if described.takes_value:
        return {"description": "The value, any bytes.", "content": {"*/*": {}}}
    if row.parameters is None:
        return None
    parameters = (*_CREDENTIALS, *described.parameters)
    names = "&".join(f"{{{name}}}" for name, _ in parameters)
    return {
        "description": (
            f"{names}: each percent-encoded, whatever the Content-Type; the last may hold "
            "further &. The name is the cluster's, or a user's where security is on."
        ),
        "required": True,
        "content": {
            "text/plain": {
                "schema": {"type": "string", "pattern": _body_pattern(row.parameters)},
                "example": "&".join(example for _, example in parameters),
            }
        },
    }


def _body_pattern(parameters: int) -> str:
    return "^" + f"{_ONE}&" * (parameters - 1) + f"({_ESCAPED}|&)*$"


_ESCAPED: Final = "[^&%]|%[0-9A-Fa-f]{2}"
_ONE: Final = f"({_ESCAPED})*"
