"""The representation studies (Ziyin et al. 2024c): alignments of layers and their phases."""
