"""`python -m millrace.cli` is `millrace`."""

from millrace.cli.main import run

run()
