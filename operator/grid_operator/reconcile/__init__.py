"""Observe, decide, apply; and the queue that says when."""
