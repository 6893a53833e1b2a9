"""Configurations from Python values, and what tests ask of a member's handle."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

from grid_member import Config

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member import MemberHandle

GROUPS = {"DATA": {"enabled": True}, "CLUSTER_WRITE": {"enabled": True}}
LOOPBACK = {"enabled": True, "interfaces": ["127.0.0.1"]}
REALMS = [
    {
        "name": "ops",
        "authentication": {"simple": {"users": [{"username": "op", "password": "s3cret"}]}},
    }
]


def tree(
    port: int = 0, management_port: int | None = None, directory: Path | None = None, **extra: Any
) -> dict[str, Any]:
    network: dict[str, Any] = {
        "port": {"port": port, "auto-increment": False},
        "interfaces": LOOPBACK,
        "rest-api": {"enabled": True, "endpoint-groups": GROUPS},
    }
    if management_port is not None:
        network["management"] = {
            "enabled": True,
            "port": {"port": management_port},
            "realm": "ops",
        }
    made: dict[str, Any] = {
        "network": network,
        "security": {"realms": REALMS},
        "map": {"default": {}},
        "queue": {"default": {}},
    }
    if directory is not None:
        made["persistence"] = {"enabled": True, "base-dir": str(directory)}
    return made | extra


def config(*arguments: Any, **options: Any) -> Config:
    return Config(tree(*arguments, **options), environment={})


def port_of(member: MemberHandle) -> int:
    assert member.rest_port is not None
    return member.rest_port


def is_ready(member: MemberHandle) -> bool:
    return member.ready


def is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
