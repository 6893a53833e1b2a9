"""WAN replication from what a document says, with the checks that span several elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.addresses import ADDRESS_FORMS, is_address, split_address
from grid_member.config.model.wan import (
    WAN_PORT,
    WanConfig,
    WanPublisherConfig,
    WanReferenceConfig,
    WanReplicationConfig,
    WanTargetTlsConfig,
)
from grid_member.config.names import WILDCARD
from grid_member.config.settings.shape import path_text
from grid_member.config.settings.wan import MAX_INVOCATIONS

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from grid_member.config.build_network import ListenerSettings
    from grid_member.config.build_security import Realms
    from grid_member.config.model.member import User
    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values

MAX_REPLICATIONS: Final = 16
MAX_PUBLISHERS: Final = 8
"""Of one replication."""
MAX_ENDPOINTS: Final = 32
"""Of one publisher."""
MAX_PATTERNS: Final = 32
"""That include, and as many that exclude."""
MAX_NAME_BYTES: Final = 255
_REPLICATIONS: Final[Path] = ("wan-replication",)
_ACCEPTED: Final[Path] = ("wan", "accepted-clusters")
_LATEST_UPDATE: Final = "LatestUpdateMergePolicy"
_NO_EVICTION: Final = "NONE"


def wan_name_problem(name: str) -> str | None:
    """Return why a text cannot name a replication or a publisher, None when it can."""
    if "&" in name:
        return "must not contain &, which separates the parameters of WAN calls"
    if not 0 < len(name.encode(errors="surrogatepass")) <= MAX_NAME_BYTES:
        return f"must have from 1 to {MAX_NAME_BYTES} bytes"
    return None


def target_endpoints(text: str) -> tuple[tuple[str, int], ...] | str:
    """Return hosts and ports of a list with commas in it, or why it is none."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_ENDPOINTS:
        return f"must have at most {MAX_ENDPOINTS} addresses"
    if not all(map(is_address, parts)):
        return f"must be addresses with commas between them, each of them {ADDRESS_FORMS}"
    found = [split_address(part) for part in parts]
    return tuple((host, port or WAN_PORT) for host, port in found)


def wan_config(
    values: Values, realms: Realms, listeners: ListenerSettings, directory: FilePath
) -> WanConfig:
    """Return all of WAN replication but the listener and what maps say. Notes problems in found.

    Args:
        values: the document.
        realms: where the identities are that publishers show.
        listeners: where the WAN listener is configured, whose files publishers use as well.
        directory: what relative files are relative to.
    """
    publishers = _Publishers(values, realms, (*listeners.wan_section, "ssl"), directory)
    names = [str(name) for name in values.children(_REPLICATIONS)]
    if len(names) > MAX_REPLICATIONS:
        values.complain(_REPLICATIONS, f"must have at most {MAX_REPLICATIONS} replications")
    for name in names:
        _check_name(values, (*_REPLICATIONS, name))
    accepted = [(*_ACCEPTED, index) for index in values.children(_ACCEPTED)]
    if not accepted and values.is_written(_ACCEPTED):
        # An empty list read as none would accept every cluster.
        message = "names no cluster: leave it out, which accepts all, or name one"
        values.complain(_ACCEPTED, message)
    config = WanConfig(
        {name: WanReplicationConfig(name, publishers.of(name)) for name in names},
        tuple(str(values.find(path)) for path in accepted) if accepted else None,
        tombstone_retention_s=values.number(("wan", "tombstone-retention-seconds")),
        max_tombstones=values.number(("wan", "max-tombstones")),
        max_clock_ahead_s=values.number(("wan", "max-clock-ahead-seconds")),
        identities=realms.identities,
        tls=publishers.default_tls,
        tls_problem=publishers.default_tls_problem,
    )
    if listeners.wan is not None:
        _warn_of_two_ways(values, config)
    return config


def map_reference(
    values: Values, path: Path, *, declared_here: bool = True
) -> WanReferenceConfig | None:
    """Return the `wan-replication-ref` of the map at path, None without one. Notes problems.

    Args:
        values: the document.
        path: of the map.
        declared_here: whether the document must declare the replication.
    """
    base: Path = (*path, "wan-replication-ref")
    names = [str(name) for name in values.children(base)]
    if len(names) > 1:
        message = "must name one replication: a replication has several publishers"
        values.complain(base, message)
    if not names:
        return None
    name = names[0]
    if declared_here and not values.is_written((*_REPLICATIONS, name)):
        values.complain((*base, name), "no replication of this name in wan-replication")
    _warn_of_what_stays(values, path)
    return WanReferenceConfig(
        replication=name,
        merge_policy=values.text((*base, name, "merge-policy-class-name")) or "",
        republishing=values.flag((*base, name, "republishing-enabled")),
        include=_patterns(values, (*base, name, "key-filter", "include")),
        exclude=_patterns(values, (*base, name, "key-filter", "exclude")),
    )


def _patterns(values: Values, path: Path) -> tuple[str, ...]:
    items: list[Path] = [(*path, index) for index in values.children(path)]
    if len(items) > MAX_PATTERNS:
        values.complain(path, f"must have at most {MAX_PATTERNS} patterns")
    found = []
    for item in items:
        pattern = str(values.find(item) or "")
        if pattern.count(WILDCARD) > 1:
            values.complain(item, "may hold one * only")
        found.append(pattern)
    return tuple(found)


def _check_name(values: Values, path: Path) -> None:
    problem = wan_name_problem(str(path[-1]))
    if problem is not None:
        values.complain(path, f"the name {problem}")


def _warn_of_what_stays(values: Values, path: Path) -> None:
    """Warn of entries that go in one cluster and stay in the other."""
    policy = values.text((*path, "eviction", "eviction-policy"))
    for setting, stands in (
        ("eviction", policy not in (None, _NO_EVICTION)),
        ("max-idle-seconds", values.number((*path, "max-idle-seconds"))),
    ):
        if stands:
            message = (
                "is not replicated: an entry that goes by it stays in the other cluster, the "
                "clusters agree on what both hold"
            )
            values.warn((*path, setting), message)


def _warn_of_two_ways(values: Values, config: WanConfig) -> None:
    """Warn of maps that are written on both sides with a policy that is made for one side."""
    for name in [str(name) for name in values.children(("map",))]:
        base: Path = ("map", name, "wan-replication-ref")
        for replication in [str(each) for each in values.children(base)]:
            path: Path = (*base, replication, "merge-policy-class-name")
            policy = values.text(path)
            if policy not in (None, _LATEST_UPDATE) and _sends_back(config, replication):
                message = (
                    f"{policy} is for one direction only, and this cluster takes changes of the "
                    f"cluster that it sends to: use {_LATEST_UPDATE} where both write"
                )
                values.warn(path, message)


def _sends_back(config: WanConfig, replication: str) -> bool:
    found = config.replications.get(replication)
    targets = {each.cluster_name for each in found.publishers.values()} if found else set()
    accepted = config.accepted_clusters
    return bool(targets) and (accepted is None or not targets.isdisjoint(accepted))


class _Publishers:
    def __init__(
        self, values: Values, realms: Realms, listener_ssl: Path, directory: FilePath
    ) -> None:
        self._values = values
        self._realms = realms
        self._listener_ssl = listener_ssl
        self._directory = directory

    @property
    def default_tls(self) -> WanTargetTlsConfig | None:
        """What publishers speak TLS with that are added at run time."""
        section = self._listener_ssl
        authorities = self._authorities(section)
        if authorities is None or not self._values.flag((*section, "enabled")):
            return None
        return self._target_tls(section, authorities)

    @property
    def default_tls_problem(self) -> str:
        """Why publishers that are added at run time cannot speak TLS, empty when they can."""
        section = self._listener_ssl
        if self._values.flag((*section, "enabled")) and not self._values.text(
            (*section, "ca-file")
        ):
            return f"{path_text(section)} has no ca-file"
        return ""

    def of(self, replication: str) -> dict[str, WanPublisherConfig]:
        """Return the publishers of a replication, by id. Notes problems in found."""
        base: Path = (*_REPLICATIONS, replication, "batch-publisher")
        names = [str(name) for name in self._values.children(base)]
        if len(names) > MAX_PUBLISHERS:
            self._values.complain(base, f"must have at most {MAX_PUBLISHERS} publishers")
        for name in names:
            _check_name(self._values, (*base, name))
        return {name: self._publisher((*base, name)) for name in names}

    def _publisher(self, path: Path) -> WanPublisherConfig:
        values = self._values

        def number(name: str) -> int:
            return values.number((*path, name))

        def text(*names: str) -> str:
            return values.text((*path, *names)) or ""

        tls = self._tls((*path, "ssl"))
        return WanPublisherConfig(
            publisher_id=str(path[-1]),
            cluster_name=self._cluster_name(path),
            target_endpoints=self._endpoints(path),
            realm=values.text((*path, "realm")),
            identity=self._identity(path, tls),
            tls=tls,
            batch_size=number("batch-size"),
            batch_max_delay_ms=number("batch-max-delay-millis"),
            response_timeout_ms=number("response-timeout-millis"),
            queue_capacity=number("queue-capacity"),
            queue_full_behavior=text("queue-full-behavior"),
            max_concurrent_invocations=self._invocations(path),
            discovery_period_s=number("discovery-period-seconds"),
            max_target_endpoints=number("max-target-endpoints"),
            initial_publisher_state=text("initial-publisher-state"),
            consistency_check_strategy=text("sync", "consistency-check-strategy"),
            extra_entries=text("sync", "extra-entries"),
            compression=text("compression"),
        )

    def _cluster_name(self, path: Path) -> str:
        name = self._values.text((*path, "cluster-name"))
        if name is None:
            self._complain_missing(path, "cluster-name", "the cluster-name of the target")
        return name or ""

    def _endpoints(self, path: Path) -> tuple[tuple[str, int], ...]:
        text = self._values.text((*path, "target-endpoints"))
        if text is None:
            self._complain_missing(path, "target-endpoints", "addresses of the target's WAN port")
            return ()
        found = target_endpoints(text)
        if isinstance(found, str):
            self._values.complain((*path, "target-endpoints"), found)
            return ()
        return found

    def _complain_missing(self, path: Path, name: str, meaning: str) -> None:
        # What is written and wrong is told of already.
        if not self._values.is_written((*path, name)):
            self._values.complain(path, f"needs {name}: {meaning}")

    def _invocations(self, path: Path) -> int:
        count = self._values.number((*path, "max-concurrent-invocations"))
        if count == 0:
            message = f"must be -1 or from 1 to {MAX_INVOCATIONS}"
            self._values.complain((*path, "max-concurrent-invocations"), message)
        return count

    def _identity(self, path: Path, tls: WanTargetTlsConfig | None) -> User | None:
        realm = self._values.text((*path, "realm"))
        if realm is not None:
            return self._realms.target_identity(realm, (*path, "realm"))
        if tls is None or tls.certificate is None:
            message = (
                "needs a realm, the name of one of security.realms whose identity the member shows "
                "to the target, or an ssl with a certificate-file"
            )
            self._values.complain(path, message)
        return None

    def _tls(self, section: Path) -> WanTargetTlsConfig | None:
        """Return how the member speaks TLS with the target: its own files, or the listener's."""
        values = self._values
        enabled = values.find((*section, "enabled"))
        if enabled is None:
            enabled = values.flag((*self._listener_ssl, "enabled"))
        self._check_own_files(section)
        if not enabled:
            return None
        authorities = self._authorities(section)
        if authorities is None:
            written = section if values.is_written(section) else section[:-1]
            message = (
                "needs a ca-file, the authorities that the target's certificate is from, here or "
                f"in {path_text(self._listener_ssl)}"
            )
            values.complain(written, message)
        return self._target_tls(section, authorities or "")

    def _authorities(self, section: Path) -> str | None:
        own = self._values.text((*section, "ca-file"))
        return own or self._values.text((*self._listener_ssl, "ca-file"))

    def _check_own_files(self, section: Path) -> None:
        values = self._values
        own = values.is_written((*section, "certificate-file"))
        if own and not values.is_written((*section, "key-file")):
            values.complain(section, "needs a key-file beside its certificate-file")
        for name in () if own else ("key-file", "key-password"):
            if values.is_written((*section, name)):
                values.complain((*section, name), "needs a certificate-file beside it")

    def _target_tls(self, section: Path, authorities: str) -> WanTargetTlsConfig:
        values, directory = self._values, self._directory
        own = values.is_written((*section, "certificate-file"))
        shown = section if own else self._listener_ssl
        certificate = values.text((*shown, "certificate-file"))
        key = values.text((*shown, "key-file"))
        version = values.find((*section, "minimum-version"))
        version = version or values.text((*self._listener_ssl, "minimum-version"))
        return WanTargetTlsConfig(
            setting=path_text(section if values.is_written(section) else self._listener_ssl),
            ca=directory / authorities,
            certificate=None if certificate is None else directory / certificate,
            key=None if key is None else directory / key,
            key_password=values.text((*shown, "key-password")),
            minimum_version=str(version),
        )
