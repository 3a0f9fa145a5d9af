"""Every discrete penalty at a strength at which its shape can be seen."""

from __future__ import annotations

from snapimpute.data.alphabet import Alphabet
from snapimpute.penalties import L0, L1, CellPenalty, ComposedL1, FractionalL0, Lp, Ridge

RATINGS, SIGNS = Alphabet.of("1:5"), Alphabet.of("-1,1")

GALLERY: dict[str, tuple[Alphabet, dict[str, CellPenalty]]] = {
    "ratings": (
        RATINGS,
        {
            "Ridge (control)": Ridge(3.0, 0.05),
            "L1": L1(RATINGS, 0.1),
            "L1, weights\n.3 .6 1.4 1.7 1.1": L1(RATINGS, 0.1, [0.3, 0.6, 1.4, 1.7, 1.1]),
            "ComposedL1 (Eq. 15)": ComposedL1(RATINGS, 0.1),
            "Lp, p = ½": Lp(RATINGS, 0.05, 0.5),
            "L0": L0(RATINGS, 0.04),
            "L0, weights\n.3 .6 1.4 1.7 1.1": L0(RATINGS, 0.04, [0.3, 0.6, 1.4, 1.7, 1.1]),
            "FractionalL0, α = .05": FractionalL0(RATINGS, 0.04, 0.05),
        },
    ),
    "signs": (
        SIGNS,
        {
            "Ridge (control)": Ridge(0.0, 0.1),
            "L1": L1(SIGNS, 0.2),
            "Lp, p = ½": Lp(SIGNS, 0.2, 0.5),
            "L0": L0(SIGNS, 0.15),
            "FractionalL0, α = .5": FractionalL0(SIGNS, 0.15, 0.5),
            "FractionalL0, α = .05": FractionalL0(SIGNS, 0.15, 0.05),
        },
    ),
}
"""By alphabet: the penalties drawn, with their titles."""
