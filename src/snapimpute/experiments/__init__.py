"""Experiments: methods side by side on the same entries, with their controls."""
