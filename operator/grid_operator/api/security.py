"""The part of a GridCluster's spec that names Secrets: users, certificates, the license."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from grid_operator.api.base import ATOMIC_LIST, ObjectName, Rule, SpecModel, list_map
from grid_operator.api.network import EndpointGroupName


class UserSpec(SpecModel):
    """One user who may call the members."""

    name: str = Field(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._@-]+$",
        description="The user's name.",
    )
    secret_name: ObjectName = Field(
        description="Secret with the key `password`, and perhaps `username`, the same name. "
        "Made once, with a random password, when there is none of this name."
    )


class SecuritySpec(SpecModel):
    """Who may call the members' REST port."""

    enabled: bool = Field(
        default=False,
        description="Ask callers of management endpoints for a user and password instead of the "
        "cluster's name.",
    )
    users: tuple[UserSpec, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra=list_map("name"),
        description="Who may call; none: the members' own identity, Secret NAME-identity.",
    )
    protected: tuple[EndpointGroupName, ...] = Field(
        default=(),
        max_length=len(EndpointGroupName),
        json_schema_extra=ATOMIC_LIST,
        description="Endpoint groups that ask for HTTP Basic authentication as a whole.",
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.enabled || (self.users.size() == 0 && self.protected.size() == 0)",
            "security.users and security.protected have no effect while security.enabled is false",
            lambda s: s.enabled or not (s.users or s.protected),
        ),
    )


class ClientCertificates(StrEnum):
    """Whether clients prove who they are by a certificate."""

    NONE = "None"
    OPTIONAL = "Optional"


class TlsSpec(SpecModel):
    """TLS of the REST port, the management listener and, of several members, between them."""

    secret_name: ObjectName = Field(
        description="Secret with tls.crt, tls.key and ca.crt, as cert-manager makes it. A changed "
        "certificate is used without a restart."
    )
    client_certificates: ClientCertificates = Field(
        default=ClientCertificates.NONE,
        description="Optional: a certificate that a client shows must be signed by ca.crt.",
    )
    members: bool | None = Field(
        default=None,
        description="Whether several members speak TLS with each other; none: a new cluster does, "
        "and one that is there goes on as it is. A stop of all members changes it.",
    )


class LicenseSpec(SpecModel):
    """The license that the members keep."""

    secret_name: ObjectName = Field(description="Secret that holds the license.")
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$")] = Field(
        default="license", min_length=1, max_length=253, description="Its key in the Secret."
    )
