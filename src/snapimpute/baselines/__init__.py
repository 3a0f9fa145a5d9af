"""What a completion has to beat: constants and biases, and other systems for entries on a finite alphabet."""

from snapimpute.baselines.base import Tuned, tuned
from snapimpute.baselines.likelihood import MultinomialCompletion, OneBit
from snapimpute.baselines.simple import ConstantMean, DampedBiases, Mode
from snapimpute.baselines.thresholds import ThresholdCompletion

__all__ = [
    "ConstantMean",
    "DampedBiases",
    "Mode",
    "MultinomialCompletion",
    "OneBit",
    "ThresholdCompletion",
    "Tuned",
    "tuned",
]
