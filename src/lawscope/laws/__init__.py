"""The laws: statistics in, a result with a fit, an interval, a verdict and advice out."""
