"""The law of data separation (He & Su 2023)."""
