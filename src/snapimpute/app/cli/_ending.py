"""Ends of the command: its exit codes, and the exceptions that lead to them."""

BAD_INPUT, INTERRUPTED = 1, 130


class InterruptedCommandError(Exception):
    """Ctrl-C, as it leaves a command: typer would end without a word."""


class ReaderGoneError(Exception):
    """Whoever read our output has gone, such as `head`."""
