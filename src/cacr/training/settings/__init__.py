"""Settings of a run: read, merged, checked, and ``auto`` replaced."""
