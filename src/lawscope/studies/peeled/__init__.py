"""The Layer-Peeled Model: the theorems and figures of Fang et al. 2021."""
