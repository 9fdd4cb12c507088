"""Studies of conservation laws and the noise that breaks them (Ziyin et al. 2024)."""
