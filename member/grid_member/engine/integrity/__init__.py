"""How far logs were read, and what has become of the data in them."""
