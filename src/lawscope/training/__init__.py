"""The training that the studies need."""
