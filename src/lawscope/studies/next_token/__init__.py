"""The law of next-token prediction: the figures of He & Su 2024."""
