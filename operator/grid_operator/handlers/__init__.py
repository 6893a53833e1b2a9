"""kopf events to keys in the work queue."""
