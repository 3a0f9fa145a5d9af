"""Complete matrices whose entries come from a finite alphabet."""

from snapimpute.alphabet import Alphabet
from snapimpute.observations import Observations

__all__ = ["Alphabet", "Observations"]
