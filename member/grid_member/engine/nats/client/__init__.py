"""The client of a nats-server. `wire` is the protocol."""
