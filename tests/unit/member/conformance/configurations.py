"""The four ways in which the members under test are configured, as a user would write them."""

from __future__ import annotations

import re

from tests.unit.member.conformance.language import Role

SYNTAXES = ("yaml", "xml")
NETWORKS = ("network", "advanced-network")

GROUPS = {
    Role.OPEN: (
        *("DATA", "CLUSTER_READ", "CLUSTER_WRITE", "HEALTH_CHECK", "PERSISTENCE", "WAN"),
        "CP",
    ),
    Role.DEFAULTS: (),
    Role.STRICT: ("DATA", "CP"),
    Role.WRITER: ("CLUSTER_WRITE", "PERSISTENCE", "WAN"),
}
GROUPS[Role.OWN] = GROUPS[Role.CHANGED] = GROUPS[Role.OPEN]
OFF = {Role.STRICT: ("CLUSTER_READ", "HEALTH_CHECK"), Role.WRITER: ("CLUSTER_READ", "HEALTH_CHECK")}

YAML = """
grid:
  cluster-name: dev
  instance-name: tester
{cp}
{network}
  security:
    realms:
      - name: ops
        authentication:
          simple:
            users:
              - username: op
                password: s3cret
  map:
{default_map}
    exact: {{}}
    short*: {{time-to-live-seconds: 1}}
    idle*: {{max-idle-seconds: 2}}
    lru*: {{eviction: {{eviction-policy: LRU, max-size-policy: PER_NODE, size: 2}}}}
    lruexact: {{eviction: {{eviction-policy: LRU, max-size-policy: PER_NODE, size: 1}}}}
  queue:
{default_queue}
    jobs: {{max-size: 1}}
    jo*: {{max-size: 2}}
  logging: {{format: json}}
"""

YAML_NETWORK = """
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
{join}
    rest-api:
      enabled: true
      endpoint-groups: {{{groups}}}
    management: {{enabled: true, port: {{port: 0}}, realm: ops}}
"""

YAML_ADVANCED = """
  advanced-network:
    enabled: true
{join}
    rest-server-socket-endpoint-config:
      port: {{port: 0}}
      interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
      endpoint-groups: {{{groups}}}
    management-server-socket-endpoint-config:
      port: {{port: 0}}
      interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
      realm: ops
"""

XML = """<?xml version="1.0" encoding="UTF-8"?>
<grid xmlns="urn:grid:config:1">
  <cluster-name>dev</cluster-name>
  <instance-name>tester</instance-name>
  {cp}
{network}
  <security>
    <realms>
      <realm name="ops">
        <authentication>
          <simple>
            <user username="op" password="s3cret"/>
          </simple>
        </authentication>
      </realm>
    </realms>
  </security>
{default_map}
  <map name="exact"/>
  <map name="short*"><time-to-live-seconds>1</time-to-live-seconds></map>
  <map name="idle*"><max-idle-seconds>2</max-idle-seconds></map>
  <map name="lru*"><eviction eviction-policy="LRU" max-size-policy="PER_NODE" size="2"/></map>
  <map name="lruexact"><eviction eviction-policy="LRU" max-size-policy="PER_NODE" size="1"/></map>
{default_queue}
  <queue name="jobs"><max-size>1</max-size></queue>
  <queue name="jo*"><max-size>2</max-size></queue>
  <logging><format>json</format></logging>
</grid>
"""

XML_NETWORK = """
  <network>
    <port>0</port>
    {join}
    <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
    <rest-api enabled="true">{groups}</rest-api>
    <management enabled="true">
      <port>0</port>
      <realm>ops</realm>
    </management>
  </network>
"""

XML_ADVANCED = """
  <advanced-network enabled="true">
    {join}
    <rest-server-socket-endpoint-config>
      <port>0</port>
      <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
      <endpoint-groups>{groups}</endpoint-groups>
    </rest-server-socket-endpoint-config>
    <management-server-socket-endpoint-config>
      <port>0</port>
      <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
      <realm>ops</realm>
    </management-server-socket-endpoint-config>
  </advanced-network>
"""


YAML_JOIN = "    join: {tcp-ip: {enabled: true, member-list: ['a:5701', b]}}"
XML_JOIN = '<join><tcp-ip enabled="true"><member>a:5701</member><member>b</member></tcp-ip></join>'
YAML_CP = "  cp-subsystem: {cp-member-count: 3}"
XML_CP = "<cp-subsystem><cp-member-count>3</cp-member-count></cp-subsystem>"
WHOLE = (Role.OPEN, Role.CHANGED, Role.OWN)
"""The members with CP and TCP/IP join."""

REST = {
    ("yaml", "network"): (r"(?<=rest-api:\n)      enabled: true\n", ""),
    ("xml", "network"): (r'<rest-api enabled="true">', "<rest-api>"),
    ("yaml", "advanced-network"): (r"    rest-server-socket-endpoint-config:\n(      .*\n)+", ""),
    ("xml", "advanced-network"): (r"(?s)<rest-server-.*</rest-server-socket-endpoint-config>", ""),
}
"""What turns the REST service on, and what leaves it as it is by default."""


def configuration(role: Role, syntax: str, network: str) -> str:
    """Return the text of the configuration file of a member."""
    if role is Role.DISABLED:
        rest, instead = REST[syntax, network]
        return re.sub(rest, instead, _with_rest(Role.OPEN, syntax, network), count=1)
    return _with_rest(role, syntax, network)


def _with_rest(role: Role, syntax: str, network: str) -> str:
    switches = [(g, "true") for g in GROUPS[role]] + [(g, "false") for g in OFF.get(role, ())]
    default = role is not Role.STRICT
    if syntax == "yaml":
        part = YAML_NETWORK if network == "network" else YAML_ADVANCED
        groups = ", ".join(f"{name}: {{enabled: {on}}}" for name, on in switches)
        defaults = "    default: {}" if default else ""
        return YAML.format(
            network=part.format(groups=groups, join=YAML_JOIN if role in WHOLE else ""),
            cp=YAML_CP if role in WHOLE else "",
            default_map=defaults,
            default_queue=defaults,
        )
    part = XML_NETWORK if network == "network" else XML_ADVANCED
    groups = "".join(f'<endpoint-group name="{name}" enabled="{on}"/>' for name, on in switches)
    return XML.format(
        network=part.format(groups=groups, join=XML_JOIN if role in WHOLE else ""),
        cp=XML_CP if role in WHOLE else "",
        default_map='  <map name="default"/>' if default else "",
        default_queue='  <queue name="default"/>' if default else "",
    )
