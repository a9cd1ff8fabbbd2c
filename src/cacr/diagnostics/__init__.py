"""Measure what an encoder has learned: metrics of its embeddings, a verdict, and relations between images."""
