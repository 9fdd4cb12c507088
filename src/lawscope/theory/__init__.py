"""Models that predict what the measurements show. Pure numpy and scipy."""
