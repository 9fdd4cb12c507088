"""Studies that do not end by themselves."""
