"""What to do about what the laws say: remedies a person can apply to a network or its data."""
