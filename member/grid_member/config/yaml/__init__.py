"""Configurations in YAML and JSON."""
