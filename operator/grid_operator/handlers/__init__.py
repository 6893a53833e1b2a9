"""The watches that feed the work queue, the election, and the life of the process."""
