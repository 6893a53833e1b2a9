"""Members that replicate to the sink and to each other, as the bench asks them."""

from __future__ import annotations

from bench.load.fill import empty_map, fill_map, fill_varied
from bench.load.paced import Prober, pacing
from bench.load.relay import relaying
from bench.processes import ask
from bench.servers.members import get_request
from bench.servers.wan_members import (
    COMPARING,
    FULL,
    Publishing,
    wan_pair,
    wan_source,
    wan_sources,
    wan_target,
)
from bench.servers.wan_sink import sink


def test_a_source_sends_to_the_sink_what_is_offered() -> None:
    with sink() as target, wan_source(Publishing((target.port,), state="PAUSED")) as source:
        with pacing(*source.ports) as pacer:
            seen = pacer.offer(1000, 0.3, source.queued)
            assert seen.answered == 300
            assert pacer.next_key == 300
        assert source.queued() == 300
        assert source.sent_bytes() == 0
        source.tell("resumePublisher")
        source.drain()
        assert source.sent_bytes() > 300 * 22 / 2
        assert ask(source.server.port, get_request("299")).startswith(b"HTTP/1.1 200")


def test_three_sources_send_what_each_of_them_took_in() -> None:
    with sink() as target, wan_sources(Publishing((target.port,))) as sources:
        sources.tell("pausePublisher")
        with pacing(*sources.ports) as pacer:
            assert pacer.offer(1000, 0.3).answered == 300
        assert sources.queued() == 300
        sources.tell("resumePublisher")
        sources.drain()
        assert sources.sent_bytes() > 300 * 22 / 2
        assert len(sources.server.pids) == 6


def test_a_key_is_looked_for_at_the_target() -> None:
    with wan_target() as (target, ports), wan_source(Publishing(ports)) as source:
        prober = Prober(source.server.port, target.server.port)
        assert [prober.look(), prober.look()] == [1, 2]
        assert len(prober.lags_ms) == 2


def test_a_publisher_without_a_map_queues_nothing() -> None:
    with sink() as target, wan_source(Publishing((target.port,), referred=False)) as source:
        with pacing(*source.ports) as pacer:
            pacer.offer(1000, 0.05)
        assert source.queued() == 0


def test_a_synchronisation_is_counted_on_its_way_to_the_target() -> None:
    with wan_target() as (target, ports), relaying(ports[0]) as relay:
        publishing = Publishing((relay.port,), state="STOPPED", publishers=(COMPARING, FULL))
        with wan_source(publishing) as source:
            assert fill_varied(source.ports[0], 0, 2000, seed=1) == 2000
            sent = []
            for publisher in (FULL, COMPARING):
                before = relay.passed_bytes
                uuid = source.begin_sync(publisher)
                source.end_sync(uuid)
                assert source.is_synchronised(uuid)
                sent.append(relay.passed_bytes - before)
            last = get_request("1999")
            assert ask(target.ports[0], last)[-22:] == ask(source.ports[0], last)[-22:]
            assert sent[0] > 2000 * 22 > sent[1] > 0


def test_a_pair_remembers_what_was_removed() -> None:
    with wan_pair() as sites:
        first, second = sites
        fill_map(first.ports[0], 0, 20, 22)
        first.drain()
        empty_map(second.ports[0], 0, 10)
        second.drain()
        assert [site.tombstones() for site in sites] == [10, 10]
        assert ask(first.ports[0], get_request("9")).startswith(b"HTTP/1.1 204")
        assert ask(second.ports[0], get_request("10")).startswith(b"HTTP/1.1 200")
