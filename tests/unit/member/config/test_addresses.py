"""What names a member in a list, and what each other text is called, wherever it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.membership.join_list import MemberListError, parse_member_list
from grid_member.command import EXIT_CONFIG
from grid_member.command.line import main
from grid_member.config import ConfigError, config_from
from grid_member.config.addresses import is_address, is_pattern, member_problem
from tests.unit.member.config.loading import load, problems

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.config.trees import Tree

LIST = "network.join.tcp-ip.member-list"
MEMBERS = "network.join.tcp-ip.members"
EACH = "write the address of each member as an item of its own"
FORMS = "write host, host:port, [IPv6] or [IPv6]:port"
RANGE = f"is a range of addresses, which names no member: {EACH}"
WILDCARD = f"holds a wildcard, which names no member: {EACH}"
PORTS = "holds a range of ports: write the one port of the member"
PORT = "must have a port from 1 to 65535, or none, behind the colon"
NUMBER = "ends in a number and is no IPv4 address, which has four from 0 to 255"
HOST = f"is neither an IP address nor a host name: {FORMS}"
URL = "is a URL: write its host and port alone"
SLASH = "holds a slash, as a network or a path has: write the address of one member"
ZONE = "has a zone, which other machines do not know: leave out the % and what follows it"
NO_MACHINE = "is not the address of one machine: write that of the member"
SHAPES = {
    RANGE: (
        *("192.168.1.0-7", "127.0.0.1-3", "127.0.0.1-3:5704", "10-12.0.0.1", "10.0.0.-"),
        "fd00::1-9",
    ),
    WILDCARD: ("10.0.0.*", "10.0.*.*:5701", "*", "fd00::*", "node-*"),
    PORTS: ("a:5701-5703", "10.0.0.1:5701-5703", "[::1]:1-2"),
    PORT: ("a:", "a:0", "a:65536", "a:05", "a:x", "10.0.0.1:", "[::1]:", "[::1]:0"),
    NUMBER: (
        *("127.1", "10.0.0", "1.2.3.4.5", "1.2.3.256", "host.1", "0x7f.0.0.1", "2130706433"),
        "1.2.3.04",
    ),
    HOST: ("-a", "a-", "a..b", ".a", "a_!", "x" * 64, "x." * 127 + "x", ":5701"),
    URL: ("http://a:5701", "nats://u:p@a:1", "tcp://10.0.0.1:5701"),
    SLASH: ("10.0.0.0/24", "fd00::/64", "a:5701/grid"),
    f"is no IPv6 address: {FORMS}": ("::1]", "1:2:3", ":::", "a:b:c", "::1:57040"),
    f"has brackets that do not fit: {FORMS}": ("[::1", "[::1]5704", "[a:1"),
    f"has brackets and no IPv6 address in them: {FORMS}": ("[10.0.0.1]:5704", "[a]", "[]"),
    f"holds spaces: {EACH}": ("a b", "a\tb"),
    ZONE: ("fe80::1%eth0", "[fe80::1%2]:5704"),
    NO_MACHINE: ("0.0.0.0", "::", "[::]:1", "224.0.0.1", "ff02::1", "255.255.255.255"),
    f"holds a semicolon: {EACH}": ("a;b",),
    "holds a user: write host and port alone, an identity is set in security.realms": ("u@a",),
    "holds a $: write a variable as ${NAME}": ("$(HOST)",),
    "is not in ASCII: write a host name as xn--...": ("höst",),
}
WRONG = {text: wrong for wrong, texts in SHAPES.items() for text in texts}
RIGHT = (
    *("a", "a.b.example.", "grid-0.grid.ns.svc.cluster.local:5701", "my_host", "_a", "3f2a", "1-2"),
    *("10.0.0.1", "10.0.0.1:65535", "::1", "[2001:db8::1]", "[2001:db8::1]:1", "0a", "x" * 63),
    *("web-1-7", "ip-10-0-0-1.ec2.internal", "xn--hst-sna.de", "1.2.3.4x"),
)


def joined(*members: str, **more: object) -> Tree:
    return {"network": {"join": {"tcp-ip": {"enabled": True, "member-list": [*members], **more}}}}


@pytest.mark.parametrize("text", WRONG, ids=ascii)
def test_each_shape_is_refused_with_what_to_write(text: str) -> None:
    wrong = WRONG[text]
    assert member_problem(text) == wrong
    # Alone in the list it made a member that was alone, ready and safe.
    assert problems(joined(text)) == [f"{LIST}[0]: {wrong}"]
    assert problems(joined("a", text)) == [f"{LIST}[1]: {wrong}"]
    assert problems({"advanced-network": joined(text)["network"]}) == [
        f"advanced-{LIST}[0]: {wrong}"
    ]
    off = joined(text)
    off["network"]["join"]["tcp-ip"]["enabled"] = False
    if is_pattern(text):
        assert load(off).join_members is None
    else:
        assert problems(off) == [f"{LIST}[0]: {wrong}"]


@pytest.mark.parametrize("text", WRONG, ids=ascii)
def test_each_shape_is_refused_in_the_environment_and_at_run_time(text: str) -> None:
    wrong = WRONG[text]
    for variable in ("MEMBERLIST_0", "MEMBERS"):
        name = f"GRID_MEMBER_NETWORK_JOIN_TCPIP_{variable}"
        with pytest.raises(ConfigError) as caught:
            config_from(joined(), {name: text})
        assert wrong in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        config_from(joined(members="${M}"), {"M": text})
    assert str(caught.value).endswith(f"{MEMBERS}: {wrong}")
    # Where any of these separates, they do so.
    if not set(text) & {" ", ";"}:
        with pytest.raises(MemberListError) as refused:
            parse_member_list(f"a, {text}")
        assert str(refused.value) == f"address 2 of the member list {wrong}"
        assert len(str(refused.value)) <= 256


@pytest.mark.parametrize("text", RIGHT)
def test_what_names_a_member(text: str) -> None:
    assert is_address(text)
    assert member_problem(text) is None
    assert load(joined(text)).join_members == (text,)
    assert parse_member_list(text) == [text]


@pytest.mark.parametrize("text", ["", "${NONE:}"])
def test_an_empty_item_is_refused(text: str) -> None:
    assert problems(joined("a", text)) == [f"{LIST}[1]: must not be empty"]


def test_no_message_holds_a_part_of_the_text() -> None:
    for text in (
        "nats://u:hidden@hidden:1",
        "hidden hidden",
        "hidden-",
        "[hidden",
        "hidden:hidden",
    ):
        assert "hidden" not in str(member_problem(text))


def test_several_in_one_text_are_separated_by_commas() -> None:
    found = load(joined("a, b:1", members="c,d ,\te"))
    assert found.join_members == ("a", "b:1", "c", "d", "e")
    assert found.cluster is not None
    assert [host for host, _ in found.cluster.members] == ["a", "b", "c", "d", "e"]
    assert load(joined(members="a,b")).cluster is not None
    assert problems(joined("a", members="a")) == [f"{MEMBERS}: is the same member as {LIST}[0]"]
    assert problems(joined("a,,b")) == [f"{LIST}[0]: lacks an address beside a comma"]
    assert problems(joined("a", members=",b")) == [f"{MEMBERS}: lacks an address beside a comma"]
    assert problems(joined(members="a,b,10.0.0.1-3")) == [f"{MEMBERS}: {RANGE}"]
    assert problems(joined(*(f"a{n},b{n}" for n in range(129)))) == [
        f"{LIST}: must have at most 256 addresses"
    ]


@pytest.mark.parametrize("variable", ["GRID_MEMBER_NETWORK_JOIN_TCPIP_MEMBERS"])
def test_one_variable_lists_all_members(variable: str) -> None:
    tree: dict[str, Any] = {"network": {"join": {"tcp-ip": {"enabled": True}}}}
    found = config_from(tree, {variable: "10.0.0.1,10.0.0.2:5714,[::1]"})
    assert found.join_members == ("10.0.0.1", "10.0.0.2:5714", "[::1]")


YAML = "grid: {network: {join: {tcp-ip: {enabled: true, member-list: [127.0.0.1-3]}}}}"
XML = (
    '<grid xmlns="urn:grid:config:1"><network><join><tcp-ip enabled="true">'
    "<member>192.168.1.0-7</member></tcp-ip></join></network></grid>"
)


@pytest.mark.parametrize(("name", "text"), [("grid.yaml", YAML), ("grid.xml", XML)])
def test_a_member_does_not_start_with_a_range(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(text)
    for words in (["--config", str(file)], ["config", "check", str(file)]):
        assert main(words) == EXIT_CONFIG
        assert f"{LIST}[0]: {RANGE}" in capsys.readouterr().err
