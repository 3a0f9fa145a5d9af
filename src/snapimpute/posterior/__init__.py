"""The ordinal posterior: the alphabet in the likelihood of what was observed."""
