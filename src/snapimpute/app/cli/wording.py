"""Messages of the library in the words of the command."""

import re

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
