"""Converting a configuration from one syntax to the other."""

from __future__ import annotations

import pytest

from grid_member.config import ConfigError
from grid_member.config.convert import Syntax, convert

YAML = """\
grid:
  cluster-name: ${NAME:prod}
  instance-name: ' one '
  network:
    port:
      port: ${PORT}
      auto-increment: false
    interfaces:
      enabled: true
      interfaces:
      - ${BIND:*}
    rest-api:
      enabled: true
      endpoint-groups:
        DATA:
          enabled: true
    management:
      enabled: true
      realm: ops
  advanced-network:
    enabled: false
    rest-server-socket-endpoint-config:
      endpoint-groups:
        CP:
          enabled: true
  security:
    realms:
    - name: ops
      authentication:
        simple:
          users:
          - username: "null"
            password: ${SECRET}
  map:
    default: {}
    a<b&"c*:
      eviction:
        eviction-policy: LRU
        size: 5
      data-persistence:
        enabled: true
        fsync: false
  persistence:
    enabled: true
    base-dir: /data
"""
XML = """\
<?xml version="1.0" encoding="UTF-8"?>
<grid xmlns="urn:grid:config:1" instance-name=" one ">
  <cluster-name>${NAME:prod}</cluster-name>
  <network>
    <port auto-increment="false">${PORT}</port>
    <interfaces enabled="true">
      <interface>${BIND:*}</interface>
    </interfaces>
    <rest-api enabled="true">
      <endpoint-group name="DATA" enabled="true"/>
    </rest-api>
    <management enabled="true">
      <realm>ops</realm>
    </management>
  </network>
  <advanced-network enabled="false">
    <rest-server-socket-endpoint-config>
      <endpoint-groups>
        <endpoint-group name="CP" enabled="true"/>
      </endpoint-groups>
    </rest-server-socket-endpoint-config>
  </advanced-network>
  <security>
    <realms>
      <realm name="ops">
        <authentication>
          <simple>
            <user username="null" password="${SECRET}"/>
          </simple>
        </authentication>
      </realm>
    </realms>
  </security>
  <map name="default"/>
  <map name="a&lt;b&amp;&quot;c*">
    <eviction eviction-policy="LRU" size="5"/>
    <data-persistence enabled="true">
      <fsync>false</fsync>
    </data-persistence>
  </map>
  <persistence enabled="true">
    <base-dir>/data</base-dir>
  </persistence>
</grid>
"""


def test_yaml_to_xml() -> None:
    assert convert(YAML, "f", "xml") == XML


def test_xml_to_yaml() -> None:
    # Attributes come before elements, whatever the order was.
    lines = YAML.replace('"null"', "'null'").splitlines(keepends=True)
    lines[1], lines[2] = lines[2], lines[1]
    assert convert(XML, "f", "yaml") == "".join(lines)


@pytest.mark.parametrize("text", [YAML, XML], ids=["yaml", "xml"])
@pytest.mark.parametrize("to", ["yaml", "xml"])
def test_converting_twice_changes_nothing_more(text: str, to: Syntax) -> None:
    once = convert(text, "f", to)
    assert convert(once, "f", to) == once


def test_unusual_forms_become_the_usual_ones() -> None:
    unusual = (
        '<grid xmlns="urn:grid:config:1"><network><port><auto-increment>true</auto-increment>'
        "<port>1</port></port><rest-api><enabled>true</enabled><endpoint-groups><endpoint-group>"
        "<name>WAN</name><enabled>true</enabled></endpoint-group></endpoint-groups></rest-api>"
        '</network><queue max-size="5" name="q"/></grid>'
    )
    assert convert(unusual, "f", "xml").splitlines()[2:-1] == [
        "  <network>",
        '    <port auto-increment="true">1</port>',
        '    <rest-api enabled="true">',
        '      <endpoint-group name="WAN" enabled="true"/>',
        "    </rest-api>",
        "  </network>",
        '  <queue name="q">',
        "    <max-size>5</max-size>",
        "  </queue>",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grid: {x: 1}", "f:1:8: x: unknown element"),
        ("grid: {network: {port: {port: 70000}}}", "f:1:25: network.port.port: must be from"),
        ("grid: {map: {}, map: {}}", "f:1:17: map: is there twice, first in line 1"),
        ("<grid/>", "f:1:1: the namespace must be"),
        (
            "grid: {network: {interfaces: {interfaces: [' ::1']}}}",
            "f:1:44: network.interfaces.interfaces[0]: has spaces at its ends",
        ),
    ],
)
def test_what_is_no_configuration_is_not_converted(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(text, "f", "xml")
    assert str(caught.value).startswith(expected)


def test_contradictions_may_hang_on_variables_and_are_left_to_the_check() -> None:
    assert "needs" not in convert("grid: {network: {management: {enabled: true}}}", "f", "xml")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("5", "5"),
        ("'5'", "5"),
        ("05", "'05'"),
        ("+5", "'+5'"),
        ("${N}", "${N}"),
        ("' 5 '", "' 5 '"),
    ],
)
def test_numbers_are_written_so_that_other_readers_agree(written: str, expected: str) -> None:
    limits = f"grid:\n  limits:\n    name-bytes: {written}\n"
    assert convert(limits, "f", "yaml") == f"grid:\n  limits:\n    name-bytes: {expected}\n"
