"""Rendering: a GridCluster in, the Kubernetes objects that it consists of out. Pure."""

from grid_operator.render.children import render_children
from grid_operator.render.config import configuration_tree
from grid_operator.render.context import RenderContext

__all__ = ["RenderContext", "configuration_tree", "render_children"]
