"""One member: its phases, and what it does about changes that others made."""
