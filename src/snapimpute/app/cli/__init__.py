"""The command line: one small file a command.

A file of a command says its options, and imports what it computes with when it is called: `--help` needs none of it.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from snapimpute.app.cli._ending import BAD_INPUT, INTERRUPTED, InterruptedCommandError, ReaderGoneError

__all__ = ["main"]


def main() -> None:
    """Run the `snapimpute` command; errors of users get one line, and no traceback."""
    expected = (ValueError, TypeError, OSError, MemoryError, ImportError, KeyboardInterrupt)
    try:
        _app()()
    except ReaderGoneError:  # which is no error
        _forget_the_rest()
        sys.exit(0)
    except (*expected, InterruptedCommandError) as err:
        if os.environ.get("SNAPIMPUTE_DEBUG"):
            raise
        _end(err)


def _app() -> Callable[[], Any]:
    """Load the commands: an interruption by then must not show a traceback either."""
    try:
        from snapimpute.app.cli.app import app
    except ImportError as err:
        raise ImportError(
            f"the command needs a package that is not installed ({err.name}). "
            'Install it with: pip install "snapimpute[app]"'
        ) from err
    return app


def _forget_the_rest() -> None:
    """Discard text that standard output refused: Python would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(err: BaseException) -> NoReturn:
    """Say what is wrong, and leave."""
    if isinstance(err, KeyboardInterrupt | InterruptedCommandError):
        sys.stderr.write("snapimpute: interrupted; no file was left half written\n")
        sys.exit(INTERRUPTED)
    from snapimpute.app.cli._wording import in_options

    text = in_options(err)
    if isinstance(err, OSError) and err.errno is not None:
        from snapimpute.app.io import in_plain_words

        text = in_plain_words(err)
    if isinstance(err, MemoryError):
        text = text or "there is not enough memory: close other programs, or take a smaller table"
    one_line = " ".join((text or type(err).__name__).splitlines())
    sys.stderr.write(f"snapimpute: {one_line}\n")
    _forget_the_rest()
    sys.exit(BAD_INPUT)
