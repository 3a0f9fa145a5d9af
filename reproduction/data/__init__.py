"""Data sets of the studies that may not come with the package: read from the user's files."""
