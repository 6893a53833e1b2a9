"""One shard: operations go through its log, and their answers come back."""
