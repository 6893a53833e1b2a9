"""Live children beside what was rendered: what differs, what may, and what goes."""
