"""Where a run computes: devices, precision, one or many processes."""
