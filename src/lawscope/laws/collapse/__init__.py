"""Neural collapse and minority collapse (Papyan et al. 2020; Fang et al. 2021)."""
