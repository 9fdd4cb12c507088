"""What a person hands over, as batches: inputs, labels, masks, tokens and their targets."""
