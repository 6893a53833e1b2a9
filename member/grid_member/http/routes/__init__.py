"""The operations behind the rows of the routing table."""
