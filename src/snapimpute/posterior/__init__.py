"""The ordinal posterior: the alphabet in the likelihood of what was observed."""

from snapimpute.posterior.diagnostics import Candidate, Diagnostics
from snapimpute.posterior.fit import PosteriorFit, Sweep
from snapimpute.posterior.forecast import PosteriorForecast
from snapimpute.posterior.model import Posterior

__all__ = ["Candidate", "Diagnostics", "Posterior", "PosteriorFit", "PosteriorForecast", "Sweep"]
