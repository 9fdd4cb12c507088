"""The locally elastic SDE (Zhang, Wang & Su 2021) and its estimators: docs/elasticity.md."""
