"""The nats-server of a member and the clients that talk to it. `wire` is the protocol."""
