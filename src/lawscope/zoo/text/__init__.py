"""Text: the King James Bible, labelled sentences, and their tokens."""
