"""A store of objects with a StatefulSet controller whose pods are well at once."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide import decide
from grid_operator.decide.calls import CallDone, CallOutcome, MemberCall
from grid_operator.decide.children.drift import differences
from grid_operator.decide.model import Decision, Desired, MemberProblem, MemberView, Observed
from grid_operator.decide.operations.journal import record_outcome
from grid_operator.render import desired_state, read_record
from tests.unit.operator.api.clusters import CONTEXT, SECRETS, make_cluster
from tests.unit.operator.api_server import applied, patched
from tests.unit.operator.fake_kube import VIEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.render import RenderContext

START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_ROUNDS = 40
"""Enough for a restart and for all that is given to a member afterwards, step by step."""
MAX_PODS = 9
WELL = VIEW


def make_pod(name: str = "demo-0", revision: str = "r1", *, ready: bool = True) -> KubeObject:
    status = "True" if ready else "False"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}-{revision}",
            "creationTimestamp": "2025-12-31T00:00:00Z",
            "labels": {"controller-revision-hash": revision},
        },
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": status}]},
    }


class FakeStore:
    """Holds one cluster and its children; counts writes. Its members do what they are told."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        self.cluster = make_cluster(spec)
        self.objects: dict[ObjectRef, KubeObject] = {}
        self.pods: dict[str, KubeObject] = {}
        self.views: Mapping[str, MemberView | MemberProblem] = {"demo-0": WELL}
        self.now = START
        self.replaced: list[str] = []
        self.events: list[str] = []
        self.calls: list[MemberCall] = []
        self.born = 0
        self.answer: CallOutcome = CallDone()
        self.quota = MAX_PODS
        """Pods that are let in."""
        self.reports: Mapping[str, str] = {}
        """What Kubernetes says of pods and claims."""
        self.secrets = SECRETS
        self.management_password = CONTEXT.management_password
        self.decision: Decision | None = None
        """The newest."""

    def change_spec(self, spec: dict[str, Any]) -> None:
        generation = self.cluster.metadata.generation + 1
        status, annotations = self.cluster.status, self.cluster.metadata.annotations
        changed = make_cluster(spec, generation=generation, annotations=annotations)
        self.cluster = changed.model_copy(update={"status": status})

    def annotate(self, **annotations: str) -> None:
        """Ask for something: `force_start` is `gridcluster.io/force-start`."""
        keyed = {f"gridcluster.io/{n.replace('_', '-')}": v for n, v in annotations.items()}
        meta = self.cluster.metadata.model_copy(update={"annotations": keyed})
        self.cluster = self.cluster.model_copy(update={"metadata": meta})

    def change_status(self, **changes: Any) -> None:
        status = self.cluster.status.model_copy(update=changes)
        self.cluster = self.cluster.model_copy(update={"status": status})

    def desired(self) -> Desired:
        sets = (o for o in self.objects.values() if o["kind"] == "StatefulSet")
        live = next(sets, None)
        return desired_state(self.cluster, self.context(live))

    def context(self, live: KubeObject | None) -> RenderContext:
        """Return what rendering is told beside the cluster and its live StatefulSet."""
        return replace(
            CONTEXT,
            recorded=read_record(live) if live is not None else None,
            replicas=live["spec"]["replicas"] if live is not None else 0,
            has_pods=bool(self.pods),
            secrets=self.secrets,
            management_password=self.management_password,
        )

    def observe(self) -> Observed:
        members = {name: view for name, view in self.views.items() if name in self.pods}
        return Observed(
            self.cluster,
            tuple(copy.deepcopy(list(self.objects.values()))),
            tuple(copy.deepcopy(list(self.pods.values()))),
            members,
            reports=self.reports,
        )

    def step(self) -> int:
        """Decide once and perform it; return the number of writes."""
        self.now += timedelta(seconds=10)
        self.decision = decision = decide(self.observe(), self.desired(), self.now)
        writes = self._perform(decision)
        writes += self._store(decision.status.to_kube())
        if decision.call is not None:
            self.calls.append(decision.call)
            answer = self.answer_to(decision.call)
            status = record_outcome(self.cluster.status, decision.call, answer, self.now)
            writes += self._store(status.to_kube())
        self.run_controller()
        return writes

    def answer_to(self, call: MemberCall) -> CallOutcome:
        """Return what the member answers."""
        return self.answer

    def perform_objects(self) -> None:
        """Decide once and apply the objects, as an operator that is killed before the rest."""
        self._perform(decide(self.observe(), self.desired(), self.now))
        self.run_controller()

    def _store(self, stored: KubeObject) -> bool:
        changed = stored != self.cluster.status.to_kube()
        body = json.loads(self.cluster.model_dump_json(by_alias=True, exclude_none=True))
        self.cluster = GridCluster.from_kube({**body, "status": stored})
        return changed

    def settle(self) -> int:
        """Step until nothing is written; return how many rounds wrote something."""
        for rounds in range(MAX_ROUNDS):
            if self.step() == 0:
                return rounds
        raise AssertionError("it does not come to rest")

    def _perform(self, decision: Decision) -> int:
        for obj in decision.apply:
            ref = ObjectRef.of(obj)
            fresh = applied(self.objects.get(ref, {}), obj)
            added = sorted(d.pointer for d in differences(obj, fresh) if d.is_addition)
            removals = [{"op": "remove", "path": pointer} for pointer in reversed(added)]
            self.objects[ref] = patched(fresh, removals)
        for ref in decision.delete:
            del self.objects[ref]
        for pod in decision.delete_pods:
            name = pod["metadata"]["name"]
            self.replaced.append(name)
            del self.pods[name]
        self.events += [event.reason for event in decision.events]
        return len(decision.apply) + len(decision.delete) + len(decision.delete_pods)

    def run_controller(self) -> None:
        for obj in self.objects.values():
            if obj["kind"] != "StatefulSet":
                continue
            revision = str(hash(json.dumps(obj["spec"]["template"], sort_keys=True)))
            obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1
            obj["status"] = {
                "observedGeneration": obj["metadata"]["generation"],
                "updateRevision": revision,
            }
            names = [f"{obj['metadata']['name']}-{i}" for i in range(obj["spec"]["replicas"])]
            self.pods = {name: pod for name, pod in self.pods.items() if name in names}
            for name in set(names[: self.quota]) - set(self.pods):
                self.born += 1
                self.pods[name] = make_pod(name, revision)
                self.pods[name]["metadata"]["uid"] = f"uid-{self.born}"
