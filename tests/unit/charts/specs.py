"""Specs as values of the chart of members."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import yaml
from hypothesis import strategies as st

from tests.unit.charts.conftest import CHARTS
from tests.unit.operator.api.clusters import FULL_SPEC

if TYPE_CHECKING:
    from tests.unit.operator.render.specs import Spec

VALUES: Final = yaml.safe_load((CHARTS / "grid" / "values.yaml").read_text(encoding="utf-8"))
UNWRITABLE: Final = "\u0085"
"""Helm writes a space in its place."""
_POD: Final = FULL_SPEC["pod"]
_PODS: Final = (
    {},
    *({key: value} for key, value in _POD.items() if key != "volumeMounts"),
    {"affinity": {}},
    {"env": [{"name": "A"}, {"name": "B", "value": "{{ . }}: \u2028"}]},
    {"resources": {"requests": {"memory": 4294967296}, "limits": {}}},
    {"volumes": _POD["volumes"], "volumeMounts": _POD["volumeMounts"]},
)
_EXPOSURES: Final[tuple[dict[str, Any], ...]] = (
    {},
    FULL_SPEC["exposure"],
    {"type": "NodePort", "nodePort": 30000},
    {"allowedCidrs": ["192.0.2.1", "2001:db8::1", "192.0.2.0/24"]},
    {"annotations": {"a": "{{ .x }}", "b": "yes"}},
)


def as_values(spec: Spec) -> Spec:
    """Return values that mean the spec: Helm merges maps with their defaults, null removes them."""
    values = copy.deepcopy(spec)
    resources = values.get("pod", {}).get("resources", {})
    for kind, amounts in resources.items():
        resources[kind] = {**dict.fromkeys(VALUES["pod"]["resources"][kind]), **amounts}
    return values


def names(spec: Spec) -> list[str]:
    """Return the names of all structures, and the keys that their references to WAN have."""
    found = [one for kind in ("maps", "queues") for one in spec.get(kind, [])]
    references = [one.get("wan") or {} for one in found]
    keys = [each.get(which, []) for each in references for which in ("includeKeys", "excludeKeys")]
    return [one["name"] for one in found] + [key for some in keys for key in some]


@st.composite
def with_pods(draw: st.DrawFn, specs: st.SearchStrategy[Spec]) -> Spec:
    """Return specs that also say how pods are made and reached."""
    more: dict[str, Any] = {
        "pod": draw(st.sampled_from(_PODS)),
        "exposure": draw(st.sampled_from(_EXPOSURES)),
        "deletionPolicy": draw(st.sampled_from(["Retain", "Delete"])),
        "runState": draw(st.sampled_from(["Running", "Running", "Stopped"])),
    }
    return {**draw(specs), **more}
