"""`gridctl plan` of changes to TLS between members, which all of them make together."""

from __future__ import annotations

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
