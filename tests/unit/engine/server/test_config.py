from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.bootstrap.identity import route_cluster, route_password
from grid_member.engine.cluster_settings import ClusterSettings, ClusterTls
from grid_member.engine.server.binary import find_server
from grid_member.engine.server.config import (
    ServerPlaces,
    quote,
    server_config,
)

MEMBER = ClusterSettings("dev", "m", 5703, (("a", 5703), ("b", 5704)), "grid", "pw")
PLACES = ServerPlaces(Path("/run/x"), Path("/run/x/jetstream"), "token")
HOSTILE = (
    "dev",
    'a"} accounts {',
    "$HOME",
    "include /etc/passwd",
    "a b\tc\nd\\x",
    "$2a$11$abcdefghijklmnopqrstuv",
    "naïve ☃",
    "#//:@%41",
)


def unquoted(text: str) -> bytes:
    """Read a string as the configuration language does."""
    assert text[0] == text[-1] == '"'
    assert '"' not in re.sub(r"\\x[0-9a-f]{2}", "", text[1:-1])
    return re.sub(
        rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text[1:-1].encode()
    )


@given(st.text())
def test_a_quoted_string_is_one_printable_word_and_comes_back(text: str) -> None:
    written = quote(text)
    assert re.fullmatch(r'"(?:[ !#-\[\]-~]|\\x[0-9a-f]{2})*"', written)
    assert unquoted(written) == text.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_the_server_takes_hostile_names_for_what_they_are(tmp_path: Path, text: str) -> None:
    directory = tmp_path / text.replace("/", "_")
    directory.mkdir()
    member = replace(MEMBER, cluster_name=text, user=text, password=text, directory=directory)
    places = ServerPlaces(directory, directory / "jetstream", text)
    path = tmp_path / "nats.conf"
    path.write_text(server_config(member, "m", places), encoding="ascii")
    ran = subprocess.run(
        [find_server(None), "-t", "-c", path], capture_output=True, check=False, timeout=20
    )
    assert b"is valid" in ran.stderr, ran.stderr
    assert ran.returncode == 0


def test_the_configured_password_is_in_no_file_and_no_report() -> None:
    member = replace(MEMBER, password="hunter2-hunter2")
    text = server_config(member, "m", PLACES)
    assert "hunter2" not in text + repr(member)
    assert "token" not in repr(PLACES)
    assert text.count(route_password(member)) == 1 + len(member.members)


def test_the_password_of_routes_is_of_the_cluster_the_user_and_the_password() -> None:
    members = [
        MEMBER,
        replace(MEMBER, cluster_name="prod"),
        replace(MEMBER, user="other"),
        replace(MEMBER, password="other"),
        replace(MEMBER, cluster_name="dev\0grid", user=""),
    ]
    assert len({route_password(member) for member in members}) == len(members)
    assert route_password(MEMBER) == route_password(replace(MEMBER, member_name="x", port=1))


def test_clusters_of_names_that_look_alike_have_their_own() -> None:
    names = ["a b", "a-b", "a_b", "a  b", "x" * 60, "x" * 61]
    assert len({route_cluster(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", route_cluster(name)) for name in names)


def test_a_durable_member_syncs_always() -> None:
    durable = server_config(replace(MEMBER, directory=Path("/data")), "m", PLACES)
    assert "sync_interval: always" in durable
    assert "sync_interval: always" not in server_config(MEMBER, "m", PLACES)


def test_a_lite_member_keeps_nothing() -> None:
    assert "store_dir" not in server_config(replace(MEMBER, lite=True), "m", PLACES)


def test_both_ends_of_a_route_show_certificates() -> None:
    tls = ClusterTls(Path("/tls/crt"), Path("/tls/key"), Path("/tls/ca"))
    text = server_config(replace(MEMBER, tls=tls), "m", PLACES)
    assert all(word in text for word in ('"/tls/crt"', '"/tls/key"', '"/tls/ca"', "verify: true"))
    assert "tls" not in server_config(MEMBER, "m", PLACES)


def test_there_is_a_route_for_each_member_with_its_address() -> None:
    member = replace(MEMBER, members=(("m-0.h", 1), ("::1", 2), ("[fe80::2]", 3), ("10.0.0.1", 4)))
    text = server_config(member, "m", PLACES)
    routes = re.findall(r'"nats://grid:[0-9a-f]{64}@(.*)"', text)
    assert routes == ["m-0.h:1", "[::1]:2", "[fe80::2]:3", "10.0.0.1:4"]
