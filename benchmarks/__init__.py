"""Speed and memory as ratios to named peers, measured in one run: ``make bench``."""
