"""The files behind TLS: what is wrong with them is said, and new ones are taken whole or not."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.security import ClientCertificates, TlsConfig
from grid_member.security import tls
from grid_member.security.tls import ServerTls, TlsError, Validity, keep_fresh, server_context
from tests.unit.member.security.certificates import (
    EXPIRED,
    foreign,
    missing,
    no_authorities,
    openssl,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.unit.member.security.certificates import Authority, Pair


def config_of(pair: Pair) -> TlsConfig:
    return TlsConfig("network.ssl", pair.certificate, pair.key)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("first")


@pytest.fixture
def config(pair: Pair) -> TlsConfig:
    return config_of(pair)


# Errors


def key_missing(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config, key=authority.directory / "no.key")


def directory(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config, certificate=authority.directory)


def empty(config: TlsConfig, authority: Authority) -> TlsConfig:
    (authority.directory / "empty").write_text("")
    return replace(config, key=authority.directory / "empty")


def huge(config: TlsConfig, authority: Authority) -> TlsConfig:
    (authority.directory / "huge").write_text("#" * ((1 << 20) + 1))
    return replace(config, certificate=authority.directory / "huge")


def swapped(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config, certificate=config.key, key=config.certificate)


def no_key(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config, key=config.certificate)


def cut(config: TlsConfig, authority: Authority) -> TlsConfig:
    text = config.certificate.read_text()
    config.certificate.write_text(text[: len(text) // 2])
    return config


def encrypted(config: TlsConfig, authority: Authority) -> TlsConfig:
    return config_of(authority.issue("locked", "Hidden-pw"))


def wrong_password(config: TlsConfig, authority: Authority) -> TlsConfig:
    return replace(config_of(authority.issue("locked", "Hidden-pw")), key_password="Wrong-pw")


def weak(config: TlsConfig, authority: Authority) -> TlsConfig:
    openssl("genrsa", "-out", config.key, "1024")
    openssl(
        *("req", "-x509", "-new", "-days", "2", "-subj", "/CN=weak"),
        *("-key", config.key, "-out", config.certificate),
    )
    return config


@pytest.mark.parametrize(
    ("broken", "setting", "says"),
    [
        (missing, "certificate-file", "no.crt: No such file or directory"),
        (key_missing, "key-file", "no.key: No such file or directory"),
        (directory, "certificate-file", "Is a directory"),
        (empty, "key-file", "is empty"),
        (huge, "certificate-file", "longer than 1 MiB"),
        (swapped, "certificate-file", "is not a certificate in PEM format"),
        (no_key, "key-file", "is not a private key in PEM format"),
        (cut, "certificate-file", "is not a certificate in PEM format"),
        (foreign, "key-file", "is not the key of the certificate in"),
        (encrypted, "key-file", "is encrypted: set network.ssl.key-password"),
        (wrong_password, "key-file", "network.ssl.key-password is wrong"),
        (no_authorities, "client-ca-file", "in PEM format: it holds a private key"),
        (weak, "certificate-file", "is too weak: ee key too small"),
    ],
)
def test_an_error_names_the_setting_and_the_file(
    broken: Callable[[TlsConfig, Authority], TlsConfig],
    setting: str,
    says: str,
    config: TlsConfig,
    authority: Authority,
) -> None:
    with pytest.raises(TlsError) as raised:
        ServerTls(broken(config, authority))
    text = str(raised.value)
    assert text.startswith(f"network.ssl.{setting}: {authority.directory}")
    assert says in text
    assert "pw" not in text


def test_an_encrypted_key_opens_with_its_password(authority: Authority) -> None:
    pair = authority.issue("locked", "Hidden-pw")
    server_context(replace(config_of(pair), key_password="Hidden-pw"))
    assert "Hidden-pw" not in repr(replace(config_of(pair), key_password="Hidden-pw"))


COMING = ("20900101", "20900102")


@pytest.mark.parametrize(
    ("times", "why"),
    [
        (EXPIRED, "the certificate expired on 2020-01-02 00:00 UTC: renew it"),
        (
            COMING,
            "the certificate is not valid before 2090-01-01 00:00 UTC: look at the clock, or renew "
            "it",
        ),
    ],
)
@pytest.mark.parametrize("asks", list(ClientCertificates))
def test_a_certificate_out_of_its_time_is_told(
    asks: ClientCertificates,
    times: tuple[str, str],
    why: str,
    pair: Pair,
    config: TlsConfig,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asking = replace(config, client_certificates=asks, client_ca=authority.file)
    server = ServerTls(asking)
    assert caplog.text == ""
    authority.reissue(pair, *times)
    assert server.refresh()
    ServerTls(asking)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    told = {"why": why, "setting": "network.ssl.certificate-file", "file": str(config.certificate)}
    assert [record.__dict__["grid_fields"] for record in warnings] == [told, told]


async def test_a_certificate_that_ends_soon_is_told_once_a_day(
    pair: Pair, config: TlsConfig, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    authority.reissue(pair, "20260101", "20270101")
    authority.reissue_own("20250101", "20261231")
    now = datetime(2026, 11, 30, tzinfo=UTC)
    validity = Validity(replace(config, client_ca=authority.file), lambda: now)
    validity.tell()
    assert caplog.text == ""
    for hours in (72, 72, 73, 96):
        now = datetime(2026, 11, 30, tzinfo=UTC) + timedelta(hours=hours)
        validity.tell()
    assert {record.getMessage() for record in caplog.records} == {"certificate expires soon"}
    fields = [record.__dict__["grid_fields"] for record in caplog.records]
    assert [(one["setting"], one["why"]) for one in fields] == [
        (f"network.ssl.{name}", f"the certificate expires on {day} 00:00 UTC, in {left}: renew it")
        for name, day, left in [
            ("certificate-file", "2027-01-01", "29 days"),
            ("client-ca-file", "2026-12-31", "28 days"),
            ("certificate-file", "2027-01-01", "28 days"),
            ("client-ca-file", "2026-12-31", "27 days"),
        ]
    ]


# New files


def put(source: Pair, target: Pair) -> None:
    """Write one pair over another, in place."""
    target.certificate.write_bytes(source.certificate.read_bytes())
    target.key.write_bytes(source.key.read_bytes())


def number(context: ssl.SSLContext, authority: Authority) -> str:
    """Return the serial number of the certificate that a client of the context would see."""
    import ssl as module

    to_server, to_client = module.MemoryBIO(), module.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = authority.client().wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except module.SSLWantReadError:
            continue
    certificate = client.getpeercert()
    assert certificate
    return str(certificate["serialNumber"])


def test_unchanged_files_change_nothing(config: TlsConfig) -> None:
    server = ServerTls(config)
    context = server.context
    assert not server.refresh()
    assert server.context is context


@pytest.mark.parametrize("way", ["in place", "by renaming", "as old as before"])
def test_new_files_are_taken(way: str, pair: Pair, config: TlsConfig, authority: Authority) -> None:
    server = ServerTls(config)
    before = number(server.context, authority)
    times = [os.stat(file).st_mtime_ns for file in (pair.certificate, pair.key)]
    second = authority.issue("second")
    if way == "by renaming":
        second.certificate.replace(pair.certificate)
        second.key.replace(pair.key)
    else:
        put(second, pair)
    if way == "as old as before":
        for file, time in zip((pair.certificate, pair.key), times, strict=True):
            os.utime(file, ns=(time, time))
    assert server.refresh()
    assert number(server.context, authority) != before
    assert not server.refresh()


def mounted(directory: Path, pair: Pair, version: str) -> None:
    """Lay a pair out as Kubernetes mounts a Secret: all files behind one link that is swapped."""
    there = directory / version
    there.mkdir(parents=True)
    put(pair, type(pair)(there / "tls.crt", there / "tls.key"))
    link = directory / "..data_tmp"
    link.symlink_to(version)
    link.rename(directory / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")


def test_the_swap_of_a_kubernetes_mount_is_noticed(
    pair: Pair, authority: Authority, tmp_path: Path
) -> None:
    mount = tmp_path / "mount"
    mounted(mount, pair, "..2026_01_01")
    server = ServerTls(config_of(type(pair)(mount / "tls.crt", mount / "tls.key")))
    before = number(server.context, authority)
    mounted(mount, authority.issue("second"), "..2026_02_02")
    assert server.refresh()
    assert number(server.context, authority) != before


def test_a_half_written_pair_keeps_the_old_one_and_is_told_once(
    pair: Pair, config: TlsConfig, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "grid.tls")
    server = ServerTls(config)
    context = server.context
    second = authority.issue("second")
    pair.certificate.write_bytes(second.certificate.read_bytes())
    assert [server.refresh() for _ in range(3)] == [False] * 3
    assert server.context is context
    pair.key.unlink()
    assert not server.refresh()
    pair.key.write_bytes(second.key.read_bytes())
    assert server.refresh()
    fields = [record.__dict__["grid_fields"] for record in caplog.records]
    whys = [str(each.get("why", "")) for each in fields]
    assert "is not the key of the certificate" in whys[0]
    assert "No such file" in whys[1]
    assert [record.getMessage() for record in caplog.records] == [
        *["certificate not reloaded, the old one stays"] * 2,
        "certificate reloaded",
    ]


def test_files_that_change_while_they_are_read_are_read_again(
    pair: Pair, config: TlsConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerTls(config)
    context = server.context
    second, third = authority.issue("second"), authority.issue("third")
    real = tls.server_context

    def slow(given: TlsConfig) -> ssl.SSLContext:
        made = real(given)
        put(third, pair)
        return made

    put(second, pair)
    with monkeypatch.context() as patched:
        patched.setattr(tls, "server_context", slow)
        assert not server.refresh()
    assert server.context is context
    assert server.refresh()
    expected = number(server_context(config_of(third)), authority)
    assert number(server.context, authority) == expected


async def test_the_poll_goes_on_after_a_bad_file(
    pair: Pair, config: TlsConfig, authority: Authority
) -> None:
    servers = [ServerTls(config), ServerTls(config)]
    contexts = [server.context for server in servers]
    second = authority.issue("second")
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: pair.certificate.write_text("garbage"),
        lambda: put(second, pair),
    ]
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        if not steps:
            raise asyncio.CancelledError
        steps.pop(0)()

    async def in_thread(work: Callable[[], bool]) -> bool:
        return work()

    polling: Awaitable[None] = keep_fresh(servers, wait=wait, in_thread=in_thread, period_s=7)
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert waited == [7] * 4
    assert all(s.context is not c for s, c in zip(servers, contexts, strict=True))
