"""Other systems for entries on a finite alphabet, to compare with."""

from reproduction.rivals.base import DiscreteModel, Tuned, tuned
from reproduction.rivals.likelihood import MultinomialCompletion, OneBit
from reproduction.rivals.robust import RobustDiscrete
from reproduction.rivals.thresholds import ThresholdCompletion

__all__ = [
    "DiscreteModel",
    "MultinomialCompletion",
    "OneBit",
    "RobustDiscrete",
    "ThresholdCompletion",
    "Tuned",
    "tuned",
]
