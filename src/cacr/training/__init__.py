"""Training: check and resolve settings, the training loop, checkpoints, one or many processes."""
