"""Plain data requests from the socket to the engine and back, without a task."""
