"""The table of settings: what a configuration may hold, and what is refused by name."""
