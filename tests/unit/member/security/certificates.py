"""Certificates for tests, made when they are needed: none is kept in the tree."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grid_member.config.model.security import ClientCertificates

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.config.model.security import TlsConfig

VALID_DAYS = "2"
EXPIRED = ("20200101", "20200102")
"""Begin and end of what is over long ago, as `Authority.reissue` has it."""
LOCAL_NAMES = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


def openssl(*words: object) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def write_key(path: Path) -> None:
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


class Authority:
    """A certificate authority in a directory of its own."""

    def __init__(self, directory: Path, name: str = "test-authority") -> None:
        self.directory = directory / name
        self.directory.mkdir()
        self.file = self.directory / "ca.crt"
        self._key = self.directory / "ca.key"
        write_key(self._key)
        openssl(
            *("req", "-x509", "-new", "-sha256", "-days", VALID_DAYS, "-key", self._key),
            *("-subj", f"/CN={name}", "-out", self.file),
            *("-addext", "basicConstraints=critical,CA:TRUE"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )

    def issue(
        self,
        name: str,
        key_password: str | None = None,
        names: str = LOCAL_NAMES,
        usage: str = "serverAuth,clientAuth",
    ) -> Pair:
        """Return a certificate for names, as openssl writes them, whose common name is name."""
        stem = self.directory / name
        pair = Pair(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        write_key(pair.key)
        extensions = stem.with_suffix(".ext")
        extensions.write_text(
            "keyUsage=critical,digitalSignature\n"
            f"extendedKeyUsage={usage}\n"
            f"subjectAltName={names}\n"
        )
        request = stem.with_suffix(".csr")
        openssl("req", "-new", "-key", pair.key, "-subj", f"/CN={name}", "-out", request)
        openssl(
            *("x509", "-req", "-sha256", "-days", VALID_DAYS, "-in", request, "-CAcreateserial"),
            *("-CA", self.file, "-CAkey", self._key, "-extfile", extensions),
            *("-out", pair.certificate),
        )
        if key_password is not None:
            plain = pair.key.rename(stem.with_suffix(".plain"))
            openssl(
                *("pkcs8", "-topk8", "-in", plain, "-out", pair.key),
                *("-passout", f"pass:{key_password}"),
            )
        return pair

    def reissue(self, pair: Pair, begins: str, ends: str) -> None:
        """Replace a pair's certificate by one that is valid from and to a day, as YYYYMMDD."""
        settings = self.directory / "ca.cnf"
        (self.directory / "index.txt").touch()
        settings.write_text(
            "[ca]\ndefault_ca=d\n[d]\npolicy=p\ndefault_md=sha256\nrand_serial=yes\nunique_subject=no\n"
            f"database={self.directory / 'index.txt'}\nnew_certs_dir={self.directory}\n"
            "[p]\ncommonName=supplied\n"
        )
        openssl(
            *("ca", "-batch", "-notext", "-config", settings, "-cert", self.file),
            *("-keyfile", self._key, "-in", pair.certificate.with_suffix(".csr")),
            *("-extfile", pair.certificate.with_suffix(".ext"), "-out", pair.certificate),
            *("-startdate", f"{begins}000000Z", "-enddate", f"{ends}000000Z"),
        )

    def reissue_own(self, begins: str, ends: str) -> None:
        """Replace the authority's own certificate, as `reissue` does."""
        own = Pair(self.file, self._key)
        openssl(
            *("req", "-new", "-key", own.key, "-subj", f"/CN={self.directory.name}"),
            *("-out", own.certificate.with_suffix(".csr")),
        )
        own.certificate.with_suffix(".ext").write_text(
            "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
        )
        self.reissue(own, begins, ends)

    def client(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Return what a client trusts this authority with, and shows pair with."""
        context = ssl.create_default_context(cafile=str(self.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


def common_name(certificate: object) -> str:
    """Return the common name of what `getpeercert` returns."""
    assert isinstance(certificate, dict)
    return str(dict(part[0] for part in certificate["subject"])["commonName"])


def missing(config: TlsConfig, authority: Authority) -> TlsConfig:
    """Name a certificate that is not there."""
    return replace(config, certificate=authority.directory / "no.crt")


def foreign(config: TlsConfig, authority: Authority) -> TlsConfig:
    """Name the key of another certificate."""
    return replace(config, key=authority.issue("other").key)


def no_authorities(config: TlsConfig, authority: Authority) -> TlsConfig:
    """Name a key in place of the authorities."""
    required = ClientCertificates.REQUIRED
    return replace(config, client_certificates=required, client_ca=config.key)
