"""The documents of the interface that the member writes without a type of their own."""

from typing import Literal, TypedDict

from grid_member.cluster.management.config_changes import ConfigResult
from grid_member.cluster.membership.member_table import MemberDocument
from grid_member.cluster.values.licenses import LicenseInfo


class Failure(TypedDict):
    """An expected failure; the message says why."""

    status: Literal["fail"]
    message: str


class Success(TypedDict):
    """The call did what it was asked."""

    status: Literal["success"]


class SuccessMessage(TypedDict):
    """The call did what it was asked."""

    status: Literal["success"]
    message: str


class ClusterDocument(TypedDict):
    """The cluster status; connections are those of the REST port, and of all ports."""

    members: list[MemberDocument]
    connectionCount: int
    allConnectionCount: int


class InstanceDocument(TypedDict):
    """The name of the member."""

    name: str


class StateDocument(TypedDict):
    """The cluster state; `fail` when a change found it as it was to be."""

    status: Literal["success", "fail"]
    state: Literal["active", "no_migration", "frozen", "passive", "in_transition"]


class VersionDocument(TypedDict):
    """The cluster version, `major.minor`."""

    status: Literal["success"]
    version: str


class NodesDocument(TypedDict):
    """Three lines: the members, the member's version, that of what it runs on."""

    status: Literal["success"]
    response: str


class LicenseDocument(TypedDict):
    """What is told of the license."""

    licenseInfo: LicenseInfo


class LicenseSetDocument(TypedDict):
    """What is told of the license that was set."""

    status: Literal["success"]
    licenseInfo: LicenseInfo


class LogLevelDocument(TypedDict):
    """The level that was set; null when the configured one holds."""

    logLevel: str | None


class ConfigDocument(TypedDict):
    """What was added to the configuration, and what of the text was there already."""

    status: Literal["success"]
    message: str
    result: ConfigResult


MemberListDocument = TypedDict(
    "MemberListDocument", {"status": Literal["success"], "member-list": list[str]}
)
MemberListDocument.__doc__ = "The addresses of the TCP/IP join."

MemberListSetDocument = TypedDict(
    "MemberListSetDocument",
    {"status": Literal["success"], "message": str, "member-list": list[str]},
)
MemberListSetDocument.__doc__ = "The new addresses of the TCP/IP join."


class WanDoneDocument(TypedDict):
    """What a WAN call did."""

    status: str
    message: str


class WanAddedDocument(TypedDict):
    """Which publishers were added, and which exist already."""

    status: str
    message: str
    addedPublisherIds: list[str]
    ignoredPublisherIds: list[str]


class WanSyncDocument(TypedDict):
    """A synchronisation that has begun; its progress is found by the UUID."""

    status: Literal["success"]
    message: str
    uuid: str
