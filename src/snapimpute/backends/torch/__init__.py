"""Arithmetic by PyTorch, on one CPU or GPU; imported when it is asked for."""
