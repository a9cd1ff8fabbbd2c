"""What the objectives share: who is paired with whom, and how sums over keys are computed without a matrix."""
