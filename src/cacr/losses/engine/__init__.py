"""Shared computations of objectives: which embeddings are paired, and sums over keys without a full matrix."""
