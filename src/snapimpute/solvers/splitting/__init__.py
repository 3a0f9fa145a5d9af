"""Splitting methods: the parts of the objective take turns on copies of the matrix."""
