"""The pure part of WAN replication: stamps, merging, tombstones, queues, what is agreed on."""
