"""What the operator does in steps, each written down before it is done."""
