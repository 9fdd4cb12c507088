"""The law of representations: what a layer reads, what it weighs and what it is corrected by."""
