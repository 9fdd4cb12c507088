"""The papers' networks and datasets."""
