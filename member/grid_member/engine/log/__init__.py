"""The contract of a log, and the log of a member that keeps nothing."""
