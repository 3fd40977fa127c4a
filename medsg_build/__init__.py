"""Builds, checks and scores benchmarks for grounding in medical image sequences."""
