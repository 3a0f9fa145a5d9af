"""Older methods, kept to compare with: they are slow, dense or solve another problem."""
