"""Small values that every member agrees on, and what is kept in them."""
