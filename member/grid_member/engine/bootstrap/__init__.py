"""How a member finds the others, and is let in by them, before its server begins."""
