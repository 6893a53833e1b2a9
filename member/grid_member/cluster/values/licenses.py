"""The license: an opaque key that the cluster keeps and never shows or logs."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, TypedDict

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

MAX_LICENSE_BYTES: Final = 8 << 10
_KEY: Final = "license"


class LicenseInfo(TypedDict):
    """What is told of a license; the service needs none, so all but the hash says nothing."""

    expiryDate: int | None
    maxNodeCount: int | None
    type: int
    companyName: str | None
    ownerEmail: str | None
    keyHash: str
    """Base64 of the SHA-256 of the key's UTF-8 bytes."""


def stored_license(store: SystemStore) -> LicenseInfo | None:
    """Return what is told of the cluster's license, None when there is none."""
    key = store.system_get(_KEY)
    return None if key is None else _info(key)


def license_problem(text: str) -> str | None:
    """Return what is wrong with a license key, None when it can be kept."""
    if not text:
        return "the license is empty"
    if len(text.encode()) > MAX_LICENSE_BYTES:
        return f"the license is longer than {MAX_LICENSE_BYTES} bytes"
    return None


def new_license(text: str) -> tuple[LicenseInfo, Put]:
    """Return what is told of a license key, and what keeps it in place of the one before."""
    key = text.encode()
    return _info(key), Put(_KEY, key)


def _info(key: bytes) -> LicenseInfo:
    return {
        "expiryDate": None,
        "maxNodeCount": None,
        "type": 0,
        "companyName": None,
        "ownerEmail": None,
        "keyHash": base64.b64encode(hashlib.sha256(key).digest()).decode(),
    }
