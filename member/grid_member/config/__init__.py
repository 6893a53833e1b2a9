"""A member's configuration: one neutral tree, one table of settings, one typed model."""

from grid_member.config.load import default_config, load_config, parse_config
from grid_member.config.model import EndpointGroup, ListenerConfig, MemberConfig
from grid_member.config.tree import ConfigError, Problem

__all__ = [
    "ConfigError",
    "EndpointGroup",
    "ListenerConfig",
    "MemberConfig",
    "Problem",
    "default_config",
    "load_config",
    "parse_config",
]
