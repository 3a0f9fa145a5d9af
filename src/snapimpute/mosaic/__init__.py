"""Rows as mosaics of classes, and of each other, along columns that stand in an order."""

from snapimpute.mosaic._choice import Trial
from snapimpute.mosaic._run import Round
from snapimpute.mosaic._settings import Settings
from snapimpute.mosaic.diagnostics import MosaicDiagnostics
from snapimpute.mosaic.fit import MosaicFit
from snapimpute.mosaic.forecast import MosaicForecast
from snapimpute.mosaic.model import Mosaic

__all__ = ["Mosaic", "MosaicDiagnostics", "MosaicFit", "MosaicForecast", "Round", "Settings", "Trial"]
