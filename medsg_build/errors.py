"""What is raised on purpose. Each leaf knows its exit code and takes one argument, its message.

One argument, because an error raised in a worker process travels home by pickle, which calls the
class again with `args`: a richer constructor would break the whole pool.
"""


class MedsgError(Exception):
    """Something the user can mend; shown as one line, without a traceback."""

    exit_code = 1


class RecipeError(MedsgError):
    """A recipe, a manifest or a command line says something that cannot be meant."""

    exit_code = 2


class UnknownName(RecipeError):
    """A name that nothing answers to; the message lists those that would do."""


class SourceError(MedsgError):
    """A source file is missing, broken, or cannot be trusted; the message names it."""

    exit_code = 3


class TooManyFailures(MedsgError):
    """More cases failed than the recipe allows; the release that remains is not what was asked."""

    exit_code = 4


class ReleaseError(MedsgError):
    """A release folder, or a predictions file for it, cannot be read."""

    exit_code = 2
