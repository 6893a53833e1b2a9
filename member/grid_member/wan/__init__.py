"""WAN replication between clusters: the protocol, the sender and the receiver."""
