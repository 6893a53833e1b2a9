"""The CP subsystem: its members, groups and sessions."""
