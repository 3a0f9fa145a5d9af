"""Other systems for entries on a finite alphabet, to compare with."""

from snapimpute.rivals.base import DiscreteModel, Tuned, tuned
from snapimpute.rivals.likelihood import MultinomialCompletion, OneBit
from snapimpute.rivals.robust import RobustDiscrete
from snapimpute.rivals.thresholds import ThresholdCompletion

__all__ = [
    "DiscreteModel",
    "MultinomialCompletion",
    "OneBit",
    "RobustDiscrete",
    "ThresholdCompletion",
    "Tuned",
    "tuned",
]
