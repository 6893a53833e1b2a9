"""What is wrong with a certificate and its key has words of its own, wherever they are read."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.security import ClientCertificates, TlsConfig
from grid_member.engine.cluster_settings import ClusterTls
from grid_member.engine.server import tls_files
from grid_member.security.tls import ServerTls, TlsError, check_members_tls
from tests.unit.member.security.certificates import Authority, Pair, openssl
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STORE_PASSWORD = "pass:Hidden-pw"


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Pair, Pair]:
    """An authority, a pair of it on an elliptic curve, and one with an RSA key, self-signed."""
    directory = tmp_path_factory.mktemp("issued")
    authority = Authority(directory)
    rsa = Pair(directory / "rsa.crt", directory / "rsa.key")
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2", "-subj", "/CN=rsa"),
        *("-keyout", rsa.key, "-out", rsa.certificate),
    )
    return authority, authority.issue("leaf"), rsa


class Case:
    """Where a test makes the files that it gets wrong."""

    def __init__(self, directory: Path, issued: tuple[Authority, Pair, Pair]) -> None:
        self.directory = directory
        self.authority, leaf, self.rsa = issued
        self.pair = Pair(directory / "tls.crt", directory / "tls.key")
        self.pair.certificate.write_bytes(leaf.certificate.read_bytes())
        self.pair.key.write_bytes(leaf.key.read_bytes())

    def certificate(self, *parts: Path | str | bytes) -> None:
        self.pair.certificate.write_bytes(joined(parts))

    def key(self, *parts: Path | str | bytes) -> None:
        self.pair.key.write_bytes(joined(parts))

    def made(self, *words: object) -> Path:
        """Return what openssl writes."""
        out = self.directory / "made"
        openssl(*words, "-out", out)
        return out


def joined(parts: tuple[Path | str | bytes, ...]) -> bytes:
    return b"".join(
        part
        if isinstance(part, bytes)
        else part.encode()
        if isinstance(part, str)
        else part.read_bytes()
        for part in parts
    )


@pytest.fixture
def case(tmp_path: Path, issued: tuple[Authority, Pair, Pair]) -> Case:
    return Case(tmp_path, issued)


def other_type(case: Case) -> None:
    case.key(case.made("genpkey", "-algorithm", "ed25519"))


def rsa_certificate(case: Case) -> None:
    case.certificate(case.rsa.certificate)


def authority_first(case: Case) -> None:
    case.certificate(case.authority.file, case.pair.certificate)


def other_type_first(case: Case) -> None:
    case.certificate(case.rsa.certificate, case.authority.file, case.pair.certificate)


def damaged_chain(case: Case) -> None:
    begin, _, rest = case.authority.file.read_text().partition("\n")
    case.certificate(case.pair.certificate, f"{begin}\n!{rest}")


def cut_chain(case: Case) -> None:
    case.certificate(case.pair.certificate, case.authority.file.read_text()[:300])


def der_certificate(case: Case) -> None:
    case.certificate(case.made("x509", "-in", case.pair.certificate, "-outform", "DER"))


def der_key(case: Case) -> None:
    case.key(case.made("pkey", "-in", case.pair.key, "-outform", "DER"))


def store(case: Case) -> Path:
    return case.made(
        *("pkcs12", "-export", "-in", case.pair.certificate, "-inkey", case.pair.key),
        *("-passout", STORE_PASSWORD),
    )


def store_as_certificate(case: Case) -> None:
    case.certificate(store(case))


def store_as_key(case: Case) -> None:
    case.key(store(case))


def java_store(case: Case) -> None:
    case.certificate(b"\xfe\xed\xfe\xed\0\0\0\x02")


def request(case: Case) -> None:
    case.certificate(case.made("req", "-new", "-key", case.pair.key, "-subj", "/CN=leaf"))


def public_key(case: Case) -> None:
    case.key(case.made("pkey", "-in", case.pair.key, "-pubout"))


def open_ssh(case: Case) -> None:
    case.key("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")


def blank_certificate(case: Case) -> None:
    case.certificate("\n \r\n")


def blank_key(case: Case) -> None:
    case.key("\n")


def swapped(case: Case) -> None:
    certificate, key = case.pair.certificate.read_bytes(), case.pair.key.read_bytes()
    case.certificate(key)
    case.key(certificate)


CASES = [
    (other_type, "key", "is not the key of the certificate in {crt} (CN=leaf)"),
    (rsa_certificate, "key", "is not the key of the certificate in {crt} (CN=rsa)"),
    (
        authority_first,
        "key",
        "is not the key of the certificate that is first in {crt} (CN=test-authority), but of "
        "number 2 (CN=leaf): write that one first, its authorities behind it",
    ),
    (
        other_type_first,
        "key",
        "is not the key of the certificate that is first in {crt} (CN=rsa), but of number 3 "
        "(CN=leaf): write that one first, its authorities behind it",
    ),
    (
        damaged_chain,
        "certificate",
        "is not a certificate in PEM format: certificate 2 of 2 is damaged",
    ),
    (cut_chain, "certificate", "is not a certificate in PEM format: it ends too early"),
    (
        der_certificate,
        "certificate",
        "is not a certificate in PEM format: it may be in DER format: write openssl x509 -inform "
        "DER -in … -out …",
    ),
    (
        der_key,
        "key",
        "is not a private key in PEM format: it may be in DER format: write openssl pkey -inform "
        "DER -in … -out …",
    ),
    (
        store_as_certificate,
        "certificate",
        "is not a certificate in PEM format: it is a PKCS#12 store: write openssl pkcs12 -nokeys "
        "-in … -out …",
    ),
    (
        store_as_key,
        "key",
        "is not a private key in PEM format: it is a PKCS#12 store: write openssl pkcs12 -nocerts "
        "-noenc -in … -out …",
    ),
    (
        java_store,
        "certificate",
        "is not a certificate in PEM format: it is a Java key store: make a PKCS#12 store of it "
        "with keytool -importkeystore -deststoretype PKCS12, and of that PEM with openssl pkcs12 "
        "-nokeys",
    ),
    (
        request,
        "certificate",
        "is not a certificate in PEM format: it holds a certificate request",
    ),
    (public_key, "key", "is not a private key in PEM format: it holds a public key"),
    (
        open_ssh,
        "key",
        "is not a private key in PEM format: it holds a key in the format of OpenSSH",
    ),
    (blank_certificate, "certificate", "is empty"),
    (blank_key, "key", "is empty"),
    (swapped, "certificate", "is not a certificate in PEM format: it holds a private key"),
]


def of_rest(case: Case) -> None:
    ServerTls(TlsConfig("network.ssl", case.pair.certificate, case.pair.key))


def of_management(case: Case) -> None:
    ServerTls(TlsConfig("network.management.ssl", case.pair.certificate, case.pair.key))


def of_members(case: Case) -> None:
    required = ClientCertificates.REQUIRED
    check_members_tls(
        TlsConfig(
            "network.cluster.ssl",
            case.pair.certificate,
            case.pair.key,
            client_certificates=required,
            client_ca=case.authority.file,
        )
    )


PLACES = {
    "network.ssl": of_rest,
    "network.management.ssl": of_management,
    "network.cluster.ssl": of_members,
}


@pytest.mark.parametrize(
    ("breaks", "file", "says"), CASES, ids=lambda c: getattr(c, "__name__", "")
)
def test_each_fault_has_its_own_words(
    breaks: Callable[[Case], None], file: str, says: str, case: Case
) -> None:
    for read in PLACES.values():
        read(case)
    breaks(case)
    named = case.pair.key if file == "key" else case.pair.certificate
    said = says.replace("{crt}", str(case.pair.certificate))
    for setting, read in PLACES.items():
        with pytest.raises(TlsError) as raised:
            read(case)
        assert str(raised.value) == f"{setting}.{file}-file: {named} {said}"


def test_a_key_in_the_file_of_its_certificate_is_taken(case: Case) -> None:
    for parts in ((case.pair.certificate, case.pair.key), (case.pair.key, case.pair.certificate)):
        case.certificate(*map(joined, [(part,) for part in parts]))
        ServerTls(TlsConfig("network.ssl", case.pair.certificate, case.pair.certificate))


def test_an_encrypted_key_is_tried_with_its_password(case: Case) -> None:
    locked = case.authority.issue("locked", "Hidden-pw")
    case.certificate(case.authority.file, locked.certificate)
    config = TlsConfig("network.ssl", case.pair.certificate, locked.key, key_password="Hidden-pw")
    with pytest.raises(TlsError, match=r"but of number 2 \(CN=locked\): write that one first"):
        ServerTls(config)


def test_a_changed_pair_that_does_not_fit_is_told_and_the_old_one_stays(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    server = ServerTls(TlsConfig("network.ssl", case.pair.certificate, case.pair.key))
    context = server.context
    other_type(case)
    assert not server.refresh()
    assert server.context is context
    (record,) = caplog.records
    assert "is not the key of the certificate in" in record.__dict__["grid_fields"]["why"]


async def test_members_do_not_take_a_changed_pair_that_does_not_fit(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_S", 0.01)
    caplog.set_level(logging.INFO, "grid.engine.nats")
    tls = ClusterTls(case.pair.certificate, case.pair.key, case.authority.file)
    read: list[bool] = []
    good = case.pair.certificate.read_bytes()
    task = asyncio.ensure_future(
        tls_files.renewals(tls, tls_files.file_signatures(tls), lambda: read.append(True))
    )

    async def told() -> bool:
        return "of number 2 (CN=leaf)" in caplog.text

    async def taken() -> bool:
        return read == [True]

    try:
        authority_first(case)
        await eventually(told)
        assert not read
        case.certificate(good)
        await eventually(taken)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
