"""What the command `grid-member` does, a module for each of its verbs."""
