"""When certificates in PEM files begin and end, read from their DER form.

The standard library tells that of certificates that a peer showed and that were in their time, and
of authorities only. What matters here are two times, between issuer and subject (RFC 5280, 4.1).
"""

from __future__ import annotations

import base64
import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SOON: Final = timedelta(days=30)
"""How long before its end a certificate is to be renewed; one that is made for a short time when a
fifth of that is left."""
SHARE: Final = 5
_PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL | re.ASCII
)
_COMMON_NAME: Final = re.compile(rb"\x06\x03\x55\x04\x03[\x0c\x13\x14\x16](.{2,65})", re.DOTALL)
"""Its identifier 2.5.4.3, the tag of a text, and behind it length and text (RFC 5280, A.1)."""
_VERSION, _UTC_TIME, _LONG_LENGTH = 0xA0, 0x17, 0x80
_PIVOT: Final = 50
"""Two digits below that are of this century."""


class Certificate(NamedTuple):
    """From when to when a certificate is valid, and who it is of."""

    begins: datetime
    ends: datetime
    issuer: bytes
    """The names in DER form."""
    subject: bytes


class Concern(NamedTuple):
    """What is the matter with the time of a certificate."""

    valid: bool
    """Whether it is valid still."""
    why: str
    """That, with what to do."""


def concerns(file: Path, now: datetime) -> list[Concern]:
    """Return what is the matter with the time of a certificate and those behind it. Blocks.

    What cannot be read tells nothing: who uses it complains.
    """
    return [concern for _, concern in _look(file, now) if concern is not None]


def concerns_of_authorities(
    file: Path, now: datetime, certificate: Path | None = None
) -> list[Concern]:
    """Return what is the matter with the time of the authorities in a file, as `concerns`.

    Where there are several, as while one takes the place of another, one that can go on is enough.
    Those that issued a certificate in the other file matter; without one any of them.
    """
    found = _look(file, now)
    matter = _relevant([one for one, _ in found], certificate)
    told = [concern for one, concern in found if one in matter and concern is not None]
    return told if len(told) == len(matter) else []


def end(file: Path) -> datetime | None:
    """Return when the first of the certificates in a file ends; None: none can be read. Blocks."""
    return min((one.ends for one in _read(file)), default=None)


def end_of_authorities(file: Path, certificate: Path | None = None) -> datetime | None:
    """Return when the last of the authorities ends, as far as they matter. Blocks.

    The arguments are those of `concerns_of_authorities`; None: none can be read.
    """
    return max((one.ends for one in _relevant(_read(file), certificate)), default=None)


def certificates(pem: bytes) -> list[Certificate]:
    """Return the certificates in a file in PEM format, as far as they can be read."""
    found = []
    for text in _PEM.findall(pem):
        with contextlib.suppress(ValueError, IndexError):
            found.append(_certificate(base64.b64decode(text)))
    return found


def common_name(der: bytes) -> str:
    """Return the common name of who a certificate is of; empty when it has none to show."""
    try:
        found = _COMMON_NAME.search(_certificate(der).subject)
    except (ValueError, IndexError):
        return ""
    if found is None:
        return ""
    name = found[1][1 : 1 + found[1][0]].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in name)


def _read(file: Path) -> list[Certificate]:
    try:
        return certificates(file.read_bytes())
    except OSError:
        return []


def _relevant(authorities: list[Certificate], certificate: Path | None) -> list[Certificate]:
    """Return the authorities that issued what is in a file; all of them when none did."""
    issuers = {one.issuer for one in ([] if certificate is None else _read(certificate))}
    return [one for one in authorities if one.subject in issuers] or authorities


def _look(file: Path, now: datetime) -> list[tuple[Certificate, Concern | None]]:
    found = _read(file)
    return [(one, _concern(number, len(found), one, now)) for number, one in enumerate(found, 1)]


def _concern(number: int, count: int, found: Certificate, now: datetime) -> Concern | None:
    which = "the certificate" if count == 1 else f"certificate {number} of {count}"
    begins, ends = (f"{one:%Y-%m-%d %H:%M} UTC" for one in (found.begins, found.ends))
    if now < found.begins:
        why = f"{which} is not valid before {begins}: look at the clock, or renew it"
        return Concern(False, why)
    left = found.ends - now
    if left <= timedelta():
        return Concern(False, f"{which} expired on {ends}: renew it")
    if left < min(SOON, (found.ends - found.begins) / SHARE):
        return Concern(True, f"{which} expires on {ends}, in {_round(left)}: renew it")
    return None


def _round(left: timedelta) -> str:
    return f"{left.days} days" if left.days > 1 else "less than two days"


def _certificate(der: bytes) -> Certificate:
    """Return what matters of a certificate; raises ValueError or IndexError when it is none."""
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # TBSCertificate
    tag, _, behind = _element(der, at)
    if tag == _VERSION:
        _, _, behind = _element(der, behind)  # else that was the serial number
    _, _, issuer = _element(der, behind)  # behind the algorithm
    _, _, validity = _element(der, issuer)
    _, at, subject = _element(der, validity)
    begins, at = _time(der, at)
    ends, _ = _time(der, at)
    _, _, behind = _element(der, subject)
    return Certificate(begins, ends, der[issuer:validity], der[subject:behind])


def _time(der: bytes, at: int) -> tuple[datetime, int]:
    """Return the time there, and where what follows it begins."""
    tag, start, end = _element(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _PIVOT else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), end


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, begin and end of the content of the element there."""
    length, start = der[at + 1], at + 2
    if length >= _LONG_LENGTH:
        start += length - _LONG_LENGTH
        length = int.from_bytes(der[at + 2 : start])
    return der[at], start, start + length
