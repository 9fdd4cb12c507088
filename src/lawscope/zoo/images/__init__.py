"""Labelled images: the datasets of the papers by name, and datasets of your own."""
