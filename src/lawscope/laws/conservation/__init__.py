"""Symmetries of a network, the charges they conserve, and how training breaks them."""
