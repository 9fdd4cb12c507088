"""The law of next-token prediction (He & Su 2024)."""
