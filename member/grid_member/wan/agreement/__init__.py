"""What the members of a cluster agree on about WAN replication, and what calls change of it."""
