"""The engine of several members: shards, their making, and the full replicas."""
