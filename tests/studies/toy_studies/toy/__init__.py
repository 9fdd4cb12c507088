"""The family ``toy``."""
