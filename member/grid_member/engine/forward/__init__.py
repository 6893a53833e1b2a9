"""How members without data ask others for it."""
