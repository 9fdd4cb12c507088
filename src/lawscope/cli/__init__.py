"""The command line: argv to functions, errors to sentences."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``lawscope`` command."""
    from lawscope.cli.app import run

    run()
