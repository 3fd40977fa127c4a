"""The eight kinds of question, one file each, all of one shape: `propose` and `compose`.

A task knows no disk and no file format: it sees surveys, then frames.
"""
