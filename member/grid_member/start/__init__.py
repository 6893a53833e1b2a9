"""Starting a member inside a running event loop: the one way in for the command and for Python."""

from grid_member.start.handle import MemberHandle, StopError, start_member

__all__ = ["MemberHandle", "StopError", "start_member"]
