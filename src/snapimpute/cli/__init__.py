"""The command line: one small file a command."""

import os
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

BAD_INPUT, INTERRUPTED = 1, 130

_WORDS = {
    "must become NaN or null before, or be named in missing=": "is named with --missing",
    "in missing=": "with --missing",
    "leave it out": "carry it along with --leave",
}
"""How the library speaks of its arguments, and how the command does."""

_NAMED = re.compile(
    r"alphabet=\[(?P<labels>[^\]]*)\](?:, or as an ordered categorical)?|backend=\"(?P<backend>[^\"]*)\""
)
"""Arguments with a value in words of the library."""

_ALPHABET = re.compile(r"Alphabet\(\[(.*?)\]\)")


class InterruptedCommandError(Exception):
    """Ctrl-C, as it leaves a command: typer would end without a word."""


class ReaderGoneError(Exception):
    """Whoever read our output has gone, such as `head`."""


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
    """Load the commands, which takes a second: an interruption by then must not show a traceback either."""
    try:
        from snapimpute.cli.app import app
    except ImportError as err:
        raise ImportError(
            f"the command needs a package that is not installed ({err.name}). "
            'Install it with: pip install "snapimpute[app]"'
        ) from err
    return app


def _forget_the_rest() -> None:
    """What standard output would not take: Python would try again when it ends, and complain of it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_options(text: str) -> str:
    """A message of the library, with options of the command for arguments of a function.

    Examples
    --------
    >>> in_options("give them in order, such as alphabet=['low', 'high'], or as an ordered categorical")
    'give them in order, such as --alphabet low,high'
    >>> in_options("1 value(s) not in Alphabet([1, 2, 3])")
    '1 value(s) not in the alphabet 1, 2, 3'
    """
    for old, new in _WORDS.items():
        text = text.replace(old, new)
    return _ALPHABET.sub(r"the alphabet \1", _NAMED.sub(_as_option, text))


def _as_option(found: re.Match[str]) -> str:
    if found["backend"] is not None:
        return f"--backend {found['backend']}"
    return "--alphabet " + ",".join(one.strip().strip("'\"") for one in found["labels"].split(","))


def _end(err: BaseException) -> NoReturn:
    """Say what is wrong, and leave."""
    if isinstance(err, KeyboardInterrupt | InterruptedCommandError):
        sys.stderr.write("snapimpute: interrupted; no file was left half written\n")
        sys.exit(INTERRUPTED)
    text = str(err)
    if isinstance(err, OSError) and err.errno is not None:
        from snapimpute.formats import in_plain_words

        text = in_plain_words(err)
    if isinstance(err, MemoryError):
        text = text or "there is not enough memory: close other programs, or take a smaller table"
    one_line = " ".join((in_options(text) or type(err).__name__).splitlines())
    sys.stderr.write(f"snapimpute: {one_line}\n")
    _forget_the_rest()
    sys.exit(BAD_INPUT)
