"""Coverage-guided fuzzing of the readers; run on demand, see `__main__`."""
