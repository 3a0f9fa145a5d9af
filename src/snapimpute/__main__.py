"""`python -m snapimpute`: the command."""

from snapimpute.app.cli import main

if __name__ == "__main__":
    main()
