"""What talks to the nats-server of a member. `client.wire` is the protocol."""
