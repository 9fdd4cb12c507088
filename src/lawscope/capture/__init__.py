"""Finding the stations of a network and reading what flows through them."""
