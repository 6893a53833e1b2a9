"""The published description of configurations, made from the table of settings."""
