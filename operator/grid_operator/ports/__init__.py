"""The world outside: Protocols, and the clients that implement them."""
