"""What of a changed spec running members can take, and what needs their restart.

The StatefulSet's annotation records, in digests, what its pods read at their start. An entry's
value is a digest. Before it stands `+` for what members were given while they ran, `=` for what was
read at start, left the spec, and is given again because it came back: members that were restarted
meanwhile have lost it. `-` before all is for what has left the spec.

    config/NETWORK…, config/credentials   read at start; a change restarts
    config/size                           of several members: how many the pods were made for
    identity                              what they show each other; `render.identity` goes by it
    members-tls                           they speak TLS with each other; the same
    map/NAME, queue/NAME                  a new one is given, a changed one restarts
    wan/REPLICATION/PUBLISHER             the same; one that is gone is remembered over restarts
    wan-identity/SECRET                   what publishers show; a new or changed one restarts
    live/log-level, live/license          given
    secret/NAME                           members were given its password

The record is renewed, without marks, whenever the template changes because of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import ConfigValidReason
from grid_operator.api.desired import Live, SpecProblem
from grid_operator.api.lifecycle import LogLevel
from grid_operator.api.names import (
    STRUCTURES_ANNOTATION,
    identity_secret_name,
)
from grid_operator.api.phase import is_at_rest, is_restoring, wanted_replicas
from grid_operator.render.configuration.tree import RESTORE_FROM, configuration_tree, yaml_text
from grid_operator.render.configuration.wan import (
    INITIAL_STATE,
    publisher_realm,
    publisher_secrets,
)
from grid_operator.render.identity import (
    IDENTITY,
    MEMBERS_TLS,
    MEMBERS_TLS_ENTRY,
    identity_entry,
    identity_problem,
    shown_otherwise,
)
from grid_operator.render.metadata import digest
from grid_operator.render.secrets import (
    RECORD_PREFIX,
    generated_secrets,
    keyed_digest,
    license_text,
    listener_secret,
    password_of,
    username_of,
)
from grid_operator.render.volumes import members_with_claims

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext

GIVEN: Final = "+"
AGAIN: Final = "="
GONE: Final = "-"
STRUCTURE_DIGITS: Final = 8
"""Hexadecimal digits kept of a structure's digest: an annotation has room for 1,500 of them."""
MAX_RECORDED_NAME_BYTES: Final = 64
SHORTENED_NAME_CHARACTERS: Final = 32
"""Of longer names the beginning is recorded, and a digest of all."""
LOG_LEVELS: Final = {
    LogLevel.DEBUG: "FINE",
    LogLevel.INFO: "INFO",
    LogLevel.WARNING: "WARNING",
    LogLevel.ERROR: "SEVERE",
}
"""The levels of POST log-level."""
_STRUCTURES: Final = {"map": "maps", "queue": "queues"}
PUBLISHER_PREFIX: Final = "wan/"
"""In the StatefulSet's record: replication and id of a publisher."""
_WAN_IDENTITY: Final = "wan-identity/"
_WAN_REPLICATION: Final = "wan-replication"
_READ_AT_START: Final = ("config/", "map/", "queue/", PUBLISHER_PREFIX, _WAN_IDENTITY)
MAX_GONE_PUBLISHERS: Final = 64
"""That are remembered: an annotation has room for so many."""
_LOG_LEVEL: Final = "live/log-level"
_LICENSE: Final = "live/license"
_CREDENTIALS: Final = "config/credentials"
_SIZE: Final = "config/size"
_BY_BACKUP: Final = ", or create a new GridCluster, with restoreFrom if it is to have the data"
_START_FIRST: Final = ", start it, and let it grow when the start is over"


@dataclass(frozen=True, slots=True)
class StartRecord:
    """What the pods of the template read at start, and what they are given besides."""

    entries: Mapping[str, str]
    live: Live
    changes: tuple[str, ...] = ()
    problem: SpecProblem | None = None
    """What speaks against the difference to what members read at start."""
    gone_publishers: tuple[tuple[str, str], ...] = ()
    """Replication and id of publishers that left the spec; members may have them."""

    @property
    def annotation(self) -> str:
        """The record as the StatefulSet carries it."""
        ordered = dict(sorted(self.entries.items()))
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))

    @property
    def wan_secrets(self) -> tuple[str, ...]:
        """The Secrets that publishers show, or have shown since the members' start."""
        found = (key for key in self.entries if key.startswith(_WAN_IDENTITY))
        return tuple(sorted(key.removeprefix(_WAN_IDENTITY) for key in found))

    @property
    def start_hash(self) -> str:
        """Digest of what is read at start: a change of it restarts the members."""
        read = {
            key: _plain(value)
            for key, value in self.entries.items()
            if key.startswith(_READ_AT_START) and GIVEN not in value
        }
        return digest(json.dumps(read, sort_keys=True))


def read_record(statefulset: KubeObject) -> dict[str, str]:
    """Return what a live StatefulSet's annotation says; nothing when it cannot be read."""
    text = statefulset["metadata"].get("annotations", {}).get(STRUCTURES_ANNOTATION, "")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, str)}


def start_record(cluster: GridCluster, context: RenderContext) -> StartRecord:
    """Return the record that the StatefulSet should carry now, and what it leaves to be given."""
    wanted = _wanted(cluster, context)
    recorded = context.recorded
    divided = shown_otherwise(cluster, context, wanted)
    problem = identity_problem(cluster, context, divided)
    if not recorded:
        return StartRecord(wanted, _live(cluster, context, wanted), problem=problem)
    # What a stop waits to bring about is not what members have: it could still be taken back.
    held = bool(divided) and not context.has_nobody
    renewed = wanted_replicas(cluster) == 0 or _restarts(recorded, wanted)
    starts = renewed and not held
    entries = (
        wanted | _gone_publishers(recorded, wanted) if starts else _continued(recorded, wanted)
    )
    return StartRecord(
        entries,
        _live(cluster, context, entries),
        tuple(_changes(recorded, wanted, entries)),
        problem,
        tuple(_publisher_name(key) for key in sorted(_gone_publishers(entries, wanted))),
    )


def recorded_size(cluster: GridCluster, context: RenderContext) -> int | None:
    """Return for how many members the pods of now were made, None when there are none.

    When somebody has taken the record away, that is as many as there are to be now, or more when
    more have claims: of members on disk all have to start before some of them leave, as the first
    few alone may not have what was answered. Fewer claims tell nothing, as they get lost as well.
    """
    if not context.recorded:
        claimed = 0 if _begins_anew(cluster, context) else members_with_claims(cluster, context)
        return max(context.replicas, claimed if claimed > cluster.spec.size else 0) or None
    text = context.recorded.get(_SIZE, "1")
    return int(text) if text.isdecimal() else 1


def _begins_anew(cluster: GridCluster, context: RenderContext) -> bool:
    """Return whether members begin with a backup: claims of a former cluster tell nothing then."""
    unmade = cluster.spec.restore_from is not None and context.recorded is None
    return unmade or is_restoring(cluster) or bool(cluster.status.importing)


def size_problem(cluster: GridCluster, context: RenderContext) -> SpecProblem | None:
    """Return what speaks against the number of members: one cannot become several, nor they one."""
    size, before = cluster.spec.size, recorded_size(cluster, context) or cluster.spec.size
    grows = 1 < before < size
    may_change = size > 1 and before > 1 and not (grows and is_at_rest(cluster))
    if size == before or may_change:
        return None
    reason, otherwise = "a single member keeps its data in another way than several do", _BY_BACKUP
    if not context.recorded and not context.replicas:
        reason = f"{before} members have claims, and {reason}"
    if grows:
        reason, otherwise = "nobody can join a cluster that does not run", _START_FIRST
    return SpecProblem(
        ConfigValidReason.IMMUTABLE_SIZE,
        f"spec.size: {size} instead of {before}; {reason}: set it back to {before}{otherwise}",
    )


def _wanted(cluster: GridCluster, context: RenderContext) -> dict[str, str]:
    """Return the record of members that start now."""
    tree = configuration_tree(cluster)["grid"]
    tree["logging"] = {"format": tree["logging"]["format"]}
    # Of no effect once the members have begun: that it goes then restarts nobody.
    tree.get("persistence", {}).pop(RESTORE_FROM, None)
    structures = {section: tree.pop(section, {}) for section in _STRUCTURES}
    publishers = _publishers(tree.pop(_WAN_REPLICATION, {}))
    _leave_out_wan_identities(cluster, tree["security"])
    entries = {f"config/{name}": digest(_json(element)) for name, element in tree.items()}
    entries[_CREDENTIALS] = keyed_digest(context, *_credentials(cluster, context))
    entries[IDENTITY] = identity_entry(cluster, context)
    if not cluster.spec.is_alone:
        entries[_SIZE] = str(cluster.spec.size)
    if cluster.spec.encrypts_members:
        entries[MEMBERS_TLS] = MEMBERS_TLS_ENTRY
    for section, found in structures.items():
        for name, element in found.items():
            entries[_structure_key(section, name)] = digest(_json(element))[:STRUCTURE_DIGITS]
    entries |= publishers
    for secret in publisher_secrets(cluster.spec):
        shown = (username_of(context, secret), password_of(context, secret))
        entries[f"{_WAN_IDENTITY}{secret}"] = keyed_digest(context, *shown)
    entries[_LOG_LEVEL] = cluster.spec.logging.level.value.lower()
    if cluster.spec.license is not None:
        entries[_LICENSE] = keyed_digest(context, license_text(cluster, context))
    made = generated_secrets(cluster)
    present = (name for name in made if name in context.secrets)
    return entries | {f"{RECORD_PREFIX}{name}": "1" for name in present}


def _publishers(replications: dict[str, Any]) -> dict[str, str]:
    """Return the entries of all publishers; the state that a member begins with is told to it."""
    return {
        f"{PUBLISHER_PREFIX}{name}/{publisher}": digest(
            _json({key: value for key, value in element.items() if key != INITIAL_STATE})
        )[:STRUCTURE_DIGITS]
        for name, replication in replications.items()
        for publisher, element in replication.get("batch-publisher", {}).items()
    }


def _leave_out_wan_identities(cluster: GridCluster, security: dict[str, Any]) -> None:
    """Leave out the realms of publishers, each of which has an entry of its own."""
    names = set(map(publisher_realm, publisher_secrets(cluster.spec)))
    security["realms"] = [r for r in security["realms"] if r["name"] not in names]


def _gone_publishers(recorded: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of publishers that left the spec."""
    left = [
        key for key in sorted(recorded) if key.startswith(PUBLISHER_PREFIX) and key not in wanted
    ]
    return {key: _gone(recorded[key]) for key in left[:MAX_GONE_PUBLISHERS]}


def _publisher_name(key: str) -> tuple[str, str]:
    replication, _, publisher = key.removeprefix(PUBLISHER_PREFIX).partition("/")
    return replication, publisher


def _credentials(cluster: GridCluster, context: RenderContext) -> list[str]:
    texts = [context.management_username]
    asked = listener_secret(cluster)
    if asked is not None:
        texts += [username_of(context, asked), password_of(context, asked)]
    if not cluster.spec.security.enabled:
        return texts
    identity = identity_secret_name(cluster.metadata.name)
    texts += [username_of(context, identity)]
    texts += [password_of(context, identity)]
    users = sorted(cluster.spec.security.users, key=lambda user: user.name)
    return [*texts, *(password_of(context, user.secret_name) for user in users)]


def _restarts(recorded: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether anything changed that members read at start only."""
    config = {key for key in recorded.keys() | wanted.keys() if key.startswith("config/")}
    return (
        any(recorded.get(key) != wanted.get(key) for key in config)
        or any(
            _is_structure(key) and key in recorded and _plain(recorded[key]) != value
            for key, value in wanted.items()
        )
        or any(
            key.startswith(_WAN_IDENTITY) and _plain(recorded.get(key, "")) != value
            for key, value in wanted.items()
        )
    )


def _continued(recorded: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the record of members that go on, with what they are given marked."""
    entries = {key: value for key, value in wanted.items() if key.startswith(RECORD_PREFIX)}
    entries[IDENTITY] = recorded.get(IDENTITY, wanted[IDENTITY])
    if MEMBERS_TLS in recorded:
        entries[MEMBERS_TLS] = recorded[MEMBERS_TLS]
    for key, value in recorded.items():
        stays = key in wanted
        if key.startswith("config/"):
            entries[key] = value
        elif _is_structure(key):
            entries[key] = _back(value) if stays else _gone(value)
        elif key.startswith(_WAN_IDENTITY):
            entries[key] = value
    for key, value in wanted.items():
        if key.startswith("live/"):
            entries[key] = value if recorded.get(key) == value else GIVEN + value
        elif _is_structure(key) and key not in recorded:
            entries[key] = GIVEN + value
    return entries


def _changes(
    recorded: Mapping[str, str], wanted: Mapping[str, str], entries: Mapping[str, str]
) -> list[str]:
    """Return what differs from the record, in words; restarts first."""
    restarts, others = [], []
    for key in sorted(recorded.keys() | wanted.keys()):
        before, after = recorded.get(key, ""), wanted.get(key, "")
        if key.startswith("config/") and before != after:
            restarts.append(f"{key.removeprefix('config/')}: changed: restart")
        elif _is_structure(key) and after and before and _plain(before) != after:
            restarts.append(f"{_shown(key)}: changed: restart")
        elif _is_structure(key) and not before:
            effect = "live" if entries[key].startswith(GIVEN) else "at the next start"
            others.append(f"{_shown(key)}: new: {effect}")
        elif _is_structure(key) and not after and not before.startswith(GONE):
            others.append(f"{_shown(key)}: removed: {_kept(key)}")
        elif key.startswith(_WAN_IDENTITY) and after and before != after:
            secret = key.removeprefix(_WAN_IDENTITY)
            restarts.append(f"Secret {secret} of wan: changed: restart")
        elif key.startswith("live/") and after and _plain(before) != after:
            others.append(f"{key.removeprefix('live/')}: changed: live")
    return [*restarts, *others]


def _live(cluster: GridCluster, context: RenderContext, entries: Mapping[str, str]) -> Live:
    given = _given_structures(cluster, entries)
    structures = yaml_text({"grid": given}) if given else ""
    level = cluster.spec.logging.level
    log_level = LOG_LEVELS[level] if entries[_LOG_LEVEL].startswith(GIVEN) else ""
    text = license_text(cluster, context)
    if not (structures or log_level or text):
        return Live("")
    return Live(
        keyed_digest(context, structures, log_level, text),
        structures,
        log_level,
        text,
        _replications(given),
    )


def _given_structures(
    cluster: GridCluster, entries: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    tree = configuration_tree(cluster)["grid"]
    given: dict[str, dict[str, Any]] = {}
    for section in _STRUCTURES:
        for name, element in tree.get(section, {}).items():
            if _is_given(entries[_structure_key(section, name)]):
                given.setdefault(section, {})[name] = element
    return given


def _replications(given: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    """Return the names of the replications that maps refer to."""
    maps = given.get("map", {}).values()
    return tuple(sorted({name for each in maps for name in each.get("wan-replication-ref", ())}))


def _structure_key(section: str, name: str) -> str:
    if len(name.encode()) > MAX_RECORDED_NAME_BYTES:
        name = f"{name[:SHORTENED_NAME_CHARACTERS]}#{digest(name)}"
    return f"{section}/{name}"


def _is_structure(key: str) -> bool:
    """Return whether running members can be given what the entry is about."""
    return key.startswith(("map/", "queue/", PUBLISHER_PREFIX))


def _shown(key: str) -> str:
    if key.startswith(PUBLISHER_PREFIX):
        return "wan[{}].publishers[{}]".format(*_publisher_name(key))
    section, _, name = key.partition("/")
    return f"{_STRUCTURES[section]}[{name}]"


def _kept(key: str) -> str:
    return "live" if key.startswith(PUBLISHER_PREFIX) else "members keep its data"


def _back(value: str) -> str:
    """Return the entry of what is in the spec, whether or not it was there before."""
    if not value.startswith(GONE):
        return value
    known = value.removeprefix(GONE)
    return known if known.startswith(GIVEN) else AGAIN + known


def _gone(value: str) -> str:
    """Return the entry of what is not in the spec; members may have it."""
    return GONE + value.lstrip(GONE + AGAIN)


def _is_given(value: str) -> bool:
    return value.startswith((GIVEN, AGAIN))


def _plain(value: str) -> str:
    return value.lstrip(GONE + AGAIN + GIVEN)


def _json(element: object) -> str:
    return json.dumps(element, sort_keys=True, ensure_ascii=False)
