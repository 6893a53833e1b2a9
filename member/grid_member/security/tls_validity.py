"""Whether a certificate is in its time, without a library that can read one.

A context shows the certificate to a client in this process that trusts the whole file as it is. So
there is nothing else that OpenSSL could have against it but its time, or that of one that follows:
who trusts another root may do without that one.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_WHY: Final = {
    9: "it, or one that follows it in the file, is not valid yet: look at the clock",
    10: "it, or one that follows it in the file, has expired: renew it",
}
"""By OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


def why_invalid(context: ssl.SSLContext, certificate: Path) -> str | None:
    """Return what is wrong with the time of a certificate, None when nothing is.

    Args:
        context: of a server, which shows it.
        certificate: it and the intermediate ones, in PEM format.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        trusting.load_verify_locations(certificate)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(to_server, to_client, server_side=True)
        client = trusting.wrap_bio(to_client, to_server)
        for side in (client, server, client):
            _go_on(side)
    except ssl.SSLCertVerificationError as refused:
        return _WHY.get(refused.verify_code)
    except OSError:
        pass  # of something else, which who connects is told
    return None


def _go_on(side: ssl.SSLObject) -> None:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return
