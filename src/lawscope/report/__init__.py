"""What you see: the page with its charts, and the summary in the terminal."""
