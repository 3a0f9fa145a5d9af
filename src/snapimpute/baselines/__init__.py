"""What a completion has to beat: constants and biases, and other systems for entries on a finite alphabet."""

from snapimpute.baselines.base import DiscreteModel, Tuned, tuned
from snapimpute.baselines.likelihood import MultinomialCompletion, OneBit
from snapimpute.baselines.robust import RobustDiscrete
from snapimpute.baselines.simple import ConstantMean, DampedBiases, Mode
from snapimpute.baselines.thresholds import ThresholdCompletion

__all__ = [
    "ConstantMean",
    "DampedBiases",
    "DiscreteModel",
    "Mode",
    "MultinomialCompletion",
    "OneBit",
    "RobustDiscrete",
    "ThresholdCompletion",
    "Tuned",
    "tuned",
]
