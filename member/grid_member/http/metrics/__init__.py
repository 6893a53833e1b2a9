"""What a member shows to Prometheus."""
