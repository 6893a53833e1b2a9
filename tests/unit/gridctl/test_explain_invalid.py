"""`gridctl explain` of a spec that cannot work: the problem once, and what helps against it."""

from __future__ import annotations

import pytest

from gridctl.columns import problem_lines
from tests.unit.gridctl.fake_api import cluster_object, condition, operation
from tests.unit.gridctl.test_explain import READY, told

TEXT = "Secret shop-tls is not there: create it"
NOT_READY = condition("Ready", "False", "ConfigInvalid", f"the spec cannot work: {TEXT}")
BLOCKED = condition("Progressing", "False", "Blocked", f"nothing is applied: {TEXT}")


def test_a_problem_of_the_spec_is_told_once() -> None:
    found = told(NOT_READY, BLOCKED, condition("ConfigValid", "False", "InvalidLabel", TEXT))
    assert found.why == (f"ConfigValid is False since 2m (InvalidLabel): {TEXT}",)
    assert found.next == (
        "nothing is applied until the spec is changed; members keep what they run",
    )
    assert found.do == ("correct the label, annotation or selector that is named",)


def test_the_list_of_clusters_tells_it_once_as_well() -> None:
    cluster = cluster_object()
    invalid = condition("ConfigValid", "False", "InvalidLabel", TEXT)
    cluster["status"]["conditions"] = [NOT_READY, BLOCKED, invalid]
    assert problem_lines(cluster) == [f"grids/demo: ConfigValid is False (InvalidLabel): {TEXT}"]


@pytest.mark.parametrize("reason", ["SecretMissing", "InvalidSecret"])
def test_a_problem_of_a_secret_needs_no_change_of_the_spec(reason: str) -> None:
    found = told(NOT_READY, BLOCKED, condition("ConfigValid", "False", reason, TEXT))
    (line,) = found.next
    assert "the spec is changed" not in line
    assert "the operator goes on by itself" in line
    assert not any("change the field" in step for step in found.do)


def test_a_spec_that_the_api_server_refuses_is_told_once() -> None:
    refused = condition("Progressing", "False", "ApiRefused", TEXT)
    found = told(READY, refused, condition("ConfigValid", "False", "ApiRefused", TEXT))
    assert found.why == (f"ConfigValid is False since 2m (ApiRefused): {TEXT}",)


def test_what_members_lack_beside_the_problem_is_told() -> None:
    lacks = condition("Ready", "False", "ConfigInvalid", f"{TEXT}; and demo-0 does not answer")
    found = told(lacks, BLOCKED, condition("ConfigValid", "False", "InvalidLabel", TEXT))
    assert len(found.why) == 2
    assert "demo-0 does not answer" in found.why[0]


def test_an_operation_that_a_problem_holds_up_is_told() -> None:
    held = condition("Progressing", "True", "Blocked", f"nothing is applied: {TEXT}; Stop stays")
    invalid = condition("ConfigValid", "False", "SecretMissing", TEXT)
    found = told(NOT_READY, held, invalid, operation=operation("Stop", "Passive"))
    assert any("Stop stays" in line for line in found.why)
    assert len(found.next) == 2  # of the step, and of the problem


def test_a_problem_without_words_hides_nothing() -> None:
    found = told(NOT_READY, BLOCKED, condition("ConfigValid", "False", "InvalidLabel"))
    assert len(found.why) == 3


@pytest.mark.parametrize("paused", [True, False], ids=["paused", "refused"])
def test_no_pod_is_said_to_be_replaced_while_nothing_is_applied(paused: bool) -> None:
    outdated = condition("Ready", "False", "MembersOutdated", "running an older revision: demo-0")
    held = condition("ConfigValid", "False", "ApiRefused", TEXT)
    pause = condition("Progressing", "False", "Paused", "spec.paused is true")
    found = told(outdated, pause if paused else held, spec={"paused": paused})
    assert len(found.why) == (3 if paused else 2)
    assert not any("replaces the named pods" in line for line in found.next)
    assert not any("SafeToDisrupt" in line for line in found.do)
    assert any("replaces the named pods" in line for line in told(outdated).next)
