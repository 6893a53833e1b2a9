"""XML text to elements with their places; what could do harm is refused before it is read.

The parser is the standard library's expat. A document type declaration is the only way to declare
entities, so refusing it refuses entity expansion and external entities as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from grid_member.config.tree import (
    MAX_DEPTH_LEVELS,
    OTHER_TOP,
    TOP,
    ConfigError,
    Problem,
    SourcePosition,
)
from grid_member.config.xml.forms import NAMESPACE, SCHEMA_INSTANCE, TOP_ELEMENT

_SEPARATOR: Final = " "
_TAG_NAME: Final = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE: Final = re.compile(rb"""\s+([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")


@dataclass(slots=True)
class Element:
    """One element; names are without their namespace, which is always the configuration's."""

    name: str
    place: SourcePosition
    attributes: dict[str, tuple[str, SourcePosition]]
    children: list[Element] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


def read_elements(text: str, file: str, problems: list[Problem]) -> Element:
    """Return the top element; notes in problems what is wrong and can be passed over.

    Raises:
        ConfigError: not XML, a document type declaration, too deep, or another top element.
    """
    return _XmlReader(text, file, problems).read()


class _XmlReader:
    def __init__(self, text: str, file: str, problems: list[Problem]) -> None:
        # The declared encoding does not count: the text was decoded before.
        self._parser = expat.ParserCreate("UTF-8", _SEPARATOR)
        self._data = text.encode(errors="surrogatepass")
        self._file = file
        self._problems = problems
        self._open: list[Element] = []
        self._top: Element | None = None
        self._foreign_levels = 0

    def read(self) -> Element:
        parser = self._parser
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            place = SourcePosition(self._file, error.lineno, error.offset + 1)
            reason = expat.ErrorString(error.code)
            raise ConfigError([*self._problems, Problem(place, "", f"not XML: {reason}")]) from None
        if self._top is None:
            raise ConfigError(
                [Problem(SourcePosition(self._file, 1, 1), "", f"must be {TOP_ELEMENT}")]
            )
        return self._top

    def _place(self) -> SourcePosition:
        return SourcePosition(
            self._file, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        )

    def _place_after(self, start: SourcePosition, text: bytes) -> SourcePosition:
        """Return where text ends that begins at start."""
        characters = text.decode(errors="surrogatepass")
        lines = characters.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        column = len(lines[-1]) + (start.column if len(lines) == 1 else 1)
        return SourcePosition(self._file, start.line + len(lines) - 1, column)

    def _stop(self, message: str, place: SourcePosition | None = None) -> ConfigError:
        return ConfigError([*self._problems, Problem(place or self._place(), "", message)])

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        del version, standalone
        if encoding is not None and encoding.upper() != "UTF-8":
            self._problems.append(Problem(self._place(), "", "the encoding must be UTF-8"))

    def _doctype(self, *_: object) -> None:
        # Told of it only at its end, or at its first declaration.
        begin = self._data.rfind(b"<!DOCTYPE", 0, self._parser.CurrentByteIndex)
        place = self._place_after(SourcePosition(self._file, 1, 1), self._data[: max(begin, 0)])
        raise self._stop("a document type declaration (DOCTYPE) is not allowed", place)

    def _instruction(self, *_: object) -> None:
        message = "processing instructions are not allowed"
        self._problems.append(Problem(self._place(), self._path(), message))

    def _path(self) -> str:
        return ".".join(element.name for element in self._open[1:])

    def _start(self, qualified: str, attributes: list[str]) -> None:
        namespace, _, name = qualified.rpartition(_SEPARATOR)
        if not self._open:
            self._check_top(namespace, name)
        elif len(self._open) + self._foreign_levels >= MAX_DEPTH_LEVELS:
            raise self._stop("nested too deep")
        if self._foreign_levels or namespace != NAMESPACE:
            self._foreign(name)
            return
        element = Element(name, self._place(), self._attributes(attributes))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._top = element
        self._open.append(element)

    def _check_top(self, namespace: str, name: str) -> None:
        if name == OTHER_TOP:
            message = f"<{name}> is another product's: write {TOP_ELEMENT} in its place"
            raise self._stop(message)
        if name != TOP:
            raise self._stop(f"the top element must be {TOP_ELEMENT}")
        if namespace != NAMESPACE:
            raise self._stop(f"the namespace must be {NAMESPACE}: write {TOP_ELEMENT}")

    def _foreign(self, name: str) -> None:
        if not self._foreign_levels:
            path = f"{self._path()}.{name}" if self._path() else name
            message = f"is in another namespace than {NAMESPACE}"
            self._problems.append(Problem(self._place(), path, message))
        self._foreign_levels += 1

    def _end(self, qualified: str) -> None:
        del qualified
        if self._foreign_levels:
            self._foreign_levels -= 1
        else:
            self._open.pop()

    def _characters(self, text: str) -> None:
        if not self._foreign_levels:
            self._open[-1].text.append(text)

    def _attributes(self, flat: list[str]) -> dict[str, tuple[str, SourcePosition]]:
        if not flat:
            return {}
        places = self._attribute_places()
        found = {}
        for qualified, value in zip(flat[::2], flat[1::2], strict=True):
            namespace, _, name = qualified.rpartition(_SEPARATOR)
            place = places.get(name, self._place())
            if not namespace:
                found[name] = (value, place)
            elif namespace != SCHEMA_INSTANCE or self._open:
                path = f"{self._path()}.{name}" if self._path() else name
                message = "is an attribute of another namespace"
                self._problems.append(Problem(self._place(), path, message))
        return found

    def _attribute_places(self) -> dict[str, SourcePosition]:
        """Return where the attributes of the tag that was just read stand; expat does not say."""
        begin = done = self._parser.CurrentByteIndex
        tag = _TAG_NAME.match(self._data, begin)
        places: dict[str, SourcePosition] = {}
        place = self._place()
        end = tag.end() if tag else begin
        while attribute := _ATTRIBUTE.match(self._data, end):
            place = self._place_after(place, self._data[done : attribute.start(1)])
            places[attribute[1].decode()] = place
            done, end = attribute.start(1), attribute.end()
        return places
