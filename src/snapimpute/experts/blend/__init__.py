"""The blend: several experts, weighed on held-out cells, and one more fit of those that have weight."""

from snapimpute.experts.blend.fit import BlendFit, Member
from snapimpute.experts.blend.model import Blend
from snapimpute.experts.blend.pool import Pool
from snapimpute.experts.blend.report import BlendVerdict, ExpertScore, Step

__all__ = ["Blend", "BlendFit", "BlendVerdict", "ExpertScore", "Member", "Pool", "Step"]
