"""Optimisers, learning rates over time, averages of weights."""
