"""The law of next-token prediction: the figures of He & Su (document 000, part III)."""
