"""The OpenAPI 3.1 description of the interface, made from the routing table."""
