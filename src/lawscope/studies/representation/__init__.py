"""The representation studies (Ziyin, Chuang et al. 2024): alignments of layers and their phases."""
