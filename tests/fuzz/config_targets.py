"""Targets: everything that a configuration is read from. Only a ConfigError may be raised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from grid_member.config import ConfigError, config_from, parse_config
from grid_member.config.convert import Syntax, convert
from grid_member.config.load import DEFAULT_TREE
from grid_member.config.settings.shape import path_text
from grid_member.config.settings.table import SETTINGS
from grid_member.config.tree import TOP
from grid_member.config.xml.forms import COLLECTIONS, NAMESPACE
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from grid_member.config import MemberConfig

SECRET: Final = "hunter2-hunter2"  # looked for in messages
ENVIRONMENT: Final = {"WORD": "w", "PORT": "7001", "SECRET": SECRET, "ON": "true"}
MAX_BYTES: Final = 4096
ELEMENTS: Final = tuple(
    sorted({part for setting in SETTINGS for part in setting.path.split(".") if part.strip("[]*")})
)
_VALUES: Final = (
    *("true", "false", "0", "1", "-1", "65536", "${WORD}", "${SECRET}", "${PORT:1}", "${NO}"),
    *("${", "}", "$", "127.0.0.1", "::1", "*", "LRU", "DATA", "default", "a*", "é", "\x00", "\x85"),
    *("\u2028", "\ufeff", "\U0001f600", "\ud800"),
)
_WORDS: Final = tuple(text.encode("utf-8", "surrogatepass") for text in (*ELEMENTS, *_VALUES, TOP))


class YamlTarget:
    """A YAML text: loaded, and converted there and back."""

    name = "yaml"
    words = (
        *_WORDS,
        *(b": ", b":\n  ", b"\n- ", b"\n", b"\n  ", b"\t", b"{", b"}", b"[", b"]", b", ", b"'"),
        *(b'"', b"|", b">", b"&a ", b"*a", b"!x ", b"!!null ", b"? ", b"#", b"---\n", b"...\n"),
        *(b"%YAML 1.1\n", b"\\x00", b"\r", b"\r\n", b"<<: ", b"~", b"|2-", b'"\\ud800"'),
    )
    max_bytes = MAX_BYTES

    def run(self, data: bytes) -> Hashable:
        """Load a text; lone bytes become lone surrogates, as a program may give them."""
        return _loaded(data.decode("utf-8", "surrogateescape"), "f.yaml")


class XmlTarget:
    """An XML text: loaded, and converted there and back."""

    name = "xml"
    words = (
        *_WORDS,
        *(f"<{name}>".encode() for name in (*ELEMENTS, *(form.element for form in COLLECTIONS))),
        *(f"</{name}>".encode() for name in ELEMENTS),
        *(b"<", b"</", b"/>", b">", b"='", b"'", b'="', b'"', b"&amp;", b"&#10;", b"&#0;", b"&x;"),
        *(b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?x ?>", b"<!DOCTYPE a [", b"<!ENTITY a 'b'>"),
        *(b'<?xml version="1.0" encoding="UTF-8"?>', b"xmlns:a='b'", b" a:b='c'", b" name='a'"),
        *(f"<{TOP} xmlns='{NAMESPACE}'>".encode(), f"</{TOP}>".encode(), b" enabled='true'"),
    )
    max_bytes = MAX_BYTES

    def run(self, data: bytes) -> Hashable:
        """Load a text; lone bytes become lone surrogates, as a program may give them."""
        return _loaded(data.decode("utf-8", "surrogateescape"), "f.xml")


class OverridesTarget:
    """Environment variables, a line each, over a document that has named structures and lists."""

    name = "overrides"
    words = (
        *(f"_{name.replace('-', '').upper()}".encode() for name in ELEMENTS),
        *(value.encode("utf-8", "surrogatepass") for value in _VALUES if "\x00" not in value),
        *(
            b"GRID_",
            b"\nGRID_",
            b"MEMBER_",
            b"_0",
            b"_1",
            b"_9999",
            b"_MY_MAP",
            b"_A_B",
            b"_",
            b"__",
            b"=",
            b"\n",
        ),
        *(
            b"_SERVICE_HOST=",
            b"_PORT=tcp://",
            b"_PORT_80_TCP=",
            b"_NAME=",
            b"WORD=",
            b"GRID_MEMBER_CLUSTERNAME=",
        ),
    )
    max_bytes = 1024
    _tree: Final[Mapping[str, object]] = {
        **DEFAULT_TREE,
        "cluster-name": "${GRID_USED:dev}",
        "security": {
            "realms": [
                {
                    "name": "ops",
                    "authentication": {"simple": {"users": [{"username": "u", "password": "p"}]}},
                }
            ]
        },
        "map": {"default": {}, "my-map": {}, "My_Map2": {"eviction": None}, "a_b": {}, "a": {}},
        "queue": {"default": {}, "q": None},
        "logging": {"level": "info"},
    }

    def run(self, data: bytes) -> Hashable:
        """Load the document under these variables."""
        environment: dict[str, str] = {}
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            name, _, value = line.partition("=")
            environment[name] = value.replace("@SECRET@", SECRET)
        shown = any(SECRET in name for name in environment)
        return _tried(lambda: config_from(self._tree, environment), "" if shown else SECRET)


class PythonTarget:
    """A tree of Python values, written as JSON with a few words for what JSON cannot say."""

    name = "python"
    words = (
        *(f'"{name}": '.encode() for name in ELEMENTS),
        *(json.dumps(value).encode() for value in _VALUES),
        *(b"{", b"}", b"[", b"]", b", ", b'": ', b"null", b"1.5", b"NaN", b"9" * 30, b"true"),
        *(b'"!self"', b'"!tuple"', b'"!bytes"', b'"!object"', b'"!huge"', b'"!1": ', b'"@SECRET@"'),
    )
    max_bytes = MAX_BYTES

    def run(self, data: bytes) -> Hashable:
        """Load the tree; what is no JSON or no object is no tree."""
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError):
            return "no tree"
        if not isinstance(tree, dict):
            return "no tree"
        try:
            strange = _strange(tree, tree)
        except RecursionError:
            return "no tree"
        return _tried(lambda: config_from(strange, ENVIRONMENT), SECRET)


def _strange(value: Any, top: dict[str, Any]) -> Any:
    """Replace the words that stand for values that JSON has not."""
    if isinstance(value, list):
        return [_strange(item, top) for item in value]
    if isinstance(value, dict):
        return {_name(name): _strange(item, top) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    words = {
        "!self": top,
        "!tuple": ("a", ("b", top)),
        "!bytes": b"a",
        "!object": object(),
        "!huge": 10**5000,
    }
    return words.get(value, value)


def _name(name: str) -> object:
    return {"!1": 1, "!none": None, "!bytes": b"a"}.get(name, name)


def _loaded(text: str, file: str) -> Hashable:
    outcome = _tried(lambda: parse_config(text, file, ENVIRONMENT), SECRET, text)
    if outcome[0] is not True:
        return outcome
    expected = parse_config(text, file, ENVIRONMENT)
    to: Syntax
    for to in ("yaml", "xml"):
        try:
            converted = convert(text, file, to)
        except ConfigError as error:
            if to == "yaml" or "which XML cannot keep" not in str(error):
                raise FindingError(f"a right configuration does not convert: {error}") from error
            continue
        if parse_config(converted, f"g.{to}", ENVIRONMENT) != expected:
            raise FindingError(f"{to} says something else than the text it was made of")
    return outcome


def _tried(
    load: Callable[[], MemberConfig], secret: str, text: str | None = None
) -> tuple[Hashable, ...]:
    try:
        config = load()
    except ConfigError as error:
        _check(error, secret, text)
        shown = [problem.message[:32] for problem in error.problems[:3]]
        return False, min(len(error.problems), 4), *shown
    return True, len(config.maps), len(config.queues), config.management is None


def _check(error: ConfigError, secret: str, text: str | None) -> None:
    """See that the problems can be shown, at places that exist, and give nothing away."""
    if not error.problems:
        raise FindingError("a ConfigError without a problem")
    if secret and secret in str(error):
        raise FindingError("a message shows the value of a variable")
    lines = 0 if text is None else len(text.splitlines()) + 1
    for problem in error.problems:
        if not problem.message:
            raise FindingError(f"no message: {problem}")
        place = problem.place
        if text is not None and place is not None and not 0 < place.line <= lines:
            raise FindingError(f"no such line: {problem}")
        if place is not None and place.line and place.column < 1:
            raise FindingError(f"no such column: {path_text(())} {problem}")
