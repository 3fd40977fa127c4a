"""Timings run on demand: `python -m tests.benchmarks`. Ratios of one run, never asserted."""
