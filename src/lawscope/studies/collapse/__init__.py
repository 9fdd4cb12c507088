"""Neural collapse (Papyan et al. 2020) and minority collapse (Fang et al. 2021) in networks."""
