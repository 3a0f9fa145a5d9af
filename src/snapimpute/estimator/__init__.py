"""The estimator: from a table to a tuned fit, its predictions and its file."""
