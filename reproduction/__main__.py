"""`python -m reproduction`: run a study."""

from reproduction.cli import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m reproduction")
