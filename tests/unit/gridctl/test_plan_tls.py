"""`gridctl plan` of changes to TLS between members, which all of them make together."""

from __future__ import annotations

from typing import Any

import pytest

from gridctl.plan import Effect, planned
from tests.unit.gridctl.fake_api import cluster_object
from tests.unit.gridctl.test_plan import manifest, statefulset


@pytest.mark.parametrize("refused", ["spec.tls.members", "spec.tls"])
def test_running_members_change_tls_between_them_all_at_once(refused: str) -> None:
    tls = {"secretName": "t", "members": refused != "spec.tls.members"}
    spec = {"size": 3, "tls": tls}
    live = cluster_object(**spec)
    live["status"]["size"] = 3
    wanted = {"tls": {**tls, "members": True}} if refused == "spec.tls.members" else {}
    changes = planned(live, statefulset(spec, None), manifest(size=3, **wanted))
    assert {change.effect for change in changes} == {Effect.REFUSED}
    assert all(f"{refused}: members of now" in change.text for change in changes)


@pytest.mark.parametrize("record", [True, False], ids=["from the record", "from the status"])
def test_what_members_have_is_known_where_the_spec_leaves_it_open(record: bool) -> None:
    plain = statefulset({"size": 3, "tls": {"secretName": "t", "members": False}}, None)
    live = cluster_object(size=3, tls={"secretName": "t"})
    live["status"] |= {"size": 3, "membersTls": None if record else False}
    live["status"]["observedUid"] = live["metadata"]["uid"]
    for members, expected in ((True, Effect.REFUSED), (False, Effect.NONE)):
        wanted = manifest(size=3, tls={"secretName": "t", "members": members})
        (change,) = planned(live, plain if record else None, wanted)
        assert (change.field, change.effect) == ("tls.members", expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"tls": {"secretName": "t", "members": False}},
            {"tls": {"secretName": "t", "members": True}},
        ),
        ({}, {"clusterName": "other"}),
        ({}, {"security": {"enabled": True}}),
    ],
    ids=["TLS", "name", "security"],
)
def test_what_all_members_change_together_comes_with_a_stop_in_the_same_edit(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    live = cluster_object(size=3, **before)
    live["status"]["size"] = 3
    running = statefulset({"size": 3, **before}, None)
    stopped = planned(live, running, manifest(size=3, runState="Stopped", **after))
    assert {change.effect for change in stopped} == {Effect.OPERATION}
    assert any("at the next start" in change.text for change in stopped)
    going_on = planned(live, running, manifest(size=3, **after))
    assert Effect.REFUSED in {change.effect for change in going_on}


def test_a_stop_does_not_bring_about_what_is_refused_anyway() -> None:
    kept = {"size": 3, "persistence": {"enabled": True}}
    live = cluster_object(**kept)
    live["status"]["size"] = 3
    wanted = manifest(**kept, clusterName="other", runState="Stopped")
    changes = planned(live, statefulset(kept, None), wanted)
    assert {c.field: c.effect for c in changes}["clusterName"] is Effect.REFUSED
