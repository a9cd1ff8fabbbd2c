"""Training: settings checked and resolved, the loop, checkpoints, one process or many."""
