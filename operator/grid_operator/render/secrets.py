"""The Secrets that a spec names: which there are, which are made, and what is wrong with them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import ConfigValidReason
from grid_operator.api.desired import SpecProblem
from grid_operator.api.names import (
    PASSWORD_KEY,
    TLS_AUTHORITY_KEY,
    TLS_CERTIFICATE_KEY,
    TLS_KEY_KEY,
    USERNAME_KEY,
    identity_secret_name,
    management_secret_name,
    wan_secret_name,
)
from grid_operator.api.security import ClientCertificates
from grid_operator.render.configuration.wan import publisher_secrets
from grid_operator.render.context import SecretContent
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext

MAX_PASSWORD_LENGTH: Final = 4096
"""The members' own limit, in characters."""
MAX_LICENSE_BYTES: Final = 8192
"""The members' own limit, in UTF-8."""
RECORD_PREFIX: Final = "secret/"
"""In the StatefulSet's record: a Secret that members were given."""
KEYED_DIGITS: Final = 16
"""Hexadecimal digits kept of a keyed digest."""
IDENTITY_USER: Final = "member"
WAN_USER: Final = "wan"
WAN_TLS_KEYS: Final = (TLS_CERTIFICATE_KEY, TLS_KEY_KEY, TLS_AUTHORITY_KEY)
_USERNAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,128}")


def generated_secrets(cluster: GridCluster) -> dict[str, str]:
    """Return the Secrets that are made when they are absent: the user name in each, by name."""
    security = cluster.spec.security
    name = cluster.metadata.name
    secret = listener_secret(cluster)
    found = {} if secret is None else {secret: WAN_USER}
    if security.enabled:
        found |= {user.secret_name: user.name for user in security.users}
        found[identity_secret_name(name)] = IDENTITY_USER
    return found


def listener_secret(cluster: GridCluster) -> str | None:
    """Return the Secret that clusters show which send changes, None when none is taken."""
    listener = cluster.spec.wan_listener
    if not listener.enabled:
        return None
    return listener.secret_name or wan_secret_name(cluster.metadata.name)


def named_secrets(cluster: GridCluster) -> tuple[str, ...]:
    """Return the names of the Secrets whose content rendering needs."""
    spec = cluster.spec
    names = set(generated_secrets(cluster))
    if spec.tls is not None:
        names.add(spec.tls.secret_name)
    if spec.license is not None:
        names.add(spec.license.secret_name)
    if spec.wan_listener.tls is not None:
        names.add(spec.wan_listener.tls.secret_name)
    names.update(publisher_secrets(spec))
    return tuple(sorted(names))


def tls_keys(spec: GridClusterSpec) -> tuple[str, ...]:
    """Return the keys of the Secret of `spec.tls` that members read."""
    if spec.tls is None:
        return ()
    checks_clients = spec.tls.client_certificates is not ClientCertificates.NONE
    authority = (TLS_AUTHORITY_KEY,) if checks_clients or spec.encrypts_members else ()
    return (TLS_CERTIFICATE_KEY, TLS_KEY_KEY, *authority)


def secret_content(secret: KubeObject, cluster: GridCluster) -> SecretContent:
    """Return a live Secret's content."""
    owners = secret["metadata"].get("ownerReferences", ())
    return SecretContent(
        {
            key: text
            for key, value in (secret.get("data") or {}).items()
            if (text := _decoded(value)) is not None
        },
        any(owner["uid"] == cluster.metadata.uid for owner in owners),
    )


def complete_secrets(
    cluster: GridCluster,
    found: Mapping[str, SecretContent],
    recorded: Mapping[str, str] | None,
    has_pods: bool,
    make_password: Callable[[], str],
) -> dict[str, SecretContent]:
    """Return what was found with content for the Secrets that are to be made now.

    A Secret that members were given is not made anew while there are any: they would go on with
    the lost password, and everybody else with the new one.
    """
    made = {
        name: SecretContent({USERNAME_KEY: user, PASSWORD_KEY: make_password()}, owned=True)
        for name, user in generated_secrets(cluster).items()
        if name not in found and not (has_pods and f"{RECORD_PREFIX}{name}" in (recorded or {}))
    }
    return {**found, **made}


def secret_problem(cluster: GridCluster, context: RenderContext) -> SpecProblem | None:
    """Return what the Secrets that the spec names lack, None when all is there."""
    missing = [name for name in named_secrets(cluster) if name not in context.secrets]
    if missing:
        return SpecProblem(ConfigValidReason.SECRET_MISSING, _missing_text(cluster, missing))
    wrong = list(_content_problems(cluster, context))
    return SpecProblem(ConfigValidReason.INVALID_SECRET, "; ".join(wrong)) if wrong else None


def generated_secret_objects(cluster: GridCluster, context: RenderContext) -> list[KubeObject]:
    """Return the Secrets of users and members that the operator makes."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": child_metadata(cluster, name),
            "type": "Opaque",
            "data": {
                key: encoded(content.data[key])
                for key in (USERNAME_KEY, PASSWORD_KEY)
                if key in content.data
            },
        }
        for name in sorted(generated_secrets(cluster))
        if (content := context.secrets.get(name)) is not None and content.owned
    ]


def password_of(context: RenderContext, name: str) -> str:
    """Return the password in a Secret; empty when it is missing."""
    content = context.secrets.get(name)
    return "" if content is None else content.data.get(PASSWORD_KEY, "")


def username_of(context: RenderContext, name: str) -> str:
    """Return the user name in a Secret; empty when it is missing."""
    content = context.secrets.get(name)
    return "" if content is None else content.data.get(USERNAME_KEY, "")


def license_text(cluster: GridCluster, context: RenderContext) -> str:
    """Return the license that members are given; empty when there is none."""
    wanted = cluster.spec.license
    content = context.secrets.get(wanted.secret_name) if wanted is not None else None
    if wanted is None or content is None:
        return ""
    return content.data.get(wanted.key, "").strip()


def keyed_digest(context: RenderContext, *texts: str) -> str:
    """Return a digest that tells nothing to whoever does not know the management password."""
    key = context.management_password.encode()
    message = json.dumps(texts).encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()[:KEYED_DIGITS]


def encoded(text: str) -> str:
    """Return text as a Secret's `data` holds it."""
    return base64.b64encode(text.encode()).decode()


def _missing_text(cluster: GridCluster, missing: list[str]) -> str:
    made = generated_secrets(cluster)
    return "; ".join(
        f"Secret {name} is not there and members run with its password: create it again with "
        f"{USERNAME_KEY} and {PASSWORD_KEY}; {_another_password(cluster, name)}"
        if name in made
        else f"Secret {name} is not there: create it"
        for name in missing
    )


def _another_password(cluster: GridCluster, name: str) -> str:
    if cluster.spec.is_alone or name != identity_secret_name(cluster.metadata.name):
        return "another password restarts the members"
    return "with another password no members would join each other before all of them were stopped"


def _content_problems(cluster: GridCluster, context: RenderContext) -> Iterator[str]:
    own = management_secret_name(cluster.metadata.name)
    if own in named_secrets(cluster):
        yield f"Secret {own} is the operator's own: name another one"
    for name in generated_secrets(cluster):
        yield from _password_problems(name, context.secrets[name].data)
    yield from _username_problems(cluster, context)
    yield from _tls_problems(cluster, context)
    yield from _license_problems(cluster, context)
    yield from _wan_problems(cluster, context)


def _username_problems(cluster: GridCluster, context: RenderContext) -> Iterator[str]:
    security = cluster.spec.security
    if security.enabled:
        identity = identity_secret_name(cluster.metadata.name)
        if not _USERNAME.fullmatch(context.secrets[identity].data.get(USERNAME_KEY, "")):
            yield (
                f"Secret {identity}: {USERNAME_KEY} must be a name of letters, digits, dots, "
                "dashes, underscores and @"
            )
    for user in security.users:
        if context.secrets[user.secret_name].data.get(USERNAME_KEY, user.name) != user.name:
            yield (
                f"Secret {user.secret_name}: {USERNAME_KEY} is not the name of user {user.name}: "
                "set it so, or remove the key"
            )


def _password_problems(name: str, data: Mapping[str, str]) -> Iterator[str]:
    password = data.get(PASSWORD_KEY, "")
    if not password:
        yield f"Secret {name} has no {PASSWORD_KEY} in UTF-8: add it"
    elif len(password) > MAX_PASSWORD_LENGTH:
        yield f"Secret {name}: {PASSWORD_KEY} has more than {MAX_PASSWORD_LENGTH} characters"
    elif any(unicodedata.category(c) == "Cc" for c in password):
        yield (
            f"Secret {name}: {PASSWORD_KEY} holds a line break or another control character, "
            "perhaps at its end: remove it"
        )


def _tls_problems(cluster: GridCluster, context: RenderContext) -> Iterator[str]:
    tls = cluster.spec.tls
    if tls is None:
        return
    for key in tls_keys(cluster.spec):
        if not context.secrets[tls.secret_name].data.get(key):
            reason = _authority_reason(cluster, context) if key == TLS_AUTHORITY_KEY else ""
            yield f"Secret {tls.secret_name} has no {key}: add it{reason}"


def _authority_reason(cluster: GridCluster, context: RenderContext) -> str:
    if not cluster.spec.encrypts_members:
        return ""
    # Of members that are there that would be another identity, which is refused.
    plain = "; with spec.tls.members: false they speak plain text with each other"
    return f", as members check each other by it{plain if context.has_nobody else ''}"


def _license_problems(cluster: GridCluster, context: RenderContext) -> Iterator[str]:
    wanted = cluster.spec.license
    if wanted is None:
        return
    text = license_text(cluster, context)
    if not text:
        yield f"Secret {wanted.secret_name} has no {wanted.key} in UTF-8: add it"
    elif len(text.encode()) > MAX_LICENSE_BYTES:
        yield f"Secret {wanted.secret_name}: {wanted.key} is longer than {MAX_LICENSE_BYTES} bytes"


def _wan_problems(cluster: GridCluster, context: RenderContext) -> Iterator[str]:
    shown, asked = publisher_secrets(cluster.spec), listener_secret(cluster)
    for name in sorted({*shown, *(() if asked is None else (asked,))}):
        data = context.secrets[name].data
        if not _USERNAME.fullmatch(data.get(USERNAME_KEY, "")):
            yield (
                f"Secret {name}: {USERNAME_KEY} must be a name of letters, digits, dots, dashes, "
                "underscores and @"
            )
        if name not in generated_secrets(cluster):
            yield from _password_problems(name, data)
    tls = cluster.spec.wan_listener.tls
    for key in WAN_TLS_KEYS if tls is not None else ():
        if tls is not None and not context.secrets[tls.secret_name].data.get(key):
            yield f"Secret {tls.secret_name} has no {key}: add it"


def _decoded(value: Any) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        return None
