"""The ways in which the members under test are configured, as a user would write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
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
    fast_path: bool = True
    compiled: bool = True
    """Where modules were compiled."""

    def __str__(self) -> str:
        more = [
            name for name in ("security", "tls", "fast_path", "compiled") if getattr(self, name)
        ]
        return "+".join([self.syntax, self.network, *more])


CHOICES = (("yaml", "xml"), ("network", "advanced-network"), (False, True), (False, True))
SETUPS = tuple(
    # The fast path is on in one half. So every three of the choices meet it on and off. Compiled is
    # another half, and half of each.
    Setup(
        *choices,
        fast_path=sum(map(tuple.index, CHOICES, choices)) % 2 == 0,
        compiled=CHOICES[0].index(choices[0]) == CHOICES[2].index(choices[2]),
    )
    for choices in product(*CHOICES)
)
"""Every one there is but for the fast path and what is compiled."""


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
for _role in (Role.OWN, Role.CHANGED, Role.DURABLE, Role.REPLICATED, Role.PROTECTED):
    GROUPS[_role] = GROUPS[Role.OPEN]
OFF = {Role.STRICT: ("CLUSTER_READ", "HEALTH_CHECK"), Role.WRITER: ("CLUSTER_READ", "HEALTH_CHECK")}

YAML = """
grid:
  cluster-name: dev
  instance-name: tester
{fast_path}
{cp}
{persistence}
{wan}
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
      - name: to-london
        identity: {{username-password: {{username: tokyo, password: shown}}}}
      - name: members
        authentication: {{simple: {{users: [{{username: ada, password: "p&w:\u00fc+%"}}]}}}}
  map:
{default_map}
{sent_map}
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
  {fast_path}
  {cp}
  {persistence}
{wan}
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
      <realm name="to-london">
        <identity><username-password username="tokyo" password="shown"/></identity>
      </realm>
      <realm name="members">
        <authentication>
          <simple><user username="ada" password="p&amp;w:ü+%"/></simple>
        </authentication>
      </realm>
    </realms>
  </security>
{default_map}
{sent_map}
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


YAML_JOIN = "    join: {tcp-ip: {enabled: true, member-list: ['a:5701']}}"
XML_JOIN = '<join><tcp-ip enabled="true"><member>a:5701</member></tcp-ip></join>'
YAML_NO_FAST_PATH = "  http: {lane: {enabled: false}}"
XML_NO_FAST_PATH = '<http><lane enabled="false"/></http>'
YAML_CP = "  cp-subsystem: {cp-member-count: 3}"
XML_CP = "<cp-subsystem><cp-member-count>3</cp-member-count></cp-subsystem>"
YAML_STORE = "  persistence: {{enabled: true, base-dir: {0}/data, backup-dir: {0}/backups}}"
XML_STORE = (
    '<persistence enabled="true" base-dir="{0}/data"><backup-dir>{0}/backups</backup-dir>'
    "</persistence>"
)
YAML_WAN = """
  wan-replication:
    r:
      batch-publisher:
        london:
          cluster-name: london
          target-endpoints: 127.0.0.1:1
          realm: to-london
          queue-capacity: 100
          queue-full-behavior: THROW_EXCEPTION
        paris:
          cluster-name: paris
          target-endpoints: 127.0.0.1:1
          realm: to-london
          sync: {consistency-check-strategy: NONE}
"""
YAML_SENT = "    sent: {wan-replication-ref: {r: {}}}"
XML_WAN = """
  <wan-replication name="r">
    <batch-publisher>
      <cluster-name>london</cluster-name>
      <target-endpoints>127.0.0.1:1</target-endpoints>
      <realm>to-london</realm>
      <queue-capacity>100</queue-capacity>
      <queue-full-behavior>THROW_EXCEPTION</queue-full-behavior>
    </batch-publisher>
    <batch-publisher>
      <cluster-name>paris</cluster-name>
      <target-endpoints>127.0.0.1:1</target-endpoints>
      <realm>to-london</realm>
      <sync><consistency-check-strategy>NONE</consistency-check-strategy></sync>
    </batch-publisher>
  </wan-replication>
"""
XML_SENT = '<map name="sent"><wan-replication-ref name="r"/></map>'
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


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one syntax says what the members differ in."""

    document: str
    networks: dict[str, str]
    join: str
    no_fast_path: str
    cp: str
    store: str
    wan: str
    sent: str
    security: dict[bool, str]
    protected: str
    ssl: str
    group: str
    between: str
    """Two groups."""
    default: str


DIALECTS = {
    "yaml": Dialect(
        document=YAML,
        networks={"network": YAML_NETWORK, "advanced-network": YAML_ADVANCED},
        join=YAML_JOIN,
        no_fast_path=YAML_NO_FAST_PATH,
        cp=YAML_CP,
        store=YAML_STORE,
        wan=YAML_WAN,
        sent=YAML_SENT,
        security={True: YAML_SECURITY, False: ""},
        protected=YAML_PROTECTED,
        ssl=YAML_SSL,
        group="{}: {{enabled: {}}}",
        between=", ",
        default="    default: {{}}",
    ),
    "xml": Dialect(
        document=XML,
        networks={"network": XML_NETWORK, "advanced-network": XML_ADVANCED},
        join=XML_JOIN,
        no_fast_path=XML_NO_FAST_PATH,
        cp=XML_CP,
        store=XML_STORE,
        wan=XML_WAN,
        sent=XML_SENT,
        security={True: XML_SECURITY, False: ">"},
        protected=XML_PROTECTED,
        ssl=XML_SSL,
        group='<endpoint-group name="{}" enabled="{}"/>',
        between="",
        default='  <{} name="default"/>',
    ),
}
WHOLE = (
    *(Role.OPEN, Role.CHANGED, Role.OWN, Role.DURABLE, Role.REPLICATED),
    Role.PROTECTED,
)
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
    says = DIALECTS[setup.syntax]
    whole, default, stored = role in WHOLE, role is not Role.STRICT, role is Role.DURABLE
    replicated = role is Role.REPLICATED
    switches = [(g, "true") for g in GROUPS[role]] + [(g, "false") for g in OFF.get(role, ())]
    network = says.networks[setup.network].format(
        groups=says.between.join(says.group.format(*switch) for switch in switches),
        join=says.join if whole else "",
        ssl=says.ssl.format(place.pair.certificate, place.pair.key) if setup.tls else "",
    )
    return says.document.format(
        network=network,
        fast_path="" if setup.fast_path else says.no_fast_path,
        cp=says.cp if whole else "",
        persistence=says.store.format(place.directory) if stored else "",
        wan=says.wan if replicated else "",
        sent_map=says.sent if replicated else "",
        security=says.security[setup.security] + (says.protected if role is Role.PROTECTED else ""),
        default_map=says.default.format("map") if default else "",
        default_queue=says.default.format("queue") if default else "",
    )
