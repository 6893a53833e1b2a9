"""Finds what passes the schema and still cannot work.

A chain of policies over the spec; the first that objects becomes the `ConfigValid` condition.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from grid_operator.api.conditions import ConfigValidReason as Reason
from grid_operator.api.desired import SpecProblem
from grid_operator.api.names import GROUP, REVISION_LABEL, child_labels
from grid_operator.api.pod import TaintEffect, TolerationOperator
from grid_operator.api.quantity import parse_quantity
from grid_operator.api.wan import wan_endpoint_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_operator.api.gridcluster import GridClusterSpec
    from grid_operator.api.persistence import PersistenceSpec
    from grid_operator.api.pod import Toleration

MAX_STRUCTURE_NAME_BYTES: Final = 255
"""The members' own limit on map and queue names, in UTF-8."""
RESERVED_LABELS: Final = frozenset({*child_labels(""), REVISION_LABEL})
RESERVED_LABEL_DOMAINS: Final = (GROUP, "statefulset.kubernetes.io", "apps.kubernetes.io")
MAX_LABEL_PREFIX_LENGTH: Final = 253
CRON_FIELDS: Final = 5
CRON_PROBE: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Any moment: a schedule without a single time is the same without one from everywhere."""

_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot carry (XML 1.0 section 2.2); members refuse them in YAML as well."""
_LABEL_PREFIX: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


def find_problem(spec: GridClusterSpec) -> SpecProblem | None:
    """Return the first thing that speaks against the spec, None when it can work."""
    for reason, policy in _POLICIES:
        messages = list(policy(spec))
        if messages:
            return SpecProblem(reason, "; ".join(messages))
    return None


def _structures(spec: GridClusterSpec) -> list[tuple[str, list[str]]]:
    return [("maps", [m.name for m in spec.maps]), ("queues", [q.name for q in spec.queues])]


def _structure_names(spec: GridClusterSpec) -> Iterable[str]:
    for field, names in _structures(spec):
        for name in names:
            if len(name.encode()) > MAX_STRUCTURE_NAME_BYTES:
                yield f"spec.{field}: {name[:40]!r}… has more than {MAX_STRUCTURE_NAME_BYTES} bytes"
            if name.count("*") > 1:
                yield f"spec.{field}: {name!r} has more than one *"
            if name != name.strip():
                yield f"spec.{field}: {name!r} starts or ends with a space"
            if _UNWRITABLE.search(name):
                yield f"spec.{field}: {name!r} holds a character that no text may hold"


def _wildcards(spec: GridClusterSpec) -> Iterable[str]:
    for field, names in _structures(spec):
        wild = sorted(name for name in names if "*" in name)
        for index, first in enumerate(wild):
            for second in wild[index + 1 :]:
                if _is_ambiguous(first, second):
                    yield (
                        f"spec.{field}: {first!r} and {second!r} can match the same name and are "
                        "equally long: make one of them longer"
                    )


def _is_ambiguous(first: str, second: str) -> bool:
    """Return whether one name can match both and the longer pattern does not decide."""
    if len(first) != len(second):
        return False
    (head_a, tail_a), (head_b, tail_b) = first.split("*", 1), second.split("*", 1)
    heads_meet = head_a.startswith(head_b) or head_b.startswith(head_a)
    tails_meet = tail_a.endswith(tail_b) or tail_b.endswith(tail_a)
    return heads_meet and tails_meet


def _quantities(spec: GridClusterSpec) -> Iterable[str]:
    requests, limits = spec.pod.resources.requests, spec.pod.resources.limits
    for field, amounts in (("requests", requests), ("limits", limits)):
        for name, amount in amounts.items():
            if parse_quantity(amount) is None:
                yield f"spec.pod.resources.{field}.{name}: {amount!r} is not a quantity"
            if not _is_qualified(name):
                yield f"spec.pod.resources.{field}: {name!r} is not the name of a resource"
    for name, amount in requests.items():
        wanted, most = parse_quantity(amount), parse_quantity(limits.get(name, ""))
        if wanted is not None and most is not None and wanted > most:
            yield f"spec.pod.resources: request {name}={amount} exceeds its limit {limits[name]}"
    yield from _volume_sizes(spec.persistence)


def _volume_sizes(persistence: PersistenceSpec) -> Iterable[str]:
    backup = persistence.backup
    sizes = {"size": persistence.size if persistence.enabled else "1"}
    if backup is not None and backup.volume is not None:
        sizes["backup.volume.size"] = backup.volume.size
    for field, text in sizes.items():
        size = parse_quantity(text)
        if size is None or size < 1:
            yield f"spec.persistence.{field}: {text!r} is not a size of at least one byte"


def _labels(spec: GridClusterSpec) -> Iterable[str]:
    pod = spec.pod
    keyed = (("labels", pod.labels), ("annotations", pod.annotations))
    for field, entries in (*keyed, ("nodeSelector", pod.node_selector)):
        for key, value in entries.items():
            if not _is_qualified(key):
                yield f"spec.pod.{field}: {key!r} is not a valid key"
            if field != "annotations" and value and not _LABEL_NAME.fullmatch(value):
                yield f"spec.pod.{field}: {value!r} is not a valid value for {key}"
    for field, entries in keyed:
        for key in entries:
            if _is_reserved(key):
                yield f"spec.pod.{field}: {key} belongs to the operator or to Kubernetes"


def _service_annotations(spec: GridClusterSpec) -> Iterable[str]:
    for place, keys in (
        ("exposure", spec.exposure.annotations),
        ("wanListener.service", spec.wan_listener.service.annotations),
    ):
        for key in keys:
            if not _is_qualified(key):
                yield f"spec.{place}.annotations: {key!r} is not a valid key"
            if _is_reserved(key):
                yield f"spec.{place}.annotations: {key} belongs to the operator or to Kubernetes"


def _schedule(spec: GridClusterSpec) -> Iterable[str]:
    backup = spec.persistence.backup
    if backup is None or backup.schedule is None:
        return
    field = "spec.persistence.backup.schedule"
    cron, zone = backup.schedule.cron, backup.schedule.time_zone
    problem = cron_problem(cron)
    if problem:
        yield f"{field}.cron: {cron!r} {problem}"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        yield f"{field}.timeZone: {zone!r} is no time zone; one is called Europe/Zurich"


def cron_problem(cron: str) -> str | None:
    """Return what is wrong with a schedule, None when it has a next time."""
    if len(cron.split()) != CRON_FIELDS:
        return "needs five fields: minute, hour, day of month, month, day of week"
    try:
        next(CronSim(cron, CRON_PROBE))
    except CronSimError as error:
        return f"is no schedule: {str(error).lower()}"
    except StopIteration:
        return "never comes"
    return None


def _networks(spec: GridClusterSpec) -> Iterable[str]:
    for text in spec.exposure.allowed_cidrs:
        if not _is_network(text):
            yield (
                f"spec.exposure.allowedCidrs: {text!r} is no network; one is written 192.0.2.0/24"
            )


def _wan(spec: GridClusterSpec) -> Iterable[str]:
    for replication in spec.wan:
        for publisher in replication.publishers:
            place = f"spec.wan[{replication.name}].publishers[{publisher.id}].endpoints"
            for text in publisher.endpoints:
                if wan_endpoint_port(text) is None:
                    yield (
                        f"{place}: {text!r} is no address; one is written host, host:port, [IPv6] "
                        "or [IPv6]:port"
                    )
    silent = {replication.name for replication in spec.wan if not replication.publishers}
    for structure in spec.maps:
        wan = structure.wan
        if wan is not None and wan.replication in silent:
            yield (
                f"spec.maps: {structure.name!r}: wan.replication: spec.wan[{wan.replication}] has "
                "no publisher: add one to it, or remove wan from the map"
            )
        for pattern in () if wan is None else (*wan.include_keys, *wan.exclude_keys):
            place = f"spec.maps: {structure.name!r}: wan: {pattern!r}"
            if pattern.count("*") > 1:
                yield f"{place} has more than one *"
            if _UNWRITABLE.search(pattern):
                yield f"{place} holds a character that no text may hold"


def _senders(spec: GridClusterSpec) -> Iterable[str]:
    for sender in spec.wan_listener.allowed_from:
        if sender.cidr is not None and not _is_network(sender.cidr):
            yield (
                f"spec.wanListener.from: {sender.cidr!r} is no network; one is written 192.0.2.0/24"
            )


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _tolerations(spec: GridClusterSpec) -> Iterable[str]:
    for index, toleration in enumerate(spec.pod.tolerations):
        problem = _toleration_problem(toleration)
        if problem:
            yield f"spec.pod.tolerations[{index}]: {problem}"


def _toleration_problem(toleration: Toleration) -> str | None:
    exists = toleration.operator is TolerationOperator.EXISTS
    if not toleration.key and not exists:
        return "without a key the operator must be Exists"
    if exists and toleration.value:
        return "operator Exists takes no value"
    if toleration.key and not _is_qualified(toleration.key):
        return f"{toleration.key!r} is not a valid key"
    if toleration.value and not _LABEL_NAME.fullmatch(toleration.value):
        return f"{toleration.value!r} is not a valid value"
    no_execute = toleration.effect is TaintEffect.NO_EXECUTE
    if toleration.toleration_seconds is not None and not no_execute:
        return "tolerationSeconds needs effect NoExecute"
    return None


def _is_qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > MAX_LABEL_PREFIX_LENGTH or not _LABEL_PREFIX.fullmatch(prefix)):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


def _is_reserved(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return key in RESERVED_LABELS or any(
        prefix == d or prefix.endswith(f".{d}") for d in RESERVED_LABEL_DOMAINS
    )


_POLICIES: Final[tuple[tuple[Reason, Callable[[GridClusterSpec], Iterable[str]]], ...]] = (
    (Reason.INVALID_STRUCTURE_NAME, _structure_names),
    (Reason.AMBIGUOUS_WILDCARD, _wildcards),
    (Reason.INVALID_QUANTITY, _quantities),
    (Reason.INVALID_LABEL, _labels),
    (Reason.INVALID_LABEL, _service_annotations),
    (Reason.INVALID_TOLERATION, _tolerations),
    (Reason.INVALID_SCHEDULE, _schedule),
    (Reason.INVALID_NETWORK, _networks),
    (Reason.INVALID_NETWORK, _senders),
    (Reason.INVALID_WAN, _wan),
)
