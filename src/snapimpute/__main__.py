"""`python -m snapimpute`: the command."""

from snapimpute.cli import main

if __name__ == "__main__":
    main()
