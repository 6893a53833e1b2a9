"""Members that replicate to the sink and to each other, as the bench asks them."""

from __future__ import annotations

from bench.load.paced import Prober, pacing
from bench.parts.wan_flow import growth
from bench.processes import ask
from bench.servers.members import get_request
from bench.servers.wan import Publishing, sink, wan_source, wan_target
from tests.unit.bench.load.test_paced import paced


def test_a_source_sends_to_the_sink_what_is_offered() -> None:
    with sink() as target, wan_source(Publishing(target.port, state="PAUSED")) as source:
        with pacing(source.server.port) as pacer:
            seen = pacer.offer(1000, 0.3, source.queued)
            assert seen.answered == 300
            assert pacer.next_key == 300
        assert source.queued() == 300
        assert source.sent_bytes() == 0
        source.tell("resumePublisher")
        source.drain()
        assert source.sent_bytes() > 300 * 22 / 2
        assert ask(source.server.port, get_request("299")).startswith(b"HTTP/1.1 200")


def test_a_key_is_looked_for_at_the_target() -> None:
    with wan_target() as (target, port), wan_source(Publishing(port)) as source:
        prober = Prober(source.server.port, target.port)
        assert [prober.look(), prober.look()] == [1, 2]
        assert len(prober.lags_ms) == 2


def test_a_publisher_without_a_map_queues_nothing() -> None:
    with sink() as target, wan_source(Publishing(target.port, referred=False)) as source:
        with pacing(source.server.port) as pacer:
            pacer.offer(1000, 0.05)
        assert source.queued() == 0


def test_a_queue_grows_when_it_ends_longer_than_it_began() -> None:
    assert growth(paced(5, 7, 60, 5, 7, 5)) == 0
    assert growth(paced(5, 5, 50, 60, 500, 500)) == 495
