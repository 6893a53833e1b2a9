"""Rendering: a GridCluster in, the Kubernetes objects that it consists of out. Pure."""

from grid_operator.render.children import desired_state, render_children
from grid_operator.render.configuration.tree import configuration_tree
from grid_operator.render.context import RenderContext, SecretContent
from grid_operator.render.record import read_record
from grid_operator.render.secrets import complete_secrets, named_secrets, secret_content

__all__ = [
    "RenderContext",
    "SecretContent",
    "complete_secrets",
    "configuration_tree",
    "desired_state",
    "named_secrets",
    "read_record",
    "render_children",
    "secret_content",
]
