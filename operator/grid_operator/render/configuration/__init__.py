"""The configuration of the members as a tree, and as a file in YAML or XML."""
