"""The conditions of a GridCluster: status, reason and message of each."""
