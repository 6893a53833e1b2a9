"""What a round needs besides the cluster, its objects and its members: Secrets and records."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import (
    OPERATOR_NAME,
    PASSWORD_KEY,
    TLS_AUTHORITY_KEY,
    TLS_VOLUME,
    USERNAME_KEY,
    management_secret_name,
)
from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.ports.api import MemberAccess
from grid_operator.ports.members.address import is_encrypted
from grid_operator.render.context import RenderContext, SecretContent
from grid_operator.render.record import PUBLISHER_PREFIX, read_record
from grid_operator.render.secrets import complete_secrets, named_secrets, secret_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.ports.api import Kube

PASSWORD_BYTES: Final = 32


def new_password() -> str:
    """Return a password that nobody can guess."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


@dataclass(frozen=True, slots=True)
class Materials:
    """What rendering needs to know, and what opens the members."""

    context: RenderContext
    access: MemberAccess


class MaterialSource:
    """Reads the Secrets that a cluster needs, and makes up the content of those to be made."""

    def __init__(
        self, kube: Kube, operator_namespace: str, make_password: Callable[[], str] = new_password
    ) -> None:
        self._kube = kube
        self._operator_namespace = operator_namespace
        self._make_password = make_password

    async def gather(
        self,
        cluster: GridCluster,
        children: list[KubeObject],
        pods: list[KubeObject],
        claims: list[KubeObject],
        *,
        has_pods: bool,
    ) -> Materials:
        """Return the materials of this round.

        Content that is made up here is random; it lasts once the Secret was applied, and no pod
        is made before that.

        Args:
            cluster: The cluster.
            children: Its live children.
            pods: The members' pods that belong to the StatefulSet.
            claims: Its live volume claims.
            has_pods: Whether there are any, also such as belong to none and will be taken up.

        Raises:
            OperatorError: The API server was in the way.
        """
        management = management_secret_name(cluster.metadata.name)
        wanted = named_secrets(cluster)
        trusted = _tls_secrets(cluster, pods)
        live = await self._fetch(cluster, children, {management, *wanted, *trusted})
        content = {name: secret_content(secret, cluster) for name, secret in live.items()}
        stateful_set = next((c for c in children if c["kind"] == "StatefulSet"), None)
        recorded = None if stateful_set is None else read_record(stateful_set)
        named = {name: content[name] for name in wanted if name in content}
        username = _text(live.get(management), USERNAME_KEY) or OPERATOR_NAME
        password = _text(live.get(management), PASSWORD_KEY) or self._make_password()
        context = RenderContext(
            operator_namespace=self._operator_namespace,
            management_username=username,
            management_password=password,
            recorded=recorded,
            replicas=0 if stateful_set is None else int(stateful_set["spec"].get("replicas", 0)),
            has_pods=has_pods,
            secrets=complete_secrets(cluster, named, recorded, has_pods, self._make_password),
            claims=tuple(claims),
        )
        authority, asks_wan = _authority(content, trusted), _has_publishers(cluster, recorded)
        return Materials(context, MemberAccess(username, password, authority, asks_wan))

    async def _fetch(
        self, cluster: GridCluster, children: list[KubeObject], names: Iterable[str]
    ) -> dict[str, KubeObject]:
        """Return the live Secrets of these names; those among the children are not read again."""
        own = {c["metadata"]["name"]: c for c in children if c["kind"] == "Secret"}
        namespace = cluster.metadata.namespace
        missing = sorted(set(names) - own.keys())
        refs = [ObjectRef("v1", "Secret", namespace, name) for name in missing]
        found = await asyncio.gather(*map(self._kube.fetch, refs))
        read = {name: s for name, s in zip(missing, found, strict=True) if s is not None}
        return {name: secret for name, secret in (own | read).items() if name in set(names)}


def _tls_secrets(cluster: GridCluster, pods: list[KubeObject]) -> tuple[str, ...]:
    """Return the Secrets whose authorities members' certificates may be signed by.

    Those are the spec's and those of pods that an earlier spec made.
    """
    names = {
        volume["secret"]["secretName"]
        for pod in pods
        if is_encrypted(pod)
        for volume in pod["spec"].get("volumes", ())
        if volume["name"] == TLS_VOLUME and "secret" in volume
    }
    if cluster.spec.tls is not None:
        names.add(cluster.spec.tls.secret_name)
    return tuple(sorted(names))


def _has_publishers(cluster: GridCluster, recorded: Mapping[str, str] | None) -> bool:
    """Return whether members may have publishers, by the spec or by an earlier one."""
    named = any(replication.publishers for replication in cluster.spec.wan)
    return named or any(key.startswith(PUBLISHER_PREFIX) for key in recorded or ())


def _authority(content: Mapping[str, SecretContent], names: Iterable[str]) -> str:
    found = (content[name].data.get(TLS_AUTHORITY_KEY, "") for name in names if name in content)
    return "\n".join(text.strip() for text in found if text.strip())


def _text(secret: KubeObject | None, key: str) -> str:
    try:
        return base64.b64decode((secret or {}).get("data", {}).get(key, "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
