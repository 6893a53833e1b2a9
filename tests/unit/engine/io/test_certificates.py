"""From when to when certificates are valid, and what is said of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.io.certificates import (
    Concern,
    certificates,
    concerns,
    concerns_of_authorities,
)
from tests.unit.member.security.certificates import EXPIRED, Authority

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.security.certificates import Pair

BEGINS, ENDS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
YEAR = ("20260101", "20270101")
DAY = timedelta(days=1)
RENEW = "the certificate expires on 2027-01-01 00:00 UTC, in"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    pair = authority.issue("member")
    authority.reissue(pair, *YEAR)
    return pair


def test_both_forms_of_times_are_read_in_the_order_of_the_file(
    authority: Authority, pair: Pair
) -> None:
    authority.reissue_own("19990101", "20500101")
    text = pair.certificate.read_bytes() + b"# one that follows\n" + authority.file.read_bytes()
    former, later = datetime(1999, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)
    own, of_ca = certificates(text)
    assert own[:2] == (BEGINS, ENDS)
    assert of_ca[:2] == (former, later)
    assert own.issuer == of_ca.issuer == of_ca.subject != own.subject


@pytest.mark.parametrize("wrong", [b"", b"AAAA", b"!", b"MIIB", b"MA==", b"MIL/////"])
def test_what_is_no_certificate_has_no_times(pair: Pair, wrong: bytes) -> None:
    block = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----\n" % wrong
    (found,) = certificates(block + pair.certificate.read_bytes())
    assert found[:2] == (BEGINS, ENDS)
    assert certificates(pair.key.read_bytes()) == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (BEGINS - DAY, "the certificate is not valid before 2026-01-01 00:00 UTC: look at the"),
        (BEGINS, None),
        (ENDS - 30 * DAY, None),
        (ENDS - 30 * DAY + timedelta(seconds=1), f"{RENEW} 29 days: renew it"),
        (ENDS - DAY, f"{RENEW} less than two days: renew it"),
        (ENDS, "the certificate expired on 2027-01-01 00:00 UTC: renew it"),
    ],
)
def test_what_is_not_valid_or_will_not_be_soon_is_told_with_the_date(
    pair: Pair, now: datetime, told: str | None
) -> None:
    found = concerns(pair.certificate, now)
    assert [one.why.startswith(told or "") for one in found] == [True] * (told is not None)
    assert all(one.valid == (BEGINS <= now < ENDS) for one in found)


def test_one_for_a_short_time_is_renewed_when_a_fifth_of_it_is_left(
    authority: Authority, pair: Pair
) -> None:
    authority.reissue(pair, "20261201", "20261211")
    end = datetime(2026, 12, 11, tzinfo=UTC)
    assert concerns(pair.certificate, end - 2 * DAY) == []
    assert concerns(pair.certificate, end - 2 * DAY + timedelta(seconds=1))


def test_of_several_in_a_file_it_is_told_which(authority: Authority, pair: Pair) -> None:
    authority.reissue_own(*EXPIRED)
    with pair.certificate.open("ab") as file:
        file.write(authority.file.read_bytes())
    told = "certificate 2 of 2 expired on 2020-01-02 00:00 UTC: renew it"
    assert concerns(pair.certificate, BEGINS) == [Concern(False, told)]
    assert concerns(pair.certificate.with_name("none"), BEGINS) == []


def test_of_several_authorities_the_one_matters_that_issued_the_certificate(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    successor, both = Authority(tmp_path, "successor"), tmp_path / "both.crt"
    successor.reissue_own(*YEAR)
    authority.reissue_own(*EXPIRED)
    both.write_bytes(authority.file.read_bytes() + successor.file.read_bytes())
    now = BEGINS + DAY
    over = Concern(False, "certificate 1 of 2 expired on 2020-01-02 00:00 UTC: renew it")
    assert concerns_of_authorities(both, now, pair.certificate) == [over]
    assert concerns_of_authorities(both, now, successor.issue("member").certificate) == []
    assert concerns_of_authorities(both, now) == []
    assert len(concerns_of_authorities(both, ENDS, tmp_path / "none")) == 2
    before = authority.file.read_bytes()
    authority.reissue_own(*YEAR)  # as of the same name, with the former one beside it
    both.write_bytes(before + authority.file.read_bytes())
    assert concerns_of_authorities(both, now, pair.certificate) == []
