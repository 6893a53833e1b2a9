"""One walk over the neutral nodes that checks them against the table of settings."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.config.settings.refusal import ENABLED
from grid_member.config.settings.setting import Setting, SettingKind, Value
from grid_member.config.settings.wan import BATCH_PUBLISHER
from grid_member.config.tree import Items, Node, Scalar, Section
from grid_member.config.values import Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.config.settings.shape import Path, Shape

MAX_TEXT_CHARACTERS: Final = 4096
_REALMS: Final[Path] = ("security", "realms")
_LEFT_OUT_LEVELS: Final = {
    BATCH_PUBLISHER: (
        "lacks the level of the publisher's id: write batch-publisher: "
        "{ID: {cluster-name: NAME, target-endpoints: HOST:PORT}}"
    )
}
"""What to write where the settings of a name stand in place of the name."""
_SWITCHES: Final = {"cp-subsystem": ("cp-member-count", 0)}
"""What turns a section off that has no `enabled`: a child, and its value."""
UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot carry (XML 1.0 section 2.2); no other syntax may have them either."""
VARIABLE: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")
_VARIABLE_START: Final = "${"
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def collect(root: Node, environment: Mapping[str, str] | None) -> Values:
    """Return what the document says, with everything that is wrong with it.

    Without an environment variables stay what they are: a value with one is taken for right.
    """
    found = Values()
    _Validation(found, environment).visit(root, found.shape, ())
    return found


def _lacks_level(node: Section, shape: Shape) -> bool:
    settings = shape.any_name.below if shape.any_name else {}
    return any(
        name in settings and isinstance(child, Scalar) and child.text is not None
        for name, child in node.children.items()
    )


@dataclass(slots=True)
class _Validation:
    values: Values
    environment: Mapping[str, str] | None

    is_off: bool = False
    """Whether what is looked at stands in a section that is off."""

    def visit(self, node: Node, shape: Shape, path: Path) -> None:
        self.values.places.setdefault(path, node.place)
        if shape.refusal is not None:
            if not (self.is_off or shape.refusal.is_off(node, lambda t: self._resolve(t, path))):
                self.values.complain(path, shape.refusal.why)
        elif shape.setting is not None:
            self._leaf(node, shape.setting, path)
        elif shape.items is not None:
            self._items(node, shape.items, path)
        else:
            self._section(node, shape, path)

    def _items(self, node: Node, shape: Shape, path: Path) -> None:
        if not isinstance(node, Items):
            self.values.complain(path, "must be a list")
            return
        # A realm may be that of the management listener, also with security off.
        was_off, self.is_off = self.is_off, self.is_off and path != _REALMS
        for index, item in enumerate(node.items):
            self.visit(item, shape, (*path, index))
        self.is_off = was_off

    def _section(self, node: Node, shape: Shape, path: Path) -> None:
        if isinstance(node, Scalar) and node.text is None:
            return
        if not isinstance(node, Section):
            self.values.complain(path, "must hold further elements, not a value")
            return
        if shape.path in _LEFT_OUT_LEVELS and _lacks_level(node, shape):
            self.values.complain(path, _LEFT_OUT_LEVELS[shape.path])
            return
        was_off = self.is_off
        self.is_off = was_off or self._is_turned_off(node, shape, path)
        self._children(node, shape, path)
        self.is_off = was_off

    def _is_turned_off(self, node: Section, shape: Shape, path: Path) -> bool:
        """Tell whether a section is off, by what it says or by default."""
        name, off = _SWITCHES.get(shape.path, (ENABLED, False))
        switch = shape.below.get(name)
        if switch is None or switch.setting is None or switch.setting.default != off:
            return False
        child = node.children.get(name)
        if not isinstance(child, Scalar):
            return True
        text = self._resolve(child.text or "", (*path, name), complains=False)
        return text is not None and _convert(text, switch.setting) == off

    def _children(self, node: Section, shape: Shape, path: Path) -> None:
        for name, child in node.children.items():
            below = (*path, name)
            self.values.places[below] = node.names[name]
            known = shape.child(name)
            if known is None:
                self._complain_unknown(name, shape, below)
            elif shape.any_name is not None and (wrong := _wrong_name(name)):
                self.values.complain(below, f"the name {wrong}")
            else:
                self.visit(child, known, below)

    def _complain_unknown(self, name: str, shape: Shape, path: Path) -> None:
        known = [other for other, below in shape.below.items() if below.refusal is None]
        near = difflib.get_close_matches(name, known, 1)
        hint = f", perhaps {near[0]} is meant" if near else f"; known are {', '.join(known)}"
        self.values.complain(path, f"unknown element{hint}")

    def _leaf(self, node: Node, setting: Setting, path: Path) -> None:
        if not isinstance(node, Scalar):
            self.values.complain(path, f"must be one value ({setting.kind.value})")
            return
        text = "" if node.text is None else node.text
        if UNWRITABLE.search(text):
            self.values.complain(path, _UNWRITABLE_MESSAGE)
            return
        resolved = self._resolve(text, path)
        if resolved is None:
            return
        value = _convert(resolved, setting)
        if isinstance(value, _InvalidValue):
            self.values.complain(path, value.message)
        else:
            self.values.values[path] = value

    def _resolve(self, text: str, path: Path, *, complains: bool = True) -> str | None:
        """Return the text with its variables replaced; None: one is missing, or not known yet."""
        if _VARIABLE_START in VARIABLE.sub(_INSIDE, text):
            if complains:
                self.values.complain(path, _LEFT_OVER_MESSAGE)
            return None
        environment = self.environment
        if environment is None:
            return None if VARIABLE.search(text) else text
        missing: list[str] = []

        def substitute(match: re.Match[str]) -> str:
            default: str | None = match[2]
            value = environment.get(match[1], default) if match[1] else None
            if value is None:
                missing.append(match[1])
            return value or ""

        resolved = VARIABLE.sub(substitute, text)
        for name in missing if complains else ():
            unnamed = "${} must name an environment variable"
            message = f"the environment variable {name} is not set" if name else unnamed
            self.values.complain(path, message)
        return None if missing else resolved


_UNWRITABLE_MESSAGE: Final = "must not hold control characters"
_INSIDE: Final = r" \1 \2 "
"""A variable's name and default, apart from each other and from what is around them."""
_LEFT_OVER_MESSAGE: Final = (
    "holds ${ that is no whole ${NAME} or ${NAME:default}, or is inside of one: "
    "put a text with ${ into a variable"
)


@dataclass(frozen=True, slots=True)
class _InvalidValue:
    message: str


def _convert(text: str, setting: Setting) -> Value | _InvalidValue:
    # Messages never repeat the text: it may be a password that landed in the wrong place.
    if setting.kind is SettingKind.BOOLEAN:
        flag = {"true": True, "false": False}.get(text.strip().lower())
        refused = _refused(text.strip().lower(), setting)
        return refused or (_InvalidValue("must be true or false") if flag is None else flag)
    if setting.kind is SettingKind.INTEGER:
        digits = text.strip()  # of more than int() takes for white space
        if not INTEGER.fullmatch(digits):
            return _InvalidValue("must be an integer")
        number = int(digits)
        if setting.low <= number <= setting.high:
            return number
        return _InvalidValue(f"must be from {setting.low} to {setting.high}")
    if setting.choices:
        return _choose(text, setting)
    wrong = _wrong_text(text)
    if not wrong and setting.forbidden_text and setting.forbidden_text in text:
        wrong = f"must not contain {setting.forbidden_text}"
    return _InvalidValue(wrong) if wrong else text


def _choose(text: str, setting: Setting) -> str | _InvalidValue:
    word = text.strip().lower()
    if setting.drops_package:
        word = word.rpartition(".")[2]
    chosen = next((c for c in setting.choices if c.lower() == word), None)
    return (
        _refused(word, setting)
        or chosen
        or _InvalidValue(f"must be one of {', '.join(setting.choices)}")
    )


def _refused(word: str, setting: Setting) -> _InvalidValue | None:
    for refused in setting.refused_values:
        if refused.value.lower() == word:
            return _InvalidValue(f"{refused.value} is not supported: {refused.instead}")
    return None


def _wrong_text(text: str) -> str | None:
    if not text:
        return "must not be empty"
    if len(text) > MAX_TEXT_CHARACTERS:
        return f"must have at most {MAX_TEXT_CHARACTERS} characters"
    return None


def _wrong_name(name: str) -> str | None:
    return _UNWRITABLE_MESSAGE if UNWRITABLE.search(name) else _wrong_text(name)
