"""Restore: the volume of a new cluster is filled from a backup before there is a member.

    Copy ──▶ CleanUp ──▶ finished, and the StatefulSet may be made

Of several members the first has a copy then, which it imports when they start; the others wait.
Rendering makes the claim and the Job while the journal is at Copy, and neither at CleanUp, so the
Job is swept then; a claim never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.names import RENDERED_HASH_ANNOTATION, RESTORE_CONTAINER
from grid_operator.api.objects import ObjectRef
from grid_operator.api.phase import Step, is_restoring
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.children.departure import former, is_terminating
from grid_operator.decide.containers import container_status, exit_code, has_begun, last_words
from grid_operator.decide.operations.journal import Move, advance, begin, finish, wait
from grid_operator.decide.pods import newest, pod_name, pod_problem, with_reports
from grid_operator.decide.words import with_reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.gridcluster import GridClusterSpec
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

RETRY_AFTER_S: Final = 300.0
"""After a restore that failed, with the same spec."""
JOB: Final = "Job"
RUNNING: Final = "Running"
"""The phase of a pod of which at least one container runs."""


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the restore that the spec asks for and that was not done."""
    if not is_restoring(situation.cluster) or situation.statefulset is not None:
        return None
    source = source_text(situation.spec)
    return begin(situation, OperationKind.RESTORE, Step.COPY, target=source)


def found_done(situation: Situation) -> bool:
    """Return whether there are members already, so that their data may not be replaced."""
    return is_restoring(situation.cluster) and situation.statefulset is not None


def source_text(spec: GridClusterSpec) -> str:
    """Return the name of the backup that the spec names: claim, member and number."""
    source = spec.restore_from
    if source is None:
        return ""
    claim = source.claim_name or f"{source.cluster}-backup"
    member = source.member or f"{source.cluster}-0"
    number = "newest" if source.backup is None else f"backup-{source.backup}"
    return f"{claim}/{member}/{number}"


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    jobs = [child for child in situation.observed.children if child["kind"] == JOB]
    if operation.step == Step.CLEAN_UP:
        if jobs:
            name = jobs[0]["metadata"]["name"]
            return wait(operation, f"until Job {name} is gone{former(jobs[0])}")
        return finish(
            operation,
            OperationOutcome.SUCCEEDED,
            situation.now,
            restored_from=operation.target,
            importing=None if situation.spec.is_alone else True,
        )
    return _copy(situation, operation)


def _copy(situation: Situation, operation: OperationStatus) -> Move:
    rendered = {ObjectRef.of(obj) for obj in situation.desired.children if obj["kind"] == JOB}
    live = [child for child in situation.observed.children if ObjectRef.of(child) in rendered]
    if not live:
        return wait(operation, f"until the Job that reads {operation.target} exists")
    job = live[0]
    name = job["metadata"]["name"]
    if job["metadata"].get("deletionTimestamp"):
        return wait(operation, f"until the former Job {name} is gone{former(job)}")
    if _is_copied(situation, job):
        return advance(operation, Step.CLEAN_UP, situation.now)
    failed = _condition(job, "Failed")
    stuck = _ended_badly(situation)
    if failed is None and stuck is not None:
        if job.get("status", {}).get("failed", 0) < job.get("spec", {}).get("backoffLimit", 0):
            text = f"{_title(stuck)}, and does not end by itself: the Job makes another"
            return Move(operation, waiting=text, delete_pod=stuck)
        failed = _title(stuck)
    if failed is not None:
        reason = _last_words(situation) or failed or "look at the log of its pod"
        message = f"Job {name} failed: {reason}"
        return finish(operation, OperationOutcome.FAILED, situation.now, message)
    refused = situation.observed.reports.get(name)
    obstacle = f"; it gets no pod: {refused}" if refused else _obstacle(situation)
    return wait(operation, f"until Job {name} has copied {operation.target}{obstacle}")


def is_outdated_job(rendered: KubeObject, live: KubeObject, pods: Iterable[KubeObject]) -> bool:
    """Return whether the Job was made from another spec, and none of its pods has got to work.

    A Job never changes: what the spec says by now, such as a label that a policy asks for, reaches
    a pod that could not be made or started with another Job only.
    """
    wanted, has = _digest(rendered), _digest(live)
    if has is None or has == wanted:
        return False
    return not any(has_begun(container_status(pod, RESTORE_CONTAINER)) for pod in pods)


def _digest(job: KubeObject) -> object:
    return (job["metadata"].get("annotations") or {}).get(RENDERED_HASH_ANNOTATION)


def _is_copied(situation: Situation, job: KubeObject) -> bool:
    """Return whether the copy is complete.

    The pod, and so the Job, may not end then, or end as failed: containers that others have added
    end when and how they like.
    """
    pods = situation.observed.job_pods
    done = any(exit_code(pod, RESTORE_CONTAINER) == 0 for pod in pods)
    return done or _condition(job, "Complete") is not None


def _ended_badly(situation: Situation) -> KubeObject | None:
    """Return a pod in which the restore has failed and another container runs on.

    The Job does not count it as failed, and makes no other, before all its containers have ended.
    """
    found = (
        pod
        for pod in situation.observed.job_pods
        if exit_code(pod, RESTORE_CONTAINER)
        and pod.get("status", {}).get("phase") == RUNNING
        and not is_terminating(pod)
    )
    return newest(found)


def _title(pod: KubeObject) -> str:
    return f"pod {pod_name(pod)} {pod_problem(pod, RESTORE_CONTAINER)}"


def _last_words(situation: Situation) -> str:
    """Return what the restore itself says of its failure, empty when it says nothing."""
    pods = situation.observed.job_pods
    found = newest(pod for pod in pods if last_words(pod, RESTORE_CONTAINER))
    return last_words(found, RESTORE_CONTAINER) if found is not None else ""


def _obstacle(situation: Situation) -> str:
    """Return why the Job's pod does not work, empty when it does, or has ended well."""
    pod = newest(situation.observed.job_pods)
    if pod is None or pod.get("status", {}).get("phase") == "Succeeded":
        return ""
    own = container_status(pod, RESTORE_CONTAINER)
    if pod.get("status", {}).get("phase") == RUNNING and (own is None or own.get("ready")):
        return ""
    said = last_words(pod, RESTORE_CONTAINER)
    title = with_reports(_title(pod), pod, situation.observed.reports)
    return f"; {with_reason(title, said)}"


def _condition(job: KubeObject, kind: str) -> str | None:
    """Return the message of a Job's condition that is true, None when it is not."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return str(condition.get("message", ""))
    return None
