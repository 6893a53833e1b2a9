"""The files of the members' TLS, looked at before there is a server that would complain of them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from grid_member.security.tls import load_authorities, load_pair

if TYPE_CHECKING:
    from grid_member.config.model.security import TlsConfig


def check_members_tls(config: TlsConfig) -> None:
    """Refuse files that no server of members can use; which are out of date is told with it.

    Raises:
        TlsError: one is missing, unreadable or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, config, encrypted="members need a key that is not")
    if config.client_ca is not None:
        load_authorities(context, f"{config.setting}.ca-file", config.client_ca)
