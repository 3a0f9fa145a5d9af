"""Experts by name, and what an estimator's ``method`` stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snapimpute.base.errors import ArgumentError
from snapimpute.data.expert import Expert
from snapimpute.experts.blend import Blend
from snapimpute.experts.habits import Habits
from snapimpute.experts.links import Links
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.mosaic import Mosaic
from snapimpute.posterior import Posterior

METHODS: dict[str, Callable[[], Expert]] = {
    "auto": Blend,
    "posterior": Posterior,
    "mosaic": Mosaic,
    "proximal": Proximal,
    "links": Links,
    "habits": Habits,
}
"""Experts by the names that ``method`` takes."""


def expert_named(name: object, random_state: int) -> Expert:
    """Return an expert with its defaults, and a seed unless it leaves that open (None)."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(map(repr, METHODS))
        raise ArgumentError.must(
            "method", name, f"be one of {known}, an expert such as si.Posterior(), or a list of such"
        )
    one = METHODS[name]()
    return one if one.get_params().get("random_state") is None else one.with_params(random_state=random_state)


def expert_for(method: object, random_state: int = 0) -> Expert:
    """Return the expert that a method stands for, and leave open what it leaves open."""
    if isinstance(method, Sequence) and not isinstance(method, str):
        return Blend(tuple(one if isinstance(one, Expert) else expert_named(one, random_state) for one in method))
    return method if isinstance(method, Expert) else expert_named(method, random_state)


def expert_of(method: object, *, random_state: int = 0, **shared: Any) -> Expert:
    """Return the expert that a method stands for: by its name, itself, or a blend of several.

    What the estimator says of all experts (``backend``, ``dtype``, ``decide``) goes to those that leave it open.

    Examples
    --------
    >>> expert_of("posterior", random_state=3).random_state
    3
    >>> [one.label for one in expert_of(["posterior", Habits()]).experts]
    ['posterior', 'habits']
    """
    return expert_for(method, random_state).sharing(random_state=random_state, **shared)
