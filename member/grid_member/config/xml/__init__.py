"""Configurations in XML."""
