"""A run folder as one type: what lies in it, who wrote it, what it tells."""
