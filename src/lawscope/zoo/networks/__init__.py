"""The networks of the papers, and language models from Hugging Face."""
