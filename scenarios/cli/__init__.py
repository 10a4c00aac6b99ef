"""The command line."""

from scenarios.cli.app import main

__all__ = ["main"]
