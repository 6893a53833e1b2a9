"""What the log decides: maps, queues and system values, and the forms in which they are kept."""
