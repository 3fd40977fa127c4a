"""`python -m medsg_build.cli`, where the script is not on the path."""

from .main import app

app()
