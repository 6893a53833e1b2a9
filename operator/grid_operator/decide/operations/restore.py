"""Restore: the volume of a new cluster is filled from a backup before there is a member.

    Copy ──▶ CleanUp ──▶ finished, and the StatefulSet may be made

Of several members the first has a copy then, which it imports when they start; the others wait.
Rendering makes the claim and the Job while the journal is at Copy, and neither at CleanUp, so the
Job is swept then; a claim never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.objects import ObjectRef
from grid_operator.api.phase import Step, is_restoring
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.operations.journal import Move, advance, begin, finish, wait
from grid_operator.decide.pods import last_words, newest, pod_name, pod_problem

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridClusterSpec
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

RETRY_AFTER_S: Final = 300.0
"""After a restore that failed, with the same spec."""
JOB: Final = "Job"


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
            return wait(operation, f"until Job {jobs[0]['metadata']['name']} is gone")
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
        return wait(operation, f"until the former Job {name} is gone")
    if _condition(job, "Complete") is not None:
        return advance(operation, Step.CLEAN_UP, situation.now)
    failed = _condition(job, "Failed")
    if failed is not None:
        reason = _last_words(situation) or failed or "look at the log of its pod"
        message = f"Job {name} failed: {reason}"
        return finish(operation, OperationOutcome.FAILED, situation.now, message)
    text = f"until Job {name} has copied {operation.target}{_obstacle(situation)}"
    return wait(operation, text)


def _last_words(situation: Situation) -> str:
    """Return what the restore itself says of its failure, empty when it says nothing."""
    pods = [pod for pod in situation.observed.job_pods if last_words(pod)]
    found = newest(pods)
    return last_words(found) if found is not None else ""


def _obstacle(situation: Situation) -> str:
    """Return why the Job's pod does not work, empty when it does, or has ended well."""
    pod = newest(situation.observed.job_pods)
    if pod is None or pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
        return ""
    said = last_words(pod)
    return f"; pod {pod_name(pod)} {pod_problem(pod)}" + (f": {said}" if said else "")


def _condition(job: KubeObject, kind: str) -> str | None:
    """Return the message of a Job's condition that is true, None when it is not."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return str(condition.get("message", ""))
    return None
