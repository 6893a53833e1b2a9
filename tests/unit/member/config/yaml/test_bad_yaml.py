"""YAML that cannot be used, with the exact places of what is wrong."""

from __future__ import annotations

import re

import pytest

from tests.unit.member.config.refusals import problems

LEFT_OVER = (
    "holds ${ that is no whole ${NAME} or ${NAME:default}, or is inside of one: "
    "put a text with ${ into a variable"
)
ADDRESS = "must be an address: host, host:port, [IPv6] or [IPv6]:port"
CONTROL = "f:1:14: map.'a\\x00': the name must not hold control characters"
ANCHORS = "anchors and aliases are not allowed, quote a text that begins with & or *"
BAD = [
    ("", ["f:1:1: the top element must be grid:"]),
    ("hello", ["f:1:1: the top element must be grid:"]),
    ("- grid", ["f:1:1: the top element must be grid:"]),
    ("grid: {}\nother: 1", ["f:2:1: other: unknown element beside grid"]),
    ("grid: [1]", ["f:1:7: must hold further elements, not a value"]),
    ("grid: 5", ["f:1:7: must hold further elements, not a value"]),
    ("grid: {a", ["f:1:9: not YAML: expected ',' or '}', but got '<stream end>'"]),
    ("grid:\n\tx: 1", ["f:2:1: not YAML: found character '\\t' that cannot start any token"]),
    ("grid: {}\n---\ngrid: {}", ["f:2:1: one document is allowed"]),
    (
        "grid:\n  map: &m {a: {}}\n  queue: *m",
        [f"f:2:8: {ANCHORS}", f"f:3:10: {ANCHORS}"],
    ),
    (
        "grid:\n  cluster-name: a\n  cluster-name: b",
        ["f:3:3: cluster-name: is there twice, first in line 2"],
    ),
    (
        "grid:\n  cluster-name: !x a",
        ["f:2:17: cluster-name: tags are not allowed, quote a text that begins with !"],
    ),
    ("grid:\n  ? [a]\n  : b", ["f:2:5: a name must be a plain word"]),
    (
        "grid:\n  cluster-nam: a",
        ["f:2:3: cluster-nam: unknown element, perhaps cluster-name is meant"],
    ),
    ("grid: {cluster-name: ''}", ["f:1:8: cluster-name: must not be empty"]),
    ("grid: {cluster-name: [a]}", ["f:1:8: cluster-name: must be one value (string)"]),
    ("grid: {cluster-name: a&b}", ["f:1:8: cluster-name: must not contain &"]),
    (
        "grid:\n  network:\n    port:\n      port: 65536",
        ["f:4:7: network.port.port: must be from 0 to 65535"],
    ),
    ("grid: {network: {port: {port: 1.5}}}", ["f:1:25: network.port.port: must be an integer"]),
    (
        "grid: {network: {rest-api: {enabled: yes}}}",
        ["f:1:29: network.rest-api.enabled: must be true or false"],
    ),
    (
        "grid: {network: {rest-api: {endpoint-groups: {DATE: {enabled: true}}}}}",
        [
            "f:1:47: network.rest-api.endpoint-groups.DATE: unknown endpoint group; known are "
            "CLUSTER_READ, CLUSTER_WRITE, HEALTH_CHECK, PERSISTENCE, WAN, DATA, CP"
        ],
    ),
    (
        "grid: {network: {interfaces: {interfaces: a}}}",
        ["f:1:31: network.interfaces.interfaces: must be a list"],
    ),
    (
        "grid: {network: {interfaces: {enabled: true, interfaces: [a]}}}",
        ["f:1:59: network.interfaces.interfaces[0]: must be an IP address or * for any"],
    ),
    (
        "grid: {network: {interfaces: {enabled: true}}}",
        ["f:1:18: network.interfaces: is enabled and lists no interface"],
    ),
    (
        "grid: {network: {management: {enabled: true}}}",
        ["f:1:18: network.management: needs a realm: the name of one of security.realms"],
    ),
    (
        "grid: {network: {management: {enabled: true, realm: r}}}",
        ["f:1:46: network.management.realm: no realm of this name in security.realms"],
    ),
    (
        "grid:\n  network: {management: {enabled: true, realm: r}}\n"
        "  security: {realms: [{name: r}]}",
        [
            "f:3:23: security.realms[0].authentication.simple.users: the realm has no user "
            "who could authenticate"
        ],
    ),
    (
        "grid: {map: {a: {backup-count: 4, async-backup-count: 3}}}",
        ["f:1:14: map.a: has more than 6 backups, both counts together"],
    ),
    ("grid: {map: {a*b*: {}}}", ["f:1:14: map.a*b*: may hold one * only"]),
    (
        "grid: {map: {ab*: {}, '*ba': {}}}",
        ["f:1:23: map.*ba: matches names that ab* matches as well"],
    ),
    (
        "grid: {map: {a: {data-persistence: {enabled: true}}}}",
        ["f:1:37: map.a.data-persistence.enabled: needs persistence.enabled, which is off"],
    ),
    (
        "grid: {cluster-name: '${NOBODY}'}",
        ["f:1:8: cluster-name: the environment variable NOBODY is not set"],
    ),
    ("\ufeffgrid: 5", ["f:1:7: must hold further elements, not a value"]),
    ("grid:\n {}\x00", ["f:2:4: not YAML: a control character"]),
    (
        "grid: {cluster-name: '${}'}",
        ["f:1:8: cluster-name: ${} must name an environment variable"],
    ),
    *(
        (f"grid: {{cluster-name: '{text}'}}", [f"f:1:8: cluster-name: {LEFT_OVER}"])
        for text in ("${A:${B}}", "${${A}}", "/x/${A", "${", "${A${B}", "${A:b}${B", "a$${b")
    ),
    (
        "grid: {network: {public-address: 'a:b:c:notaport  x'}}",
        [f"f:1:18: network.public-address: {ADDRESS}"],
    ),
    (
        "grid: {advanced-network: {rest-server-socket-endpoint-config: {public-address: a b}}}",
        [f"f:1:64: advanced-network.rest-server-socket-endpoint-config.public-address: {ADDRESS}"],
    ),
    ('grid: {cluster-name: "a\\0"}', ["f:1:8: cluster-name: must not hold control characters"]),
    ('grid: {map: {"a\\0": {}}}', [CONTROL]),
    ("grid: {map: {'': {}}}", ["f:1:14: map.: the name must not be empty"]),
    ("grid: {map: [a]}", ["f:1:8: map: must hold further elements, not a value"]),
    (
        "grid:\n  map: {a: {x: 1}}\n  map: {}\n  cluster-nam: b\n---",
        ["f:5:1: one document is allowed"],
    ),
    (
        "grid:\n  map: {a: {backup-coun: 1}}\n  map: {}\n  cluster-nam: b\nother: 1",
        [
            "f:2:13: map.a.backup-coun: unknown element, perhaps backup-count is meant",
            "f:3:3: map: is there twice, first in line 2",
            "f:4:3: cluster-nam: unknown element, perhaps cluster-name is meant",
            "f:5:1: other: unknown element beside grid",
        ],
    ),
    (
        "grid: {cp-subsystem: {cp-member-count: 2, group-size: 3}}",
        [
            "f:1:23: cp-subsystem.cp-member-count: must be 0 or at least 3",
            "f:1:43: cp-subsystem.group-size: is not supported yet: leave it out",
        ],
    ),
    (
        "grid: {advanced-network: {join: {tcp-ip: {member-list: [a, 'b c']}}}}",
        [
            "f:1:60: advanced-network.join.tcp-ip.member-list[1]: holds spaces: write the "
            "address of each member as an item of its own"
        ],
    ),
    (
        "grid: {logging: {level: loud}}",
        ["f:1:18: logging.level: must be one of debug, info, warning, error"],
    ),
    (
        "grid:\n  x: 1\n  network: {join: {aws: {}}}\n  map: {a: {time-to-live-seconds: -1}}",
        [
            "f:2:3: x: unknown element; known are " + "KNOWN",
            "f:3:20: network.join.aws: is not supported yet: list the members in "
            "join.tcp-ip.member-list",
            "f:4:13: map.a.time-to-live-seconds: must be from 0 to 2147483647",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), BAD, ids=[repr(text[:50]) for text, _ in BAD])
def test_what_is_wrong_and_where(text: str, expected: list[str]) -> None:
    found = [re.sub(r"known are cluster-name.*", "known are KNOWN", p) for p in problems(text)]
    assert found == expected


def test_too_deep_and_too_long() -> None:
    assert "nested too deep" in problems("grid: " + "[" * 5000)[0]
    assert "longer than 1 MiB" in problems("grid: " + " " * (1 << 20))[0]
    assert problems("grid: {cluster-name: " + "a" * 4097 + "}") == [
        "f:1:8: cluster-name: must have at most 4096 characters"
    ]


PASSWORDS = ["!hunter2", "!hunter!2", "@hunter2", "%hunter2", "`hunter2", '"\\hunter2"', "*hunter2"]
PASSWORDS += [
    "&hunter2 a",
    "'hunter2",
    "[hunter2",
    "{hunter2: [",
    "hunter2: hunter2: a",
    "\thunter2",
]
PASSWORDS += ["|hunter2", ">hunter2", "a: !!hunter2", '"hunter2" hunter2', "? hunter2\n  hunter2"]


@pytest.mark.parametrize("password", PASSWORDS)
def test_no_message_shows_a_value(password: str) -> None:
    realm = f"{{name: r, authentication: {{simple: {{users: [{{password: {password}}}]}}}}}}"
    found = problems(f"grid:\n  security:\n    realms:\n      - {realm}")
    found += problems(f"grid:\n  cluster-name: {password}\n  x: 1")
    assert found
    assert not [
        problem for problem in found if re.search("hunter|[@%`]|escape character '", problem)
    ]
