"""The ways in which the members under test are configured, as a user would write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.unit.member.conformance.language import Role

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.security.certificates import Pair


@dataclass(frozen=True, slots=True)
class Setup:
    """One way."""

    syntax: str
    network: str
    security: bool = False
    tls: bool = False
    """On both listeners."""

    def __str__(self) -> str:
        more = [name for name in ("security", "tls") if getattr(self, name)]
        return "+".join([self.syntax, self.network, *more])


SETUPS = (
    Setup("yaml", "network"),
    Setup("yaml", "advanced-network"),
    Setup("xml", "network"),
    Setup("xml", "advanced-network"),
    Setup("yaml", "network", security=True),
    Setup("yaml", "network", tls=True),
    Setup("xml", "advanced-network", security=True, tls=True),
)
"""Every pair of two choices is in one of them: all sixteen together would show nothing more, as
syntax and network are over when the member is configured."""


@dataclass(frozen=True, slots=True)
class Place:
    """What files a member has."""

    directory: Path
    """For its data and its backups."""
    pair: Pair
    """What it speaks TLS with."""


GROUPS = {
    Role.OPEN: (
        *("DATA", "CLUSTER_READ", "CLUSTER_WRITE", "HEALTH_CHECK", "PERSISTENCE", "WAN"),
        "CP",
    ),
    Role.DEFAULTS: (),
    Role.STRICT: ("DATA", "CP"),
    Role.WRITER: ("CLUSTER_WRITE", "PERSISTENCE", "WAN"),
}
for _role in (Role.OWN, Role.CHANGED, Role.DURABLE, Role.PROTECTED):
    GROUPS[_role] = GROUPS[Role.OPEN]
OFF = {Role.STRICT: ("CLUSTER_READ", "HEALTH_CHECK"), Role.WRITER: ("CLUSTER_READ", "HEALTH_CHECK")}

YAML = """
grid:
  cluster-name: dev
  instance-name: tester
{cp}
{persistence}
{network}
  security:
{security}
    realms:
      - name: ops
        authentication:
          simple:
            users:
              - username: op
                password: s3cret
      - name: members
        authentication: {{simple: {{users: [{{username: ada, password: "p&w:\u00fc+%"}}]}}}}
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
{ssl}
    rest-api:
      enabled: true
      endpoint-groups: {{{groups}}}
    management:
      enabled: true
      port: {{port: 0}}
      realm: ops
  {ssl}
"""

YAML_ADVANCED = """
  advanced-network:
    enabled: true
{join}
    rest-server-socket-endpoint-config:
      port: {{port: 0}}
      interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
      endpoint-groups: {{{groups}}}
  {ssl}
    management-server-socket-endpoint-config:
      port: {{port: 0}}
      interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
      realm: ops
  {ssl}
"""

XML = """<?xml version="1.0" encoding="UTF-8"?>
<grid xmlns="urn:grid:config:1">
  <cluster-name>dev</cluster-name>
  <instance-name>tester</instance-name>
  {cp}
  {persistence}
{network}
  <security{security}
    <realms>
      <realm name="ops">
        <authentication>
          <simple>
            <user username="op" password="s3cret"/>
          </simple>
        </authentication>
      </realm>
      <realm name="members">
        <authentication>
          <simple><user username="ada" password="p&amp;w:ü+%"/></simple>
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
    {ssl}
    {join}
    <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
    <rest-api enabled="true">{groups}</rest-api>
    <management enabled="true">
      <port>0</port>
      <realm>ops</realm>
      {ssl}
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
      {ssl}
    </rest-server-socket-endpoint-config>
    <management-server-socket-endpoint-config>
      <port>0</port>
      <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
      <realm>ops</realm>
      {ssl}
    </management-server-socket-endpoint-config>
  </advanced-network>
"""


YAML_JOIN = "    join: {tcp-ip: {enabled: true, member-list: ['a:5701', b]}}"
XML_JOIN = '<join><tcp-ip enabled="true"><member>a:5701</member><member>b</member></tcp-ip></join>'
YAML_CP = "  cp-subsystem: {cp-member-count: 3}"
XML_CP = "<cp-subsystem><cp-member-count>3</cp-member-count></cp-subsystem>"
YAML_STORE = "  persistence: {{enabled: true, base-dir: {0}/data, backup-dir: {0}/backups}}"
XML_STORE = (
    '<persistence enabled="true" base-dir="{0}/data"><backup-dir>{0}/backups</backup-dir>'
    "</persistence>"
)
YAML_SECURITY = "    enabled: true\n    member-authentication: {realm: members}"
XML_SECURITY = ' enabled="true"><member-authentication realm="members"/>'
YAML_SSL = "    ssl: {{enabled: true, certificate-file: {0}, key-file: {1}}}"
XML_SSL = (
    '<ssl enabled="true"><certificate-file>{0}</certificate-file><key-file>{1}</key-file></ssl>'
)
YAML_PROTECTED = """
    rest:
      protected:
        - DATA
        - HEALTH_CHECK
        - /grid/rest/log-level
        - /grid/rest/cp-subsystem/groups
"""
XML_PROTECTED = (
    "<rest><protected><endpoint>DATA</endpoint><endpoint>HEALTH_CHECK</endpoint>"
    "<endpoint>/grid/rest/log-level</endpoint>"
    "<endpoint>/grid/rest/cp-subsystem/groups</endpoint></protected></rest>"
)
WHOLE = (Role.OPEN, Role.CHANGED, Role.OWN, Role.DURABLE, Role.PROTECTED)
"""The members with CP and TCP/IP join."""

REST = {
    ("yaml", "network"): (r"(?<=rest-api:\n)      enabled: true\n", ""),
    ("xml", "network"): (r'<rest-api enabled="true">', "<rest-api>"),
    ("yaml", "advanced-network"): (r"    rest-server-socket-endpoint-config:\n(      .*\n)+", ""),
    ("xml", "advanced-network"): (r"(?s)<rest-server-.*</rest-server-socket-endpoint-config>", ""),
}
"""What turns the REST service on, and what leaves it as it is by default."""


def configuration(role: Role, setup: Setup, place: Place) -> str:
    """Return the text of the configuration file of a member."""
    if role is Role.DISABLED:
        rest, instead = REST[setup.syntax, setup.network]
        return re.sub(rest, instead, _with_rest(Role.OPEN, setup, place), count=1)
    return _with_rest(role, setup, place)


def _with_rest(role: Role, setup: Setup, place: Place) -> str:
    whole, default, stored = role in WHOLE, role is not Role.STRICT, role is Role.DURABLE
    asks = role is Role.PROTECTED
    files = (place.pair.certificate, place.pair.key)
    switches = [(g, "true") for g in GROUPS[role]] + [(g, "false") for g in OFF.get(role, ())]
    if setup.syntax == "yaml":
        part = YAML_NETWORK if setup.network == "network" else YAML_ADVANCED
        groups = ", ".join(f"{name}: {{enabled: {on}}}" for name, on in switches)
        ssl = YAML_SSL.format(*files) if setup.tls else ""
        return YAML.format(
            network=part.format(groups=groups, join=YAML_JOIN if whole else "", ssl=ssl),
            cp=YAML_CP if whole else "",
            persistence=YAML_STORE.format(place.directory) if stored else "",
            security=(YAML_SECURITY if setup.security else "") + (YAML_PROTECTED if asks else ""),
            default_map="    default: {}" if default else "",
            default_queue="    default: {}" if default else "",
        )
    part = XML_NETWORK if setup.network == "network" else XML_ADVANCED
    groups = "".join(f'<endpoint-group name="{name}" enabled="{on}"/>' for name, on in switches)
    ssl = XML_SSL.format(*files) if setup.tls else ""
    return XML.format(
        network=part.format(groups=groups, join=XML_JOIN if whole else "", ssl=ssl),
        cp=XML_CP if whole else "",
        persistence=XML_STORE.format(place.directory) if stored else "",
        security=(XML_SECURITY if setup.security else ">") + (XML_PROTECTED if asks else ""),
        default_map='  <map name="default"/>' if default else "",
        default_queue='  <queue name="default"/>' if default else "",
    )
