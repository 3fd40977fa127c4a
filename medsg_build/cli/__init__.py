"""The command line: parse, call one function, print.

Results go to standard output, bars and complaints to standard error. Exit codes: 0 done,
1 findings, 2 recipe or usage, 3 source data, 4 too many failures.
"""

from .main import app

__all__ = ["app"]
