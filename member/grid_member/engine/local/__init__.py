"""The engine of a member that is alone, and what all engines share."""
