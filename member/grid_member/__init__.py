"""The member: maps and queues over HTTP, for one cluster member."""
