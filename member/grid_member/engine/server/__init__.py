"""The process of the nats-server: its configuration, launch, output and renewal."""
