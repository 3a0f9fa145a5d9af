"""Gradient boosting of histogram trees, in compiled passes of our own.

Why not scikit-learn's `HistGradientBoostingClassifier`: it cannot start from given log-probabilities, and its trees
can only be saved by pickle or through private attributes.
"""

from snapimpute.experts.boosting.trees import BOOSTING_KINDS, BoostedTrees

__all__ = ["BOOSTING_KINDS", "BoostedTrees"]
