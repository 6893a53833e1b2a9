"""Compares a map of two clusters: what they ask each other, and what differs."""
