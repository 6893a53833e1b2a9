"""Why a cluster is not Ready, what is under way, what happens next and what a person can do.

All of it from the GridCluster alone, so that it works on a file from somebody else as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    ProgressingReason,
    ReadyReason,
    StalledReason,
    find_condition,
)
from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.names import GROUP
from grid_operator.api.phase import Step
from grid_operator.api.status import GIVES_UP_DATA, OperationOutcome
from grid_operator.decide.annotation_requests import REFUSED
from gridctl.explain_words import (
    ADVICE,
    DAMAGED_COPIES,
    ENCRYPT_MEMBERS,
    ENDING,
    HINTS,
    LOST_IN_MEMORY,
    LOST_MAJORITY,
    NO_POD,
    PLAIN_MEMBERS,
    STEPS,
    WAITS_FOR_START,
    Advice,
)
from gridctl.judging import HOPELESS, is_ready, pause_text, status_of

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus, OperationStatus

INDENT: Final = "  "
MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S
_ALWAYS_TOLD: Final = ("ConfigValid", "RequestsValid", "StructuresMatch", "ChildrenMatch",
                       "DefinitionMatches", "ClusterStateAsDesired", "BackupSucceeded",
                       "Restored")  # fmt: skip
"""Conditions that are told whenever they are False, also of a cluster that is Ready."""
_FAILED_STARTS: Final = frozenset(
    {StalledReason.PARTIAL_START_FAILED.value, StalledReason.FORCE_START_FAILED.value}
)
_WAITS: Final = "waits: "
_DAMAGED: Final = "damaged"
"""Words of the operator and of the member when the member waits to be told what to do."""
_DAMAGED_COPIES: Final = "damaged data: records of"
_NO_MAJORITY: Final = "no majority of the members that hold the data is there"
"""Words of one of several members."""
_NO_POD: Final = "does not exist yet"
"""Words of the operator about a member without a pod."""
_LOOK_FOR_OPERATOR: Final = (
    "look whether the operator runs and looks after namespace NAMESPACE: "
    "kubectl get deployments -A -l app.kubernetes.io/name=grid-operator"
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is told of one cluster."""

    headline: str
    why: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    do: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it for people."""
        sections = (
            ("why", self.why),
            ("under way", self.under_way),
            ("what happens next", self.next),
            ("what you can do", self.do),
        )
        lines = [self.headline]
        for title, content in sections:
            if content:
                lines += [f"{title}:", *(f"{INDENT}- {line}" for line in content)]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "headline": self.headline,
            "why": list(self.why),
            "underWay": list(self.under_way),
            "next": list(self.next),
            "do": list(self.do),
        }


def explain(cluster: KubeObject, now: datetime) -> Explanation:
    """Return what the object itself tells of its cluster."""
    status = status_of(cluster)
    told = worth_telling(status)
    why = [_line(condition, now) for condition in told]
    paused = pause_text(cluster, now)
    held = paused is not None or find_condition(told, ConditionType.CONFIG_VALID) is not None
    advice = [_advice(condition, held) for condition in told]
    nexts = [*_next(status), *(a.next for a in advice)]
    steps = [a.do for a in advice]
    if paused is not None:
        why.insert(0, paused)
    for problem in _unseen(cluster, status):
        why.insert(0, problem)
        steps.insert(0, _LOOK_FOR_OPERATOR)
    if _is_half_encrypted(cluster, status):
        why.append(PLAIN_MEMBERS)
        steps.append(ENCRYPT_MEMBERS)
    steps += [*_data_loss(cluster, status), *_hints([*told, *_of_operation(status)])]
    names = _names(cluster, status)
    return Explanation(
        _headline(cluster, status, now),
        _distinct(why, {}),
        _distinct([*_under_way(status, now), *_refused(cluster, status)], {}),
        _distinct(nexts, names),
        _distinct(steps, names),
    )


def since_text(time: str | None, now: datetime) -> str:
    """Return how long ago a time was, in the largest unit that makes at least 2."""
    try:
        seconds = int((now - datetime.fromisoformat(str(time))).total_seconds())
    except (ValueError, TypeError):
        return "an unknown time"
    for unit_s, letter in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s}{letter}"
    return f"{max(seconds, 0)}s"


def _headline(cluster: KubeObject, status: GridClusterStatus, now: datetime) -> str:
    meta = cluster["metadata"]
    name = f"{meta.get('name', '?')} in namespace {meta.get('namespace', 'default')}"
    ready = next((c for c in status.conditions if c.type == ConditionType.READY), None)
    if ready is None:
        return f"{name}: nothing is known of it yet"
    since = since_text(ready.last_transition_time, now)
    if not is_ready(status):
        return f"{name} is not Ready since {since}"
    return f"{name} is Ready since {since}: {ready.message}"


def worth_telling(status: GridClusterStatus) -> list[Condition]:
    """Return the conditions that say why something is not as it should be.

    When ConfigValid is among them, those that end with its words are left out: only what comes
    behind these, such as what members lack, is more than it says.
    """
    told = [c for c in status.conditions if _is_worth_telling(c, status)]
    valid = find_condition(told, ConditionType.CONFIG_VALID)
    if valid is None or not valid.message:
        return told
    return [c for c in told if c is valid or not c.message.endswith(valid.message)]


def _is_worth_telling(condition: Condition, status: GridClusterStatus) -> bool:
    if condition.type == ConditionType.READY:
        return condition.status is not ConditionStatus.TRUE
    if condition.type in _ALWAYS_TOLD:
        return condition.status is ConditionStatus.FALSE
    if condition.type == ConditionType.PROGRESSING:
        if status.operation is not None and condition.reason == status.operation.kind:
            return False  # it is told together with the operation
        if condition.status is ConditionStatus.TRUE or condition.reason in HOPELESS:
            return True
        # Of a ready cluster with nothing under way it says only that.
        return not is_ready(status) and condition.reason in ADVICE
    if condition.type == ConditionType.STALLED:
        return condition.reason in _FAILED_STARTS  # the other reasons are told by other conditions
    blocked = status.operation is not None or not is_ready(status)
    return condition.type == "SafeToDisrupt" and condition.status is ConditionStatus.FALSE \
        and blocked  # fmt: skip


def _line(condition: Condition, now: datetime) -> str:
    since = since_text(condition.last_transition_time, now)
    state = f"{condition.type} is {condition.status.value} since {since} ({condition.reason})"
    return f"{state}: {condition.message}" if condition.message else state


def _advice(condition: Condition, held: bool) -> Advice:
    """Return what its reason means; held: nothing of the spec is applied, whatever is outdated."""
    if held and condition.reason == ReadyReason.MEMBERS_OUTDATED:
        return Advice()
    return ADVICE.get(condition.reason, Advice())


def _under_way(status: GridClusterStatus, now: datetime) -> list[str]:
    lines = []
    if status.operation is not None:
        lines += _operation_lines(status, status.operation, now)
    for done in status.last_operations[:1]:
        if done.outcome is not OperationOutcome.SUCCEEDED:
            ended = since_text(done.finished, now)
            lines.append(f"before that {done.kind.value} {done.outcome.value.lower()} {ended} ago"
                         + (f": {done.message}" if done.message else ""))  # fmt: skip
    return lines


def _refused(cluster: KubeObject, status: GridClusterStatus) -> list[str]:
    """Return the requests that were refused, as long as their annotations are there."""
    annotations = cluster["metadata"].get("annotations") or {}
    return [
        f"request {handled.request} of {GROUP}/{handled.annotation} was refused: {handled.message}"
        for handled in status.handled_requests
        if handled.outcome == REFUSED
        and str(annotations.get(f"{GROUP}/{handled.annotation}", "")).split(",")[0].strip()
        == handled.request
    ]


def _operation_lines(
    status: GridClusterStatus, operation: OperationStatus, now: datetime
) -> list[str]:
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    same = progressing is not None and progressing.reason == operation.kind
    message = progressing.message if progressing is not None and same else ""
    about = f" of {operation.target}" if operation.target else ""
    asked = f", request {operation.request}" if operation.request else ""
    lines = [
        f"{operation.kind.value}{about} since {since_text(operation.started, now)}{asked} "
        f"(id {operation.id})",
        f"step {operation.step} since {since_text(operation.step_started, now)}"
        + (f": {message}" if message else ""),
    ]
    if operation.attempts:
        last = since_text(operation.last_attempt, now)
        lines.append(f"attempts of this step: {operation.attempts}, the last one {last} ago")
    if operation.last_error:
        lines.append(f"last error: {operation.last_error}")
    return lines


def _next(status: GridClusterStatus) -> list[str]:
    operation = status.operation
    if operation is None:
        return []
    if operation.step not in set(Step):
        return [f"step {operation.step} is one of a newer operator"]
    step = Step(operation.step)
    known = STEPS.get((operation.kind, step)) or ENDING.get(step)
    return [known] if known else []


def _unseen(cluster: KubeObject, status: GridClusterStatus) -> list[str]:
    """Return what makes the status older than the object."""
    if status.observed_generation is not None:
        if status.observed_generation < int(cluster["metadata"].get("generation") or 0):
            return ["the newest change of the spec was not seen by the operator yet"]
        return []
    try:
        GridCluster.from_kube(cluster)
    except InvalidClusterError as error:
        return [f"the spec does not fit this version: {problem}" for problem in error.problems]
    return ["no operator has written a status"]


def _is_half_encrypted(cluster: KubeObject, status: GridClusterStatus) -> bool:
    """Return whether clients use TLS and members do not, without anybody having chosen that."""
    tls = (cluster.get("spec") or {}).get("tls") or {}
    return bool(tls) and tls.get("members") is None and status.members_tls is False


def _data_loss(cluster: KubeObject, status: GridClusterStatus) -> list[str]:
    if status.operation is not None and status.operation.kind in GIVES_UP_DATA:
        return []
    spec = cluster.get("spec") or {}
    ready = find_condition(status.conditions, ConditionType.READY)
    text = ready.message if ready is not None and not is_ready(status) else ""
    if spec.get("size", 1) != 1:
        return _loss_of_several(text, (spec.get("persistence") or {}).get("enabled") is True)
    if not (_WAITS in text and _DAMAGED in text):
        return []
    return [f"{m.pod}: {WAITS_FOR_START}" for m in status.members if m.pod in text]


def _loss_of_several(text: str, on_disk: bool) -> list[str]:
    """Return what to do about what several members say: of each log they have several copies."""
    damaged = [DAMAGED_COPIES] if _DAMAGED_COPIES in text else []
    if _NO_MAJORITY not in text:
        return damaged
    return [*damaged, LOST_MAJORITY if on_disk else LOST_IN_MEMORY]


def _of_operation(status: GridClusterStatus) -> list[Condition]:
    found = find_condition(status.conditions, ConditionType.PROGRESSING)
    return [] if found is None or status.operation is None else [found]


def _hints(told: list[Condition]) -> list[str]:
    """Return where to look, by what Kubernetes says of a pod; the object itself has no more."""
    text = "\n".join(c.message for c in told if c.reason not in HOPELESS)
    waits = any(condition.reason == ProgressingReason.WAITING_FOR_MEMBERS for condition in told)
    hints = [hint for words, hint in HINTS.items() if words.casefold() in text.casefold()]
    return [*hints, NO_POD] if waits and _NO_POD in text else hints


def _names(cluster: KubeObject, status: GridClusterStatus) -> dict[str, str]:
    meta = cluster["metadata"]
    unready = [member.pod for member in status.members if not member.ready]
    if status.operation is not None and status.operation.target in unready:
        unready.insert(0, status.operation.target)  # others may only be waiting for it
    return {
        "POD": next(iter(unready), f"{meta.get('name', 'NAME')}-0"),
        "NAMESPACE": str(meta.get("namespace", "default")),
        "NAME": str(meta.get("name", "NAME")),
        "UID": str(meta.get("uid", "UID")),
    }


def _distinct(lines: list[str], names: dict[str, str]) -> tuple[str, ...]:
    """Return the lines that say something, each once, with the names in them."""
    found: dict[str, None] = {}
    for line in lines:
        text = line
        for word, name in names.items():
            text = text.replace(word, name)
        if text:
            found[text] = None
    return tuple(found)
