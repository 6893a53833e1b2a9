"""The log of one shard in a stream that several members share."""
