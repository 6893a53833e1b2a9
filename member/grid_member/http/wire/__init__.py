"""Connections of clients: what arrives, how it is cut into requests, how answers are written."""
