"""The files of the members' TLS: what is wrong with them is said before there is a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.command import EXIT_START
from grid_member.config.model.security import ClientCertificates, TlsConfig
from grid_member.security.tls import TlsError, check_members_tls
from tests.unit.member.processes.bad_days import three
from tests.unit.member.running import MemberProcess
from tests.unit.member.security.certificates import foreign, missing, no_authorities

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.security.certificates import Authority, Pair

SETTING = "network.cluster.ssl"


@pytest.fixture
def config(pair: Pair, authority: Authority) -> TlsConfig:
    return TlsConfig(
        SETTING,
        pair.certificate,
        pair.key,
        client_certificates=ClientCertificates.REQUIRED,
        client_ca=authority.file,
    )


def encrypted(config: TlsConfig, authority: Authority) -> TlsConfig:
    locked = authority.issue("locked", "Hidden-pw")
    return replace(config, certificate=locked.certificate, key=locked.key)


def no_certificate(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config, certificate=config.key)


@pytest.mark.parametrize(
    ("broken", "setting", "says"),
    [
        (foreign, "key-file", "is not the key of the certificate in"),
        (encrypted, "key-file", "is encrypted: members need a key that is not"),
        (missing, "certificate-file", "no.crt: No such file or directory"),
        (no_certificate, "certificate-file", "is not a certificate in PEM format"),
        (no_authorities, "ca-file", "is not a certificate in PEM format: it holds a private key"),
    ],
)
def test_an_error_names_the_setting_and_the_file(
    broken: Callable[[TlsConfig, Authority], TlsConfig],
    setting: str,
    says: str,
    config: TlsConfig,
    authority: Authority,
) -> None:
    check_members_tls(config)
    with pytest.raises(TlsError) as raised:
        check_members_tls(broken(config, authority))
    text = str(raised.value)
    assert text.startswith(f"{SETTING}.{setting}: {authority.directory}")
    assert says in text


def test_a_member_does_not_start_its_server_with_them(
    config: TlsConfig, authority: Authority, tmp_path: Path
) -> None:
    files = {
        "certificate-file": str(config.certificate),
        "key-file": str(authority.issue("other").key),
        "ca-file": str(authority.file),
    }
    process = MemberProcess(three(tls=files)[0].text(), tmp_path / "member")
    try:
        assert process.end() == EXIT_START
    finally:
        process.kill()
    (told,) = [entry["message"] for entry in process.log if entry["level"] == "error"]
    assert told.startswith(f"cannot start: {SETTING}.key-file: {files['key-file']} is not the key")
    assert "nats-server" not in str(process.log)
    assert "listening" not in [entry["message"] for entry in process.log]
