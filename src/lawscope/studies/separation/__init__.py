"""The law of data separation: the figures of He & Su 2023."""
