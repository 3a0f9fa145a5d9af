"""Scores of completed cells, and baselines that any model should beat."""
