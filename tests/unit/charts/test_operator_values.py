"""Each value of the operator's chart is documented, has an effect, and is refused when wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

CHART = CHARTS / "grid-operator"
VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
OF_KUBERNETES: Final = ("podSecurityContext", "securityContext", "resources")
LONG: Final = "sha256:" + "a" * 64
SWITCHED: Final = ("podMonitor", "rules", "dashboards")
"""What has no effect unless it is enabled."""

CHANGES: Final[dict[str, Any]] = {
    "global.imageRegistry": "r.example",
    "image.registry": "r.example",
    "image.repository": "other",
    "image.tag": "9",
    "image.digest": LONG,
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 2,
    "watch.all": True,
    "watch.namespaces": ["a"],
    "log.format": "text",
    "log.level": "debug",
    "crds.install": False,
    "crds.keep": False,
    "rbac.create": False,
    "userRoles.create": False,
    "deletionProtection.create": False,
    "networkPolicy.enabled": False,
    "serviceAccount.create": False,
    "serviceAccount.name": "other",
    "serviceAccount.annotations": {"a": "b"},
    "metrics.enabled": False,
    "podMonitor.enabled": True,
    "podMonitor.members": False,
    "podMonitor.namespace": "monitoring",
    "podMonitor.labels": {"release": "prometheus"},
    "podMonitor.interval": "30s",
    "podMonitor.scrapeTimeout": "10s",
    "podMonitor.relabelings": [{"targetLabel": "a", "replacement": "b"}],
    "podMonitor.metricRelabelings": [{"action": "labeldrop", "regex": "a"}],
    "rules.enabled": True,
    "rules.namespace": "monitoring",
    "rules.labels": {"release": "prometheus"},
    "rules.disabled": ["GridCommitsSlow"],
    "rules.alertLabels": {"team": "data"},
    "rules.runbookUrl": "https://docs.example.com",
    "dashboards.enabled": True,
    "dashboards.namespace": "monitoring",
    "dashboards.labels.grafana_dashboard": "grid",
    "dashboards.annotations": {"grafana_folder": "Grid"},
    "commonLabels": {"team": "data"},
    "podLabels": {"team": "data"},
    "podAnnotations": {"a": "b"},
    "podSecurityContext": {"runAsUser": 1234},
    "securityContext": {"privileged": False},
    "resources": {"limits": {"memory": "1Gi"}},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "priorityClassName": "system-cluster-critical",
}

REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"wacth": {}}, "additional properties 'wacth' not allowed"),
    ({"watch": {"namespace": ["a"]}}, "additional properties 'namespace' not allowed"),
    ({"watch": {"namespaces": "a"}}, "'/watch/namespaces': got string, want array"),
    ({"watch": {"namespaces": ["A"]}}, "'/watch/namespaces/0'"),
    ({"watch": {"namespaces": ["a", "a"]}}, "'/watch/namespaces': items at 0 and 1 are equal"),
    ({"watch": {"all": "true"}}, "'/watch/all': got string, want boolean"),
    (
        {"watch": {"all": True, "namespaces": ["a"]}},
        "watch.all and watch.namespaces exclude each other: remove watch.namespaces, or set "
        "watch.all to false",
    ),
    ({"image": {"name": "x"}}, "additional properties 'name' not allowed"),
    ({"image": {"digest": "abc"}}, "'/image/digest'"),
    ({"image": {"tag": 1.5}}, "'/image/tag': got number, want string"),
    ({"imagePullSecrets": ["registry"]}, "'/imagePullSecrets/0': got string, want object"),
    ({"replicas": -1}, "'/replicas'"),
    ({"log": {"level": "trace"}}, "'/log/level'"),
    ({"resources": {"limit": {}}}, "additional properties 'limit' not allowed"),
    ({"extraEnv": {"A": "b"}}, "'/extraEnv': got object, want array"),
    ({"extraEnv": [{"name": "A", "value": 1}]}, "'/extraEnv/0/value': got number, want string"),
    ({"extraEnv": [{"name": "POD_NAME"}]}, "extraEnv may not hold POD_NAME, which the chart sets"),
    (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        "podLabels may not hold app.kubernetes.io/name, which the chart sets: remove it",
    ),
    (
        {"commonLabels": {"helm.sh/chart": "x"}},
        "commonLabels may not hold helm.sh/chart, which the chart sets: remove it",
    ),
    ({"commonLabels": {"a": True}}, "'/commonLabels/a': got boolean, want string"),
    ({"podAnnotations": {"a": "b\u0085"}}, "Helm cannot write the character U+0085"),
    ({"podMonitor": {"interval": "30"}}, "'/podMonitor/interval'"),
    ({"rules": {"disabled": ["GridCommitSlow"]}}, "'/rules/disabled/0': value must be one of"),
    (
        {"rules": {"alertLabels": {"severity": "page"}}},
        "rules.alertLabels may not hold severity, which the rules set: remove it",
    ),
    (
        {"rules": {"alertLabels": {"my-team": "data"}}},
        "'/rules/alertLabels': additional properties 'my-team' not allowed",
    ),
    *(
        (
            {section: {"labels": {"app.kubernetes.io/name": "x"}}},
            f"{section}.labels may not hold app.kubernetes.io/name, which the chart sets: remove",
        )
        for section in ("podMonitor", "rules", "dashboards")
    ),
    ({"rules": {"runbookUrl": "docs"}}, "'/rules/runbookUrl'"),
    ({"dashboards": {"labels": {"a": 1}}}, "'/dashboards/labels/a': got number, want string"),
    (
        {"podMonitor": {"enabled": True, "members": False}, "metrics": {"enabled": False}},
        "podMonitor.enabled has nothing to read: set metrics.enabled or podMonitor.members",
    ),
]


def leaves(tree: dict[str, Any], before: str = "") -> list[str]:
    """Return the paths of all values; what is Kubernetes' own is one value."""
    found = []
    for key, value in tree.items():
        path = f"{before}{key}"
        deeper = isinstance(value, dict) and value and path not in OF_KUBERNETES
        found += leaves(value, f"{path}.") if deeper else [path]
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {k: merged(v, second[k]) for k, v in first.items() if isinstance(second.get(k), dict)}
    return {**first, **second, **both}


def test_every_value_has_a_change() -> None:
    assert sorted(CHANGES) == sorted(leaves(VALUES))


@pytest.mark.parametrize("path", CHANGES)
def test_every_value_has_an_effect(operator_chart: Helm, path: str) -> None:
    section, _, name = path.partition(".")
    on = section in SWITCHED and name != "enabled"
    before = {section: {"enabled": True}} if on else {}
    after = merged(before, nested(path, CHANGES[path]))

    assert operator_chart.objects(after) != operator_chart.objects(before)


@pytest.mark.parametrize(
    "path", [path for path in CHANGES if path.startswith(tuple(f"{name}." for name in SWITCHED))]
)
def test_null_takes_what_may_be_missing_away(operator_chart: Helm, path: str) -> None:
    section, _, name = path.partition(".")
    off = nested(name.partition(".")[0], None)
    values = {section: off if name == "enabled" else {"enabled": True, **off}}

    assert operator_chart.objects(values)


def test_the_schema_knows_the_values_and_no_others() -> None:
    # That of a chart that has this one as a dependency.
    assert compared(SCHEMA, {**VALUES, "enabled": True}) == []


def compared(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> list[str]:
    """Return where the schema and the defaults name different values."""
    schema = next((s for s in schema.get("oneOf", []) if s.get("type") == "object"), schema)
    if path.removeprefix(".") in OF_KUBERNETES or "properties" not in schema:
        return []
    known = schema["properties"]
    wrong = [f"{path}.{name}" for name in known.keys() ^ values.keys()]
    # Parents hand their whole `global` on.
    if path != ".global" and schema["additionalProperties"] is not False:
        wrong.append(f"{path} takes any name")
    for name in known.keys() & values.keys():
        if isinstance(values[name], dict):
            wrong += compared(known[name], values[name], f"{path}.{name}")
    return wrong


def test_the_page_has_a_row_for_every_value() -> None:
    page = (CHART / "README.md").read_text(encoding="utf-8")
    table = page.partition("\n## Values\n")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name.strip("` ") for row in rows for name in row.split(",")]

    assert sorted(named) == sorted(leaves(VALUES))


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_wrong_values_are_refused_by_name(
    operator_chart: Helm, values: dict[str, Any], words: str
) -> None:
    assert words in operator_chart.refusal(values)
