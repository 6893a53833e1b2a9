"""Pods that no member misses: their members have not joined yet, or have left for good."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grid_operator.decide.children.departure import is_terminating
from grid_operator.decide.model import MemberProblem
from grid_operator.decide.pods import has_no_process, pod_name
from grid_operator.decide.roll import gate_obstacle

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed


def is_missed(observed: Observed, name: str) -> bool:
    """Return whether the pod of this name, which need not be there, may hold what others need.

    It does not when its member says itself that it has not joined, or cannot say anything because
    it does not run; and when all the others say that they are all, and safe. Who was lost would be
    missed: its vote counts, and its copies are not current.
    """
    outside = {pod_name(pod) for pod in observed.pods if _is_outside(observed, pod)}
    others = tuple(pod for pod in observed.pods if pod_name(pod) not in outside)
    if not others or gate_obstacle(replace(observed, pods=others)) is not None:
        return True
    return name in {pod_name(pod) for pod in others}


def _is_outside(observed: Observed, pod: KubeObject) -> bool:
    if is_terminating(pod):
        return False
    view = observed.members.get(pod_name(pod))
    return has_no_process(pod) or (isinstance(view, MemberProblem) and bool(view.node_state))
