"""Who is in the cluster: joining, staying, locks, and stopping together."""
