"""What a member says of itself while it runs: its log and its counters."""
