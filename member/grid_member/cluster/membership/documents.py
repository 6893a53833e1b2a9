"""The documents in which a member describes itself and the others."""

from __future__ import annotations

from typing import TypedDict


class MemberDocument(TypedDict):
    """One element of `members` in the cluster status document."""

    address: str
    liteMember: bool
    localMember: bool
    uuid: str
    memberVersion: str


class HealthDocument(TypedDict):
    """The whole health document."""

    nodeState: str
    clusterState: str
    clusterSafe: bool
    migrationQueueSize: int
    clusterSize: int
