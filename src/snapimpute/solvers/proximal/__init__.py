"""Proximal gradient methods: one gradient step, one threshold of singular values an iteration."""
