"""Every figure of the papers by one command: train, measure, compare, with a verdict."""
