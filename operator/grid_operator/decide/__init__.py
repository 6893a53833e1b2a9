"""Deciding: what was observed and what is wanted in, actions and status out. Pure."""

from grid_operator.decide.decision import decide

__all__ = ["decide"]
