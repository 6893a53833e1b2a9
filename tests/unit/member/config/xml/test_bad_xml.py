"""XML that cannot be used, with the exact places of what is wrong."""

from __future__ import annotations

import re

import pytest

from tests.unit.member.config import refusals

NS = "urn:grid:config:1"
TOP = f'<grid xmlns="{NS}">'
DOCTYPE = "a document type declaration (DOCTYPE) is not allowed"
LAUGHS = (
    '<!DOCTYPE grid [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
)


def problems(text: str) -> list[str]:
    return [problem.removeprefix("f.xml:") for problem in refusals.problems(text, "f.xml")]


WHOLE = [
    ("", ["1:1: not XML: no element found"]),
    ("grid:", ["1:1: not XML: unclosed token"]),
    ("<grid/>", [f"1:1: the namespace must be {NS}: write {TOP}"]),
    ('<grid xmlns="urn:grid:config:2"/>', [f"1:1: the namespace must be {NS}: write {TOP}"]),
    (f'\n <member xmlns="{NS}"/>', [f"2:2: the top element must be {TOP}"]),
    (TOP, [f"1:{len(TOP) + 1}: not XML: no element found"]),
    (f"{TOP}</gri>", ["1:35: not XML: mismatched tag"]),
    (f"{TOP}</grid><grid/>", ["1:40: not XML: junk after document element"]),
    (f"{TOP}<a x='1' x='2'/></grid>", ["1:42: not XML: duplicate attribute"]),
    (f"{TOP}<x:a/></grid>", ["1:33: not XML: unbound prefix"]),
    (f"{TOP}&nbsp;</grid>", ["1:33: not XML: undefined entity"]),
    (f"{TOP}\x00</grid>", ["1:33: not XML: not well-formed (invalid token)"]),
    (f"{TOP}\x01</grid>", ["1:33: not XML: not well-formed (invalid token)"]),
    (f"{TOP}&#1;</grid>", ["1:33: not XML: reference to invalid character number"]),
    (f"{TOP}\ud800</grid>", ["1:33: not XML: not well-formed (invalid token)"]),
    (f"<!DOCTYPE grid>{TOP}</grid>", [f"1:1: {DOCTYPE}"]),
    (f"<!-- é -->\n <!DOCTYPE grid>{TOP}</grid>", [f"2:2: {DOCTYPE}"]),
    (f'<!DOCTYPE grid SYSTEM "file:///etc/passwd">{TOP}</grid>', [f"1:1: {DOCTYPE}"]),
    (f'<!DOCTYPE grid [<!ENTITY a SYSTEM "x">]>{TOP}&a;</grid>', [f"1:1: {DOCTYPE}"]),
    (f"{LAUGHS}{TOP}<cluster-name>&i;</cluster-name></grid>", [f"1:1: {DOCTYPE}"]),
    (
        f'<?xml version="1.0" encoding="ISO-8859-1"?>{TOP}</grid>',
        ["1:1: the encoding must be UTF-8"],
    ),
    (f'<?xml version="1.0" encoding="UTF-16"?>{TOP}</grid>', ["1:1: the encoding must be UTF-8"]),
    (f"{TOP}{'<map>' * 40}", ["1:188: nested too deep"]),
    (f"<?a b?>{TOP}</grid>", ["1:1: processing instructions are not allowed"]),
]


@pytest.mark.parametrize(("text", "expected"), WHOLE, ids=[repr(text[:60]) for text, _ in WHOLE])
def test_no_document(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


# What stands in line 2 of a document, within <grid>; the places are those of that line.
INSIDE = [
    ("<cluster-nam/>", ["1: cluster-nam: unknown element, perhaps cluster-name is meant"]),
    ("<cluster-name/>", ["1: cluster-name: must not be empty"]),
    ("<cluster-name> </cluster-name>", ["1: cluster-name: must not be empty"]),
    ("<cluster-name>a&amp;b</cluster-name>", ["1: cluster-name: must not contain &"]),
    ("<cluster-name><a/></cluster-name>", ["1: cluster-name: must be one value (string)"]),
    ('<cluster-name a="b">c</cluster-name>', ["1: cluster-name: must be one value (string)"]),
    (
        "<cluster-name>a</cluster-name><cluster-name>b</cluster-name>",
        ["31: cluster-name: is there twice, first in line 2"],
    ),
    ("<network>text</network>", ["1: network: must hold further elements, not a value"]),
    (
        '<network><port port-count="3">x<auto-increment>true</auto-increment></port></network>',
        ["10: network.port.port: must be an integer"],
    ),
    (
        '<network><port  port-count = "0"\n  auto-increment="no">70000</port></network>',
        [
            "10: network.port.port: must be from 0 to 65535",
            "17: network.port.port-count: must be from 1 to 65535",
            "+3: network.port.auto-increment: must be true or false",
        ],
    ),
    (
        "<network><port>1<port>2</port></port></network>",
        ["17: network.port.port: is there twice, first in line 2"],
    ),
    (
        '<persistence enabled="true"><enabled>true</enabled></persistence>',
        ["29: persistence.enabled: is there twice, first in line 2"],
    ),
    ("<network/><network/>", ["11: network: is there twice, first in line 2"]),
    (
        "<network><interfaces/>mixed</network>",
        ["1: network: text is not allowed beside elements"],
    ),
    ("<map/>", ["1: map: every map needs a name"]),
    ("<map name=''/>", ["1: map.: the name must not be empty"]),
    ("<map name='a'><name>b</name></map>", ["15: map.a.name: is there twice, first in line 2"]),
    ("<map name='a'/><map name='a'/>", ["16: map.a: is there twice, first in line 2"]),
    ("<map name='a'>b</map>", ["1: map.a: text is not allowed beside elements"]),
    ("<map name='a' backup-count='7'/>", ["15: map.a.backup-count: must be from 0 to 6"]),
    (
        "<map name='a'><eviction eviction-policy='LRU'/></map>",
        ["15: map.a.eviction: needs a size beside its eviction-policy"],
    ),
    (
        "<security><realms>x</realms></security>",
        ["11: security.realms: must hold realm elements, not text"],
    ),
    (
        "<security><realms x='1'><user/></realms></security>",
        [
            "19: security.realms.x: unknown attribute",
            "25: security.realms.user: unknown element, only realm is allowed here",
        ],
    ),
    ("<security realms='x'/>", ["11: security.realms: must be a list"]),
    (
        "<network><rest-api><endpoint-groups/><endpoint-group name='WAN'/></rest-api></network>",
        ["38: network.rest-api.endpoint-groups: is there twice, first in line 2"],
    ),
    (
        "<network><rest-api><endpoint-group name='X' enabled='true'/></rest-api></network>",
        [
            "20: network.rest-api.endpoint-groups.X: unknown endpoint group; known are "
            "CLUSTER_READ, CLUSTER_WRITE, HEALTH_CHECK, PERSISTENCE, WAN, DATA, CP"
        ],
    ),
    (
        "<network><rest-api><endpoint-group enabled='true'/></rest-api></network>",
        ["20: network.rest-api.endpoint-groups: every endpoint-group needs a name"],
    ),
    (
        "<network><interfaces enabled='true'><interface>a</interface></interfaces></network>",
        ["37: network.interfaces.interfaces[0]: must be an IP address or * for any"],
    ),
    (
        "<network><join><multicast enabled='true'/></join></network>",
        [
            "16: network.join.multicast: is not supported yet: list the members in "
            "join.tcp-ip.member-list"
        ],
    ),
    (
        "<network><join><tcp-ip><members>a,b!</members></tcp-ip></join></network>",
        [
            "24: network.join.tcp-ip.members: is neither an IP address nor a host name: write "
            "host, host:port, [IPv6] or [IPv6]:port"
        ],
    ),
    (
        "<network><join><tcp-ip><member>a:0</member><member>b</member></tcp-ip></join></network>",
        [
            "24: network.join.tcp-ip.member-list[0]: must have a port from "
            "1 to 65535, or none, behind the colon"
        ],
    ),
    (
        "<executor-service name='a'/><executor-service name='b'/>",
        ["1: executor-service: is not supported yet: leave it out, members have maps and queues"],
    ),
    ("<a:map xmlns:a='urn:x'><map/></a:map>", ["1: map: is in another namespace than " + NS]),
    (
        "<map xml:space='preserve' name='a'/>",
        ["1: space: is an attribute of another namespace"],
    ),
    ("<map name='a'><?go?></map>", ["15: map: processing instructions are not allowed"]),
    (
        "<cluster-name>${NOBODY}</cluster-name>",
        ["1: cluster-name: the environment variable NOBODY is not set"],
    ),
    (
        "<x/><map name='b'><time-to-live-seconds>-1</time-to-live-seconds></map><logging>"
        "<level>loud</level></logging>",
        [
            "1: x: unknown element; KNOWN",
            "19: map.b.time-to-live-seconds: must be from 0 to 2147483647",
            "81: logging.level: must be one of debug, info, warning, error",
        ],
    ),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(("line", "expected"), INSIDE, ids=[repr(text[:60]) for text, _ in INSIDE])
def test_what_is_wrong_and_where(line: str, expected: list[str], newline: str) -> None:
    text = f"{TOP}\n{line}\n</grid>".replace("\n", newline)
    found = [re.sub(r"; known are cluster-name.*", "; KNOWN", p) for p in problems(text)]
    assert found == [f"3:{e[1:]}" if e[0] == "+" else f"2:{e}" for e in expected]


def test_columns_count_characters() -> None:
    text = f"{TOP}\n<!-- é\U0001f600 --><map name='é\U0001f600' x='1'/></grid>"
    assert problems(text)[0].startswith("2:27: map.é\U0001f600.x: unknown element")


def test_a_byte_order_mark_is_no_character() -> None:
    assert problems(f"\ufeff{TOP}</gri>") == ["1:35: not XML: mismatched tag"]


def test_too_long() -> None:
    assert problems(f"{TOP}{' ' * (1 << 20)}</grid>") == ["1:1: the file is longer than 1 MiB"]
    assert problems(f"{TOP}<cluster-name>{'a' * 4097}</cluster-name></grid>") == [
        "1:33: cluster-name: must have at most 4096 characters"
    ]
