"""The paper's evaluation and the studies behind the documentation: `python -m reproduction`."""
