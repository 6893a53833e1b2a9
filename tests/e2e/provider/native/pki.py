"""The cluster's certificates and the kubeconfig of each component, made with openssl."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.commands import on_each, run
from tests.e2e.provider.layout import API_SERVICE_IP

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.provider.layout import Layout

VALID_DAYS: Final = "30"
CLIENT: Final = "clientAuth"
SERVER: Final = "serverAuth"


@dataclass(frozen=True, slots=True)
class Identity:
    """One certificate: its file name, subject, uses and the names that it proves."""

    file: str
    subject: str
    uses: str
    names: str = ""
    kubeconfig: bool = True


def write_pki(layout: Layout) -> None:
    """Write the authority, all certificates and kubeconfigs below `layout.pki`."""
    directory = layout.pki
    directory.mkdir(parents=True, mode=0o700)
    _write_authority(directory)
    on_each(lambda identity: _write_identity(layout, identity), _identities(layout))


def _identities(layout: Layout) -> list[Identity]:
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
    api_addresses = ("127.0.0.1", API_SERVICE_IP, layout.address(1))
    names = ",".join([f"DNS:{n}" for n in api_names] + [f"IP:{a}" for a in api_addresses])
    masters = "/O=system:masters"
    identities = [
        Identity("apiserver", "/CN=kube-apiserver", SERVER, names, kubeconfig=False),
        Identity("apiserver-kubelet", f"{masters}/CN=apiserver-kubelet", CLIENT, kubeconfig=False),
        Identity("admin", f"{masters}/CN=kubernetes-admin", CLIENT),
        Identity("controllers", "/CN=system:kube-controller-manager", CLIENT),
        Identity("scheduler", "/CN=system:kube-scheduler", CLIENT),
        Identity("proxy", "/CN=system:kube-proxy", CLIENT),
        Identity("coredns", "/CN=system:coredns", CLIENT),
    ]
    for node in layout.workers:
        subject = f"/O=system:nodes/CN=system:node:{node.name}"
        # The API server checks the kubelet's certificate, so it names the node's address.
        names = f"DNS:{node.name},IP:{node.address}"
        identities.append(Identity(f"node-{node.name}", subject, f"{CLIENT},{SERVER}", names))
    return identities


def _write_key(path: Path) -> None:
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _write_authority(directory: Path) -> None:
    key, certificate = directory / "ca.key", directory / "ca.crt"
    _write_key(key)
    extensions = (
        "basicConstraints=critical,CA:TRUE",
        "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
    )
    run(
        *("openssl", "req", "-x509", "-new", "-sha256", "-days", VALID_DAYS),
        *("-key", key, "-subj", "/CN=grid-test-ca", "-out", certificate),
        *(word for extension in extensions for word in ("-addext", extension)),
    )
    tokens = directory / "service-accounts"
    run("openssl", "genrsa", "-out", f"{tokens}.key", "2048")
    run("openssl", "rsa", "-in", f"{tokens}.key", "-pubout", "-out", f"{tokens}.pub")


def _write_identity(layout: Layout, identity: Identity) -> None:
    directory = layout.pki
    stem = directory / identity.file
    _write_key(directory / f"{identity.file}.key")
    extensions = [
        "keyUsage=critical,digitalSignature,keyEncipherment",
        f"extendedKeyUsage={identity.uses}",
    ]
    if identity.names:
        extensions.append(f"subjectAltName={identity.names}")
    (directory / f"{identity.file}.ext").write_text("\n".join(extensions) + "\n")
    request = run("openssl", "req", "-new", "-key", f"{stem}.key", "-subj", identity.subject)
    run(
        *("openssl", "x509", "-req", "-sha256", "-days", VALID_DAYS),
        *("-CA", directory / "ca.crt", "-CAkey", directory / "ca.key"),
        *("-extfile", f"{stem}.ext", "-out", f"{stem}.crt"),
        stdin=request,
    )
    if identity.kubeconfig:
        _write_kubeconfig(layout, identity.file)


def _write_kubeconfig(layout: Layout, user: str) -> None:
    def content(file: str) -> str:
        return base64.b64encode((layout.pki / file).read_bytes()).decode()

    (layout.pki / f"{user}.kubeconfig").write_text(
        f"""apiVersion: v1
kind: Config
clusters:
- name: grid-{layout.name}
  cluster:
    server: {layout.api_server}
    certificate-authority-data: {content("ca.crt")}
users:
- name: {user}
  user:
    client-certificate-data: {content(f"{user}.crt")}
    client-key-data: {content(f"{user}.key")}
contexts:
- name: grid-{layout.name}
  context: {{cluster: grid-{layout.name}, user: {user}}}
current-context: grid-{layout.name}
"""
    )
