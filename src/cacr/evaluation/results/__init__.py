"""Results: metrics, reports of suites, and comparisons of runs."""
