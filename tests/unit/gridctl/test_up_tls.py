"""`gridctl up` with TLS: three real members that speak it with clients and with each other."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.security.certificates import Authority, common_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.gridctl.running import Up
    from tests.unit.member.security.certificates import Pair

SIZE = 3
MEMBERS_PORT = 5704
CALL_S = 10


def address(up: Up, member: int) -> str:
    return str(ipaddress.IPv4Address(up.address) + member)


def issue(authority: Authority, up: Up) -> Pair:
    """Return a certificate for what the operator, clients and members call them."""
    hosts = (f"IP:{address(up, member)}" for member in range(SIZE))
    return authority.issue("members", names=",".join(["DNS:*.demo-members.default.svc", *hosts]))


def keep(up: Up, authority: Authority, pair: Pair) -> None:
    secret = up.directory / "data" / "default" / ".secrets" / "mine"
    secret.mkdir(parents=True, mode=0o700)
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.file}
    for key, file in files.items():
        (secret / key).write_bytes(file.read_bytes())


def shown(up: Up, member: int, context: ssl.SSLContext) -> str:
    """Return whose certificate a member shows to another one, once that one is let in."""
    host = address(up, member)
    with (
        socket.create_connection((host, MEMBERS_PORT), CALL_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        assert encrypted.recv(4) == b"INFO"
        return common_name(encrypted.getpeercert())


@pytest.mark.parametrize(
    "form",
    [{}, {"advancedNetwork": {"enabled": True, "restPort": 5701}, "configFormat": "Xml"}],
    ids=["network in YAML", "advanced network in XML"],
)
def test_three_members_meet_over_tls_alone(up: Up, tmp_path: Path, form: dict[str, object]) -> None:
    authority = Authority(tmp_path)
    pair = issue(authority, up)
    keep(up, authority, pair)
    up.write(size=SIZE, tls={"secretName": "mine"}, **form)
    up.start()

    client, member = authority.client(), authority.client(pair)
    for number, method, body in ((0, "POST", b"1"), (1, "GET", None), (2, "GET", None)):
        url = f"https://{address(up, number)}:5701/grid/rest/maps/default/a"
        request = urllib.request.Request(url, body, method=method)
        with urllib.request.urlopen(request, timeout=CALL_S, context=client) as answer:
            assert answer.status == 200
            assert method == "POST" or answer.read() == b"1"
        assert shown(up, number, member) == "members"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shown(up, number, client)  # shows no certificate
    assert up.state()["membersTls"] is True
