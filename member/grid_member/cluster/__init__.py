"""What a member is and does as part of its cluster: identity, lifecycle, health, its log."""
