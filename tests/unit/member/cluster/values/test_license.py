"""The license: kept, and never told."""

from __future__ import annotations

import base64
import hashlib
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.cluster.values.licenses import MAX_LICENSE_BYTES
from grid_member.engine.api import Reason, Refused
from grid_member.http.routes.configuration import license_get, license_set
from tests.unit.member.cluster.managed import content, reason, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.cluster.managed import Managed


def info(key: str) -> dict[str, object]:
    return {
        "expiryDate": None,
        "maxNodeCount": None,
        "type": 0,
        "companyName": None,
        "ownerEmail": None,
        "keyHash": base64.b64encode(hashlib.sha256(key.encode()).digest()).decode(),
    }


async def test_none_is_404_and_one_is_shown_by_its_hash(managed: Managed) -> None:
    answer = await managed.call(license_get)
    assert (answer.status, reason(answer)) == (404, "no license is set")
    answer = await managed.call(license_set, "open sesame")
    assert (answer.status, list(content(answer))) == (200, ["status", "licenseInfo"])
    assert content(answer) == {"status": "success", "licenseInfo": info("open sesame")}
    answer = await managed.call(license_get)
    assert (answer.status, content(answer)) == (200, {"licenseInfo": info("open sesame")})
    assert list(content(answer)["licenseInfo"]) == list(info(""))


@pytest.mark.parametrize(
    "key", ["a&b&c", " ", "line\nline", "\0", "\u20ac" * 2730, "k" * MAX_LICENSE_BYTES], ids=short
)
async def test_any_text_is_a_key_and_nothing_is_trimmed(managed: Managed, key: str) -> None:
    assert content(await managed.call(license_set, key))["licenseInfo"] == info(key)
    assert managed.store.values["license"] == key.encode()


async def test_the_last_one_is_kept_also_by_the_next_life(managed: Managed) -> None:
    await managed.call(license_set, "first")
    await managed.call(license_set, "second")
    other = managed.restarted()
    other.member.phase = Phase.RUNNING
    assert content(await other.call(license_get))["licenseInfo"] == info("second")


@pytest.mark.parametrize(
    "key", ["", "k" * (MAX_LICENSE_BYTES + 1), "\u20ac" * 2731, "k" * 5_000_000], ids=short
)
async def test_an_empty_or_huge_one_is_400_and_changes_nothing(managed: Managed, key: str) -> None:
    await managed.call(license_set, "kept")
    before = managed.everything()
    answer = await managed.call(license_set, key)
    assert answer.status == 400
    assert "license" in reason(answer)
    assert managed.everything() == before


async def test_the_key_is_in_no_answer_and_in_no_log_line(
    managed: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [
        await managed.call(license_set, "open sesame", keys=("k1",)),
        await managed.call(license_set, "open sesame", keys=("k1",)),
        await managed.call(license_set, "other", keys=("k1",)),
        await managed.call(license_get),
    ]
    managed.store.refusal = Refused(Reason.UNAVAILABLE, "the disk is full")
    answers.append(await managed.call(license_set, "open sesame", keys=("k2",)))
    assert answers[-1].status == 503
    assert all("sesame" not in repr(answer) for answer in answers)
    assert "sesame" not in caplog.text
    kept = [value for key, value in managed.store.values.items() if key != "license"]
    assert all(b"sesame" not in value for value in kept)


async def test_the_wrong_moment(make: Callable[..., Managed]) -> None:
    managed = make()
    answer = await managed.call(license_set, "k")
    assert (answer.status, content(answer)["status"]) == (409, "fail")
    answer = await managed.call(license_get)
    assert (answer.status, reason(answer)) == (503, "the member is starting")
    assert managed.store.values == {}


async def test_a_disk_that_is_full_is_503_and_changes_nothing(managed: Managed) -> None:
    managed.store.refusal = Refused(Reason.UNAVAILABLE, "the disk is full")
    answer = await managed.call(license_set, "k")
    assert (answer.status, reason(answer)) == (503, "the disk is full")
    assert ("Retry-After", "1") in answer.headers
    assert managed.store.values == {}
