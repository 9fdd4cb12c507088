"""Studies of local elasticity and the LE-SDE (Zhang, Wang & Su 2021)."""
