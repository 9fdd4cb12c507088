"""Local elasticity: how far a step on one sample moves others."""
