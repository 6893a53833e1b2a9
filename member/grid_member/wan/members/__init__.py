"""How the members of one cluster share the work of WAN replication."""
