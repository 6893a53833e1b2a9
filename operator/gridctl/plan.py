"""`gridctl plan`: what applying a file would do to the live cluster, without writing anything.

The API server is asked whether it would take the spec. What the operator would do is told by the
operator's own rendering: each changed part is put into the live spec alone, and what comes out of
rendering both says whether members go on, take it while they run, or are restarted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.lifecycle import RunState
from grid_operator.api.names import (
    GROUP,
    PASSWORD_KEY,
    TLS_AUTHORITY_KEY,
    TLS_CERTIFICATE_KEY,
    TLS_KEY_KEY,
    USERNAME_KEY,
)
from grid_operator.decide.validate import find_problem
from grid_operator.ports.errors import Rejected
from grid_operator.render import RenderContext, desired_state
from grid_operator.render.context import SecretContent
from grid_operator.render.identity import MEMBERS_TLS, with_settled_tls
from grid_operator.render.record import read_record, start_record
from grid_operator.render.secrets import generated_secrets, named_secrets
from gridctl.differences import Difference, Place, Spec, differences, with_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.desired import Desired
    from grid_operator.api.objects import KubeObject
    from gridctl.kubernetes import Clusters

PLACEHOLDER: Final = "-"
"""Stands for the content of every Secret: nobody needs to read one for a plan."""
STRUCTURE_KEYS: Final = ("map/", "queue/")
ROOT_KEY: Final = "spec"
_OPERATIONS: Final = {
    "runState": "the operator stops or starts the cluster; what is on disk is kept",
    "clusterState": "the operator brings the members into the state",
}
_STRUCTURES: Final = ("maps", "queues")
_AROUND_REASON: Final = re.compile(r'^\S+ "\S*" is invalid: |\s*\([0-9]+ for /\S*\)$')
"""What an API server and the client put around the reason of a refusal."""
_VALUE: Final = re.compile(r'(Invalid|Unsupported) value: (?:"(?:[^"\\]|\\.)*"|\{.*?\}(?=:|$))')
"""It quotes the value, which may be a password."""
_NOT_ALLOWED: Final = re.compile(r' is forbidden: User ".*" cannot \w+ resource ')
"""Of the authorization; a quota or a webhook may forbid what is asked for with the same status."""

_TAKEN_UP: Final = frozenset({"Secret", "PersistentVolumeClaim"})
"""Kinds whose objects are used as they are when a person, or a former cluster, left them there."""


class Effect(StrEnum):
    """What one change would do."""

    REFUSED = "refused"
    RESTART = "restart"
    OPERATION = "operation"
    LIVE = "live"
    OBJECTS = "objects"
    KEPT = "kept"
    NONE = "none"


_TEXTS: Final = {
    Effect.RESTART: "member pods are replaced, one at a time, when that is safe",
    Effect.OPERATION: "members leave for good, one at a time, their volumes go, and each other pod "
    "is replaced",
    Effect.LIVE: "running members take it over REST",
    Effect.KEPT: "members keep its data until they restart, and after it as long as it is stored",
    Effect.NONE: "only the operator goes by it",
}
_AT_NEXT_START: Final = (
    Effect.OPERATION,
    "all members have it at the next start, as they stop with the same edit",
)


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a plan."""

    field: str
    effect: Effect
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What applying a file would do."""

    name: str
    namespace: str
    exists: bool
    changes: tuple[Change, ...]

    @property
    def refused(self) -> bool:
        """Whether it would not be applied, or not take effect."""
        return any(change.effect is Effect.REFUSED for change in self.changes)

    def text(self) -> str:
        """Return it for people."""
        title = f"{self.name} in namespace {self.namespace}"
        if not self.exists:
            title += " does not exist and would be created"
        elif not self.changes:
            return f"{title}: nothing would change"
        width = max((len(change.field) for change in self.changes), default=0)
        lines = (f"  {c.field.ljust(width)}  {c.effect.value:9}  {c.text}" for c in self.changes)
        return "\n".join([f"{title}:", *(line.rstrip() for line in lines)])

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "exists": self.exists,
            "refused": self.refused,
            "changes": [
                {"field": c.field, "effect": c.effect.value, "message": c.text}
                for c in self.changes
            ],
        }


async def make_plan(clusters: Clusters, manifest: KubeObject) -> Plan:
    """Ask what is needed and return the plan; nothing is written.

    Raises:
        OperatorError: The API server cannot be asked, or does not let the user ask.
    """
    name = manifest["metadata"]["name"]
    live = await clusters.find(name)
    refusal = await _refusal(clusters, live, manifest)
    statefulset = await _find_set(clusters, name) if live is not None else None
    changes = planned(live, statefulset, manifest, refusal)
    return Plan(name, clusters.namespace, live is not None, tuple(changes))


def planned(
    live: KubeObject | None,
    statefulset: KubeObject | None,
    manifest: KubeObject,
    refusal: str | None = None,
) -> list[Change]:
    """Return the changes.

    Args:
        live: The GridCluster as it is, None when there is none.
        statefulset: The members' StatefulSet as it is, None when there is none.
        manifest: What would be applied; it fits the schema.
        refusal: Why the API server would not take it, None when it would.
    """
    wanted = GridCluster.from_kube(manifest)
    problem = find_problem(wanted.spec)
    reasons = [*([refusal] if refusal else []), *([problem.message] if problem else [])]
    if live is None:
        made = _created(wanted)
        return [*_refusals(reasons, []), *made]
    old, new = _whole_spec(GridCluster.from_kube(live)), _whole_spec(wanted)
    found = differences(old, new)
    effects = _Effects(live, _recorded(live, statefulset), old, new)
    changes = [_change(one, effects, reasons) for one in found]
    changes += _requests(live, manifest)
    return [*_refusals(reasons, changes), *changes]


async def _find_set(clusters: Clusters, name: str) -> KubeObject | None:
    try:
        return await clusters.find_set(name)
    except Rejected:  # without that right, the live spec tells what members were started with
        return None


async def _refusal(clusters: Clusters, live: KubeObject | None, manifest: KubeObject) -> str | None:
    try:
        if live is None:
            await clusters.try_create(manifest)
        else:
            await clusters.try_spec(live, manifest.get("spec") or {})
    except Rejected as error:
        if _NOT_ALLOWED.search(str(error)):
            raise  # it is about who asks, and nothing is known of what is asked for
        return _VALUE.sub(r"\1 value", _AROUND_REASON.sub("", str(error)))
    return None


def _change(difference: Difference, effects: _Effects, reasons: list[str]) -> Change:
    top = difference.place[0]
    refused = [reason for reason in reasons if _names(reason, difference.field)]
    if refused:
        return Change(difference.field, Effect.REFUSED, refused[0])
    if difference.field in _OPERATIONS and difference.kind != "removed":
        return Change(difference.field, Effect.OPERATION, _OPERATIONS[difference.field])
    if top in _STRUCTURES and difference.kind == "removed" and len(difference.place) == 2:
        return Change(difference.field, Effect.KEPT, _TEXTS[Effect.KEPT])
    effect, text = effects.of(difference)
    return Change(difference.field, effect, text)


def _names(reason: str, field: str) -> bool:
    """Return whether a refusal speaks of this very field, not of one that ends or begins so."""
    text = reason.replace("spec.", " ")
    return re.search(rf"(?<![\w.]){re.escape(field)}(?![\w])", text) is not None


def _refusals(reasons: list[str], changes: list[Change]) -> list[Change]:
    """Return the refusals that no change names."""
    told = {change.text for change in changes if change.effect is Effect.REFUSED}
    return [Change(ROOT_KEY, Effect.REFUSED, reason) for reason in reasons if reason not in told]


def _requests(live: KubeObject, manifest: KubeObject) -> list[Change]:
    before = live["metadata"].get("annotations") or {}
    after = manifest["metadata"].get("annotations") or {}
    return [
        Change(
            f"metadata.annotations[{key}]", Effect.OPERATION, "the operator carries the request out"
        )
        for key, value in after.items()
        if key.startswith(f"{GROUP}/") and before.get(key) != value
    ]


def _created(cluster: GridCluster) -> list[Change]:
    desired = desired_state(cluster, _context(cluster, None))
    return [
        Change(
            f"{child['kind']} {child['metadata']['name']}",
            Effect.OBJECTS,
            "would be made" + (" where there is none" if child["kind"] in _TAKEN_UP else ""),
        )
        for child in desired.children
    ]


class _Effects:
    """What parts of the new spec do to the old one."""

    def __init__(self, live: KubeObject, recorded: Mapping[str, str], old: Spec, new: Spec) -> None:
        self._live = live
        self._recorded = recorded
        self._old = old
        self._new = new
        self._before = self._rendered(old)
        self._known: dict[Place, tuple[Effect, str] | None] = {}

    def of(self, difference: Difference) -> tuple[Effect, str]:
        """Return what a change does, in a word and in words.

        It is judged together with as little around it as makes a valid spec.
        """
        for unit in difference.units:
            if unit not in self._known:
                self._known[unit] = self._judged(with_unit(self._old, self._new, unit))
            known = self._known[unit]
            if known is not None:
                return _AT_NEXT_START if self._waits_for_stop(known) else known
        return self._judged(self._new) or (Effect.NONE, _TEXTS[Effect.NONE])

    def _waits_for_stop(self, known: tuple[Effect, str]) -> bool:
        """Return whether what is refused of running members is taken together with their stop."""
        if known[0] is not Effect.REFUSED or self._new["runState"] != RunState.STOPPED:
            return False
        whole = self._judged(self._new)
        return whole is not None and whole[0] is not Effect.REFUSED

    def _judged(self, spec: Spec) -> tuple[Effect, str] | None:
        """Return what a spec would do, None when it is not valid."""
        try:
            after = self._rendered(spec)
        except InvalidClusterError:
            return None
        if after.problem is not None and after.problem != self._before.problem:
            return Effect.REFUSED, after.problem.message
        if after.size > spec["size"]:
            return Effect.OPERATION, _TEXTS[Effect.OPERATION]
        if _template(self._before) != _template(after):
            return Effect.RESTART, _TEXTS[Effect.RESTART]
        if self._before.live != after.live:
            return Effect.LIVE, _TEXTS[Effect.LIVE]
        kinds = _changed_kinds(self._before, after)
        if kinds:
            return Effect.OBJECTS, f"applied to {', '.join(kinds)}; members go on"
        return Effect.NONE, _TEXTS[Effect.NONE]

    def _rendered(self, spec: Spec) -> Desired:
        cluster = GridCluster.from_kube({**self._live, "spec": spec})
        return desired_state(cluster, _context(cluster, self._recorded))


def _template(desired: Desired) -> object:
    sets = (child for child in desired.children if child["kind"] == "StatefulSet")
    return next((one["spec"]["template"] for one in sets), None)


def _changed_kinds(before: Desired, after: Desired) -> list[str]:
    old = {(c["kind"], c["metadata"]["name"]): c for c in before.children}
    new = {(c["kind"], c["metadata"]["name"]): c for c in after.children}
    return sorted({key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)})


def _whole_spec(cluster: GridCluster) -> Spec:
    return cluster.spec.model_dump(mode="json", by_alias=True)


def _recorded(live: KubeObject, statefulset: KubeObject | None) -> Mapping[str, str]:
    """Return what members were started with, credentials left out.

    Digests of credentials have a key that is not known here: those of the old spec stand for them.
    """
    cluster = GridCluster.from_kube(live)
    context = _context(cluster, None)
    entries = dict(start_record(with_settled_tls(cluster, context), context).entries)
    found = read_record(statefulset) if statefulset is not None else {}
    if found:
        entries.pop(MEMBERS_TLS, None)  # the spec may leave open what members have
    known = (*STRUCTURE_KEYS, MEMBERS_TLS)
    return entries | {k: v for k, v in found.items() if k.startswith(known)}


def _context(cluster: GridCluster, recorded: Mapping[str, str] | None) -> RenderContext:
    made = generated_secrets(cluster)
    return RenderContext(
        operator_namespace=PLACEHOLDER,
        management_username=PLACEHOLDER,
        management_password=PLACEHOLDER,
        recorded=recorded,
        has_pods=recorded is not None and bool(cluster.status.size),
        secrets={
            name: SecretContent(
                {**_content(cluster, name), USERNAME_KEY: made.get(name, PLACEHOLDER)}, name in made
            )
            for name in named_secrets(cluster)
        },
    )


def _content(cluster: GridCluster, name: str) -> dict[str, str]:
    """Return what stands for a Secret's content; that of another Secret, or key, is another one."""
    keys = [PASSWORD_KEY, TLS_CERTIFICATE_KEY, TLS_KEY_KEY, TLS_AUTHORITY_KEY]
    wanted = cluster.spec.license
    if wanted is not None and wanted.secret_name == name:
        keys.append(wanted.key)
    return {key: f"{PLACEHOLDER}{name}/{key}" for key in keys}
