"""Arithmetic by the workers of a Dask cluster; imported when it is asked for."""
