"""What was found: metrics, reports of suites, and comparisons of runs."""
