"""The stored data of a member: its start from it, its recovery and its backups."""
