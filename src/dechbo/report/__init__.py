"""The report of a benchmark: every figure and table in one HTML page."""
