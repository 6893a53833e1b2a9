"""What members show of WAN replication beside what the spec wishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.wan import PublisherState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.desired import WanPublisher
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import WanPublisherView
    from grid_operator.decide.situation import Situation

RESTORED: Final = "the cluster began as a backup"
"""Words of members that keep all publishers paused until a person resumes them."""
_SEPARATOR: Final = "/"


def publisher_target(name: tuple[str, str]) -> str:
    """Return replication and publisher as the journal and the status name them."""
    return _SEPARATOR.join(name)


def parameters(target: str) -> str:
    """Return replication and publisher as calls take them."""
    return target.replace(_SEPARATOR, "&")


def wished(situation: Situation, target: str) -> WanPublisher | None:
    """Return a publisher of the spec, None when it has none of this name."""
    wishes = situation.desired.wan.publishers
    return next((p for p in wishes if publisher_target(p.name) == target), None)


def shown_publishers(
    situation: Situation,
) -> Mapping[tuple[str, str], WanPublisherView] | None:
    """Return the publishers that the members agreed on, None when no member tells."""
    told = (view.wan for _, view in situation.joined())
    found = next((wan for wan in told if wan is not None), None)
    return None if found is None else {publisher.name: publisher for publisher in found}


def differing_pods(situation: Situation, wish: WanPublisher) -> list[KubeObject]:
    """Return the pods whose members show another state than the spec wishes.

    None of them while the members wait for a person because the cluster began as a backup.
    """
    if wish.state is PublisherState.MANUAL:
        return []
    found = []
    for pod, view in situation.joined():
        publisher = next((p for p in view.wan or () if p.name == wish.name), None)
        if publisher is None or publisher.reason.startswith(RESTORED):
            continue
        state = publisher.states.get(view.uuid)
        if state is not None and state != wish.state.value.upper():
            found.append(pod)
    return found
