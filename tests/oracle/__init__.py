"""Slow, literal NumPy versions of every equation. They share no code with the package."""
