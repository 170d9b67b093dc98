"""Benchmarks: test problems, methods and peers, runs and their records, statistics and the paper's table."""
