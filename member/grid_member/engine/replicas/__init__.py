"""Where the copies of the streams are, on which servers, and moving them."""
