"""A member's configuration: one neutral tree, one table of settings, one typed model."""

from grid_member.config.load import Config, config_from, parse_config
from grid_member.config.model.cluster import ClusterConfig
from grid_member.config.model.member import (
    EndpointGroup,
    EvictionConfig,
    ListenerConfig,
    MemberConfig,
)
from grid_member.config.tree import ConfigError, Problem

__all__ = [
    "ClusterConfig",
    "Config",
    "ConfigError",
    "EndpointGroup",
    "EvictionConfig",
    "ListenerConfig",
    "MemberConfig",
    "Problem",
    "config_from",
    "parse_config",
]
