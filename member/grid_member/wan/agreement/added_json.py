"""The JSON of `addWanConfig`, as tools of the peer product write it (P 6.4).

Those tools write every key that there is. What this product does not have passes at the value that
means nothing; any other value of it, and a key that is unknown, is refused by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from grid_member.config.build_wan import MAX_PUBLISHERS, target_endpoints, wan_name_problem
from grid_member.config.model.wan import WanPublisherConfig
from grid_member.config.settings.shape import settings_shape
from grid_member.config.settings.wan import BATCH_PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
MAX_JSON_BYTES: Final = 1 << 20
MAX_TEXT_CHARACTERS: Final = 4096
_STATES: Final = ("REPLICATING", "PAUSED", "STOPPED")
_BEHAVIORS: Final = (
    "DISCARD_AFTER_MUTATION",
    "THROW_EXCEPTION",
    "THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE",
)
_STRATEGIES: Final = ("NONE", "MERKLE_TREES")
_COMPRESSIONS: Final = ("AUTO", "NONE")
_CLOUDS: Final = ("aws", "gcp", "azure", "kubernetes", "eureka")
_SHOWN_CHARACTERS: Final = 40


class AddedJsonError(Exception):
    """What is wrong with the JSON; the message names the key and never repeats a value."""


@dataclass(frozen=True, slots=True)
class AddedReplication:
    """What is to be added: publishers without identity and TLS, which members have themselves."""

    name: str
    publishers: tuple[WanPublisherConfig, ...]


def read_added(text: str) -> AddedReplication:
    """Return what the JSON describes.

    Raises:
        AddedJsonError: it is no JSON object, or a key of it cannot be taken.
    """
    top = _Keys("", _parsed(text))
    name = top.required_name("name")
    publishers = top.take("batchPublishers", _publishers)
    if publishers is None:
        raise AddedJsonError("batchPublishers is missing")
    top.neutral("customPublishers", _is_empty, "write batchPublishers")
    top.below("consumer", _check_consumer)
    top.end()
    return AddedReplication(name, publishers)


def _parsed(text: str) -> dict[str, object]:
    if len(text.encode(errors="surrogatepass")) > MAX_JSON_BYTES:
        raise AddedJsonError(f"the JSON is longer than {MAX_JSON_BYTES >> 20} MiB")
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise AddedJsonError("the third parameter must be a JSON object") from None
    return _as_object("the third parameter", content)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AddedJsonError("a key is there twice")
    return found


def _publishers(path: str, content: object) -> tuple[WanPublisherConfig, ...]:
    if not isinstance(content, list):
        raise AddedJsonError(f"{path} must be a list")
    if not 0 < len(content) <= MAX_PUBLISHERS:
        raise AddedJsonError(f"{path} must have from 1 to {MAX_PUBLISHERS} publishers")
    found = tuple(
        _publisher(_Keys(f"{path}[{n}].", _as_object(f"{path}[{n}]", each)))
        for n, each in enumerate(content)
    )
    if len({each.publisher_id for each in found}) < len(found):
        raise AddedJsonError(f"{path} has two publishers of one publisherId")
    return found


def _publisher(keys: _Keys) -> WanPublisherConfig:
    cluster_name = keys.required_name("clusterName", _text)
    publisher_id = keys.take("publisherId", _any_text) or cluster_name
    keys.check("publisherId", wan_name_problem(publisher_id))
    endpoints = keys.take("targetEndpoints", _text)
    if endpoints is None:
        raise AddedJsonError(f"{keys.path}targetEndpoints is missing")
    addresses = target_endpoints(endpoints)
    if isinstance(addresses, str):
        raise AddedJsonError(f"{keys.path}targetEndpoints {addresses}")
    _check_unused(keys)
    realm, compression = _properties(keys)
    found = WanPublisherConfig(
        publisher_id=publisher_id,
        cluster_name=cluster_name,
        target_endpoints=addresses,
        realm=realm,
        batch_size=keys.number("batchSize", "batch-size"),
        batch_max_delay_ms=keys.number("batchMaxDelayMillis", "batch-max-delay-millis"),
        response_timeout_ms=keys.number("responseTimeoutMillis", "response-timeout-millis"),
        queue_capacity=keys.number("queueCapacity", "queue-capacity"),
        queue_full_behavior=keys.numbered("queueFullBehavior", _BEHAVIORS, 0),
        max_concurrent_invocations=_invocations(keys),
        discovery_period_s=keys.number("discoveryPeriodSeconds", "discovery-period-seconds"),
        max_target_endpoints=keys.number("maxTargetEndpoints", "max-target-endpoints"),
        initial_publisher_state=keys.numbered("initialPublisherState", _STATES, 0),
        consistency_check_strategy=_strategy(keys),
        compression=compression,
    )
    keys.end()
    return found


def _invocations(keys: _Keys) -> int:
    count = keys.number("maxConcurrentInvocations", "max-concurrent-invocations")
    if count == 0:
        raise AddedJsonError(f"{keys.path}maxConcurrentInvocations must not be 0")
    return count


def _strategy(keys: _Keys) -> str:
    below = keys.section("sync")
    if below is None:
        return _STRATEGIES[1]
    found = below.numbered("consistencyCheckStrategy", _STRATEGIES, 1)
    below.end()
    return found


def _properties(keys: _Keys) -> tuple[str | None, str]:
    """Return realm and compression."""
    below = keys.section("properties")
    if below is None:
        return None, _COMPRESSIONS[0]
    realm = below.take("realm", _text)
    compression = below.take("compression", _text) or _COMPRESSIONS[0]
    if compression.upper() not in _COMPRESSIONS:
        raise AddedJsonError(f"{below.path}compression must be one of {', '.join(_COMPRESSIONS)}")
    below.end()
    return realm, compression.upper()


def _check_unused(keys: _Keys) -> None:
    """Take what the peer product has and this one has not, where it means nothing."""
    keys.neutral("acknowledgeType", lambda found: found == 1, "must be 1")
    # Only the newest change of a key travels; tools write false unless they are told otherwise.
    keys.take("snapshotEnabled", _flag)
    for name in ("idleMinParkNs", "idleMaxParkNs"):
        keys.take(name, _count)
    private = "write the addresses that are reached from here into targetEndpoints"
    keys.neutral("useEndpointPrivateAddress", lambda found: found is False, private)
    for name in _CLOUDS:
        keys.neutral(name, _is_switched_off, "must not be enabled: write DNS names")
    keys.neutral("discovery", _is_without_strategy, "must be empty: write DNS names")
    keys.neutral("endpoint", lambda found: found in (None, ""), "must be empty")


def _check_consumer(keys: _Keys) -> None:
    keys.take("persistWanReplicatedData", _flag)
    keys.neutral("className", lambda found: found in (None, ""), "must be empty")
    keys.neutral("properties", _is_empty, "must be empty")
    keys.end()


class _Keys:
    """The keys of one JSON object; each is taken once, and what is left is unknown."""

    def __init__(self, path: str, content: Mapping[str, object]) -> None:
        self.path = path
        """Of the object, with a dot at its end."""
        self._left = dict(content)

    def take(self, name: str, read: Callable[[str, object], T]) -> T | None:
        """Return the value of a key; None when it is missing or null."""
        found = self._left.pop(name, None)
        return None if found is None else read(f"{self.path}{name}", found)

    def required_name(self, name: str, read: Callable[[str, object], str] | None = None) -> str:
        """Return a text that must be there; without `read` it names a replication."""
        found = self.take(name, read or _text)
        if found is None:
            raise AddedJsonError(f"{self.path}{name} is missing")
        if read is None:
            self.check(name, wan_name_problem(found))
        return found

    def check(self, name: str, problem: str | None) -> None:
        """Refuse the key for a reason, if there is one."""
        if problem is not None:
            raise AddedJsonError(f"{self.path}{name} {problem}")

    def number(self, name: str, setting: str) -> int:
        """Return a number within the bounds of a setting of publishers, or its default."""
        leaf = settings_shape().at([*BATCH_PUBLISHER.split("."), "*", setting]).setting
        if leaf is None or not isinstance(leaf.default, int):
            raise LookupError(f"no setting {setting} of publishers")
        found = self._left.pop(name, None)
        if found is None:
            return leaf.default
        if not _is_integer(found) or not leaf.low <= found <= leaf.high:
            raise AddedJsonError(f"{self.path}{name} must be from {leaf.low} to {leaf.high}")
        return found

    def numbered(self, name: str, choices: tuple[str, ...], default: int) -> str:
        """Return the choice of a number."""
        found = self._left.pop(name, None)
        if found is None:
            return choices[default]
        if not _is_integer(found) or not 0 <= found < len(choices):
            raise AddedJsonError(f"{self.path}{name} must be from 0 to {len(choices) - 1}")
        return choices[found]

    def neutral(self, name: str, means_nothing: Callable[[object], bool], instead: str) -> None:
        """Take a key that is not supported at a value that means nothing."""
        found = self._left.pop(name, None)
        if found is not None and not means_nothing(found):
            raise AddedJsonError(f"{self.path}{name} is not supported: {instead}")

    def section(self, name: str) -> _Keys | None:
        """Return the keys of an object below; None when it is missing or null."""
        found = self.take(name, _as_object)
        return None if found is None else _Keys(f"{self.path}{name}.", found)

    def below(self, name: str, check: Callable[[_Keys], None]) -> None:
        """Look at an object below, if it is there."""
        found = self.section(name)
        if found is not None:
            check(found)

    def end(self) -> None:
        """Refuse the keys that are left."""
        for name in self._left:
            shown = name if name.isprintable() and name.isascii() else ascii(name)
            raise AddedJsonError(f"{self.path}{shown[:_SHOWN_CHARACTERS]} is an unknown key")


def _is_integer(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool)


def _as_object(path: str, found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise AddedJsonError(f"{path} must be a JSON object")
    return found


def _any_text(path: str, found: object) -> str:
    if not isinstance(found, str):
        raise AddedJsonError(f"{path} must be a text")
    if len(found) > MAX_TEXT_CHARACTERS or any(_is_unwritable(c) for c in found):
        raise AddedJsonError(f"{path} must be at most {MAX_TEXT_CHARACTERS} plain characters")
    return found


def _text(path: str, found: object) -> str:
    text = _any_text(path, found)
    if not text:
        raise AddedJsonError(f"{path} must not be empty")
    return text


def _is_unwritable(character: str) -> bool:
    return character < " " or "\ud800" <= character <= "\udfff"


def _flag(path: str, found: object) -> bool:
    if not isinstance(found, bool):
        raise AddedJsonError(f"{path} must be true or false")
    return found


def _count(path: str, found: object) -> int:
    if not _is_integer(found) or found < 0:
        raise AddedJsonError(f"{path} must be a number, not negative")
    return found


def _is_empty(found: object) -> bool:
    return found in ([], {}, "")


def _is_switched_off(found: object) -> bool:
    return isinstance(found, dict) and found.get("enabled", False) is False


def _is_without_strategy(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    known = {"nodeFilterClass", "discoveryStrategy", "enabled"}
    return set(found) <= known and not any(found.values())
