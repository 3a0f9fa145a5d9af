"""The command line: one small file a command."""

import sys


def main() -> None:
    """Run the `snapimpute` command."""
    try:
        from snapimpute.cli.app import app
    except ImportError as err:
        sys.exit(
            f"snapimpute: the command needs a package that is not installed ({err.name}). "
            'Install it with: pip install "snapimpute[app]"'
        )
    app()
