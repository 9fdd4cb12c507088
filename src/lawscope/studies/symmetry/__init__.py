"""Studies of symmetry and collapse: Ziyin 2024."""
