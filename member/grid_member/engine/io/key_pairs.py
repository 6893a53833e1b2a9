"""Why a certificate and a key in PEM files cannot be used together, in words that say what to do.

OpenSSL tells little more than that something does not fit; what the files hold instead is found
here, from their text and by trying the key with each of the certificates.
"""

from __future__ import annotations

import os
import re
import ssl
import sys
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from grid_member.engine.io.certificates import common_name

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE: Final = "certificate"
KEY: Final = "key"
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----.*?-----END \1-----", re.DOTALL
)
_KEY: Final = re.compile(r"-----BEGIN (?:(?:RSA|EC|DSA|ENCRYPTED) )?PRIVATE KEY-----")
_OTHERS: Final = (
    (re.compile(r"-----BEGIN (?:NEW )?CERTIFICATE REQUEST-----"), "a certificate request"),
    (re.compile(r"-----BEGIN OPENSSH PRIVATE KEY-----"), "a key in the format of OpenSSH"),
    (re.compile(r"-----BEGIN (?:RSA )?PUBLIC KEY-----"), "a public key"),
    (_KEY, "a private key"),
    (_CERTIFICATE, "a certificate"),
)
_WORDS: Final = {CERTIFICATE: "a certificate", KEY: "a private key"}
_FROM_DER: Final = {CERTIFICATE: "x509", KEY: "pkey"}
_FROM_STORE: Final = {CERTIFICATE: "-nokeys", KEY: "-nocerts -noenc"}
_JAVA_STORE: Final = b"\xfe\xed\xfe\xed"
_PKCS12: Final = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...|\x80)\x02\x01\x03", re.DOTALL
)
_DER: Final = re.compile(rb"\x30[\x20-\x7f\x81-\x84]")
_MISMATCHES: Final = frozenset(
    {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
)
"""A key of another type lies in a slot of its own, to which no certificate was assigned."""
_TOO_WEAK: Final = frozenset({"EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"})


class PairProblem(NamedTuple):
    """What is wrong with one of the two files."""

    file: Literal["certificate", "key"]
    why: str
    """Follows the file's name."""
    encrypted: bool = False
    """Whether the key is encrypted, and the password, if there is one, is not the right one."""


def load_key_pair(
    context: ssl.SSLContext, certificate: Path, key: Path, password: str | None = None
) -> PairProblem | None:
    """Let a context show a certificate; return why it cannot. Blocks.

    OpenSSL never asks for a password on the terminal.
    """
    asked: list[bool] = []

    def given() -> str:
        asked.append(True)
        return password or ""

    try:
        context.load_cert_chain(certificate, key, given)
    except (ssl.SSLError, ValueError, OSError) as error:
        reason = str(getattr(error, "reason", None))
        return _problem(certificate, key, password, reason, encrypted=bool(asked))
    return None


def authorities_problem(file: Path) -> str:
    """Return why authorities in a file cannot be used; it follows the file's name. Blocks."""
    data = _content(file)
    if isinstance(data, str):
        return data
    wrong = _form_problem(data, CERTIFICATE) or _unreadable(data)
    return wrong or "holds something that is not a certificate in PEM format"


def _form_problem(data: bytes, wanted: Literal["certificate", "key"]) -> str | None:
    """Return what a file is instead of PEM text with a certificate or a key, None when it is that.

    What it returns follows the file's name.
    """
    text = data.decode("latin-1")
    if not text.strip():
        return "is empty"
    if (_CERTIFICATE if wanted == CERTIFICATE else _KEY).search(text):
        return None
    found = _other_form(data, text, wanted)
    return f"is not {_WORDS[wanted]} in PEM format{found}"


def _problem(
    certificate: Path, key: Path, password: str | None, reason: str, *, encrypted: bool
) -> PairProblem:
    chain, own = _content(certificate), _content(key)
    if isinstance(chain, str):
        return PairProblem(CERTIFICATE, chain)
    wrong = _form_problem(chain, CERTIFICATE) or _unreadable(chain)
    if wrong is not None:
        return PairProblem(CERTIFICATE, wrong)
    wrong = own if isinstance(own, str) else _form_problem(own, KEY)
    if wrong is not None:
        return PairProblem(KEY, wrong)
    if reason in _MISMATCHES:
        return PairProblem(KEY, _mismatch(certificate, _in(chain), key, password))
    if encrypted:
        return PairProblem(KEY, "is encrypted", encrypted=True)
    if reason in _TOO_WEAK:
        return PairProblem(CERTIFICATE, f"is too weak: {reason.replace('_', ' ').lower()}")
    return PairProblem(KEY, "is not a private key in PEM format")


def _content(file: Path) -> bytes | str:
    """Return what a file holds, or why it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _in(chain: bytes) -> list[str]:
    return [match[0] for match in _CERTIFICATE.finditer(chain.decode("latin-1"))]


def _unreadable(chain: bytes) -> str | None:
    """Return which of the certificates in a file cannot be read."""
    found = _in(chain)
    for number, pem in enumerate(found, 1):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
        except ssl.SSLError:
            which = "" if len(found) == 1 else f": certificate {number} of {len(found)} is damaged"
            return f"is not a certificate in PEM format{which}"
    if chain.count(b"-----BEGIN ") > chain.count(b"-----END "):
        return "is not a certificate in PEM format: it ends too early"
    return None


def _mismatch(certificate: Path, chain: list[str], key: Path, password: str | None) -> str:
    names = [_name(pem) for pem in chain]
    for number, pem in enumerate(chain[1:], 2):
        if _fits(pem, key, password):
            return (
                f"is not the key of the certificate that is first in {certificate}{names[0]}, but "
                f"of number {number}{names[number - 1]}: write that one first, its authorities "
                "behind it"
            )
    return f"is not the key of the certificate in {certificate}{names[0]}"


def _name(pem: str) -> str:
    name = common_name(ssl.PEM_cert_to_DER_cert(pem))
    return f" (CN={name})" if name else ""


def _fits(pem: str, key: Path, password: str | None) -> bool:
    """Tell whether a key is that of one certificate, which OpenSSL reads from a file only."""
    if sys.platform != "linux":
        return False
    file = os.memfd_create("certificate")
    try:
        os.write(file, pem.encode("latin-1"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"/proc/self/fd/{file}", key, lambda: password or "")
    except (ssl.SSLError, ValueError, OSError):
        return False
    finally:
        os.close(file)
    return True


def _other_form(data: bytes, text: str, wanted: Literal["certificate", "key"]) -> str:
    if data.startswith(_JAVA_STORE):
        return (
            ": it is a Java key store: make a PKCS#12 store of it with keytool -importkeystore "
            f"-deststoretype PKCS12, and of that PEM with openssl pkcs12 {_FROM_STORE[wanted]}"
        )
    if _PKCS12.match(data):
        return f": it is a PKCS#12 store: write openssl pkcs12 {_FROM_STORE[wanted]} -in … -out …"
    for pattern, name in _OTHERS:
        if pattern.search(text):
            return f": it holds {name}"
    if "-----BEGIN " in text:
        return ": it ends too early"
    if _DER.match(data):
        command = f"openssl {_FROM_DER[wanted]} -inform DER -in … -out …"
        return f": it may be in DER format: write {command}"
    return ""
