"""The law of data separation: the figures of He & Su (document 003)."""
