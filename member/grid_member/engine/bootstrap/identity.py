"""Who a member of a cluster is, over its restarts.

    DIRECTORY/lock                    held by the process that is the member
    DIRECTORY/cluster/identity.json   format, cluster and its id, UUID, incarnation, server's name
    DIRECTORY/cluster/reached.json    how far it has read the logs: see `watermarks`
    DIRECTORY/cluster/jetstream/      what its server keeps

The name of the server stays with the data: a server that came back under its name without the data,
or with older data, would be believed by the others. Servers show each other the name of the
cluster, a user and a password.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.directory_lock import lock_data, lock_directory
from grid_member.engine.io.files import DIRECTORY_MODE, close_files, replace_file, sync_directory
from grid_member.engine.io.store_errors import damage_error, newer_error, unusable_error
from grid_member.engine.storage.exchange import STORE
from grid_member.engine.storage.manifest import MANIFEST_FILE
from grid_member.engine.storage.store import CLUSTER, make_directories

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.cluster_settings import ClusterSettings

IDENTITY_FORMAT: Final = 1
"""Counts changes of the layout that an older program must not touch."""
IDENTITY_FILE: Final = "identity.json"
JETSTREAM: Final = "jetstream"
_KIND: Final = "grid-cluster-member"
_CLUSTER_ID: Final = "clusterId"
_NAME_CHARACTERS: Final = 40
"""Of the member's name in its server's name; it is there for people only."""
_SUFFIX_BYTES: Final = 3
ROUTE_USER: Final = "grid"
"""A server at another one."""
_DIGEST_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """A member at one start."""

    uuid: uuid.UUID
    incarnation: int
    """How often the member was started with this UUID; 1 is the first time."""
    server_name: str
    """Names its server among those of the cluster for ever."""
    cluster: str = ""
    """The id of the cluster that its data is of; empty while there is none."""


@dataclass(frozen=True, slots=True)
class OpenIdentity:
    """The identity of this process; `close` lets another process have it."""

    identity: MemberIdentity
    directory: Path | None
    """Where its server keeps data; None: nowhere that lasts."""
    lock_fds: tuple[int, ...] = ()

    def close(self) -> None:
        """Release the directory; the server must have been stopped before."""
        close_files(self.lock_fds)


def open_identity(directory: Path | None, *, cluster_name: str, member_name: str) -> OpenIdentity:
    """Lock the directory and return who this member is in it; without one it is somebody new.

    The incarnation returned is on disk.

    Raises:
        EngineError: the directory is locked, damaged, or of another cluster, kind or version.
    """
    if directory is None:
        return OpenIdentity(_new_identity(member_name), None)
    try:
        make_directories(directory)
        lock_fds = [lock_directory(directory)]
        try:
            _check_kind(directory)
            own = directory / CLUSTER
            own.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            lock_fds.append(lock_data(own, directory))
            identity = _next_identity(own, cluster_name, member_name)
            place = directory / CLUSTER / JETSTREAM
            place.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            sync_directory(place.parent)
            return OpenIdentity(identity, place, tuple(lock_fds))
        except BaseException:
            close_files(lock_fds)
            raise
    except OSError as error:
        raise unusable_error("the directory", directory, error) from error


def of_cluster(opened: OpenIdentity, cluster_name: str, cluster: str) -> OpenIdentity:
    """Return the identity with the id of the cluster, which is on disk then. Blocks.

    Raises:
        EngineError: it cannot be written.
    """
    identity = replace(opened.identity, cluster=cluster)
    if opened.directory is not None:
        path = opened.directory.with_name(IDENTITY_FILE)
        try:
            _write_identity(path, identity, cluster_name)
        except OSError as error:
            raise unusable_error("the directory", path, error) from error
    return replace(opened, identity=identity)


def server_name(member_name: str, member: uuid.UUID) -> str:
    """Return a name that no server has had, with the member's name in it."""
    plain = plain_name(member_name, _NAME_CHARACTERS)
    return f"{plain}-{member.hex[:8]}-{secrets.token_hex(_SUFFIX_BYTES)}"


def member_of(server: str) -> str:
    """Return the name of a server's member, as far as it is in the server's."""
    return server.rsplit("-", 2)[0]


def plain_name(name: str, characters: int) -> str:
    """Return what is left of a name when only letters, digits and `-_` may be in it."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:characters].strip("-") or "member"


def _new_identity(member_name: str) -> MemberIdentity:
    member = uuid.uuid4()
    return MemberIdentity(member, 1, server_name(member_name, member))


def _check_kind(directory: Path) -> None:
    if (directory / MANIFEST_FILE).exists():
        raise EngineError(
            f"{directory} is a backup: start on another base directory and name this one in "
            "persistence.restore-from"
        )
    if (directory / STORE).exists():
        raise EngineError(
            f"{directory} holds the data of a member that was alone: to begin a cluster with it "
            "start it alone (one member in the list), make a backup, and name that in "
            "persistence.restore-from of all members, on empty base directories"
        )


def _next_identity(place: Path, cluster_name: str, member_name: str) -> MemberIdentity:
    path = place / IDENTITY_FILE
    place.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    sync_directory(place.parent)
    if path.exists():
        identity = _read_identity(path, cluster_name)
        identity = replace(identity, incarnation=identity.incarnation + 1)
    elif (place / JETSTREAM).exists():
        raise damage_error(str(place), f"it holds no {IDENTITY_FILE}")
    else:
        identity = _new_identity(member_name)
    _write_identity(path, identity, cluster_name)
    return identity


def _write_identity(path: Path, identity: MemberIdentity, cluster_name: str) -> None:
    content = {
        "kind": _KIND,
        "format": IDENTITY_FORMAT,
        "cluster": cluster_name,
        _CLUSTER_ID: identity.cluster,
        "uuid": str(identity.uuid),
        "incarnation": identity.incarnation,
        "server": identity.server_name,
    }
    replace_file(path, json.dumps(content))


def _read_identity(path: Path, cluster_name: str) -> MemberIdentity:
    try:
        content = json.loads(path.read_bytes())
        if content["kind"] != _KIND:
            raise EngineError(f"{path} was not written by a grid-member: choose another directory")
        if content["format"] != IDENTITY_FORMAT:
            raise newer_error(str(path), content["format"], IDENTITY_FORMAT)
        identity = MemberIdentity(
            uuid.UUID(content["uuid"]),
            int(content["incarnation"]),
            str(content["server"]),
            str(content.get(_CLUSTER_ID, "")),
        )
        cluster = str(content["cluster"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damage_error(str(path), "it is not what a grid-member writes") from None
    if cluster != cluster_name:
        raise EngineError(
            f"{path} belongs to the cluster {cluster!r}, this member to {cluster_name!r}: "
            "correct cluster-name, or start on another base directory"
        )
    return identity


def route_password(settings: ClusterSettings) -> str:
    """Return what the servers of the members show each other.

    It is derived: neither the file nor the wire holds the configured password, no text in it means
    anything to the server (`$2a$…` would be taken for a hash), and members of clusters with other
    names or users never fit.
    """
    said = "\0".join(("grid route 1", settings.cluster_name, settings.user)).encode()
    return hmac.new(settings.password.encode(), said, hashlib.sha256).hexdigest()


def route_cluster(cluster_name: str) -> str:
    """Return the cluster's name as servers take it: no two clusters have the same."""
    digest = hashlib.sha256(cluster_name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{plain_name(cluster_name, _NAME_CHARACTERS)}-{digest}"
