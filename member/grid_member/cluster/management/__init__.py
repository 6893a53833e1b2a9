"""What the management calls work with."""
