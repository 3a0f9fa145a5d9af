"""An expert for square tables, whose rows and columns are the same things: boosted trees on paths between them."""

from snapimpute.experts.links.features import PathFeatures
from snapimpute.experts.links.fit import LINKS_KINDS, LinksDiagnostics, LinksFit, LinksStep
from snapimpute.experts.links.model import Links

__all__ = ["LINKS_KINDS", "Links", "LinksDiagnostics", "LinksFit", "LinksStep", "PathFeatures"]
