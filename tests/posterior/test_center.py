"""The centre of the prior of a full covariance: a factor model, and links between two columns alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.posterior._covariance import factor_covariance, with_links


def grouped() -> np.ndarray:
    """Thirty columns in five groups; the first two, of different groups, correlate at .8."""
    group = np.arange(30) % 5
    correlation = np.where(group[:, None] == group, 0.4, 0.15)
    correlation[0, 1] = correlation[1, 0] = 0.8
    np.fill_diagonal(correlation, 1.0)
    return correlation


def test_a_link_of_two_columns_is_kept_beside_the_factors():
    """Five factors go to the five groups and leave the link out; with a limit of .2 the centre has it alone."""
    without, within = (factor_covariance(grouped(), 5, np.full((30, 30), least)) for least in (9.0, 0.2))
    assert without[0, 1] < 0.45
    assert within[0, 1] == pytest.approx(0.8)
    changed = without != within
    assert changed.sum() == 2
    assert changed[0, 1]


def test_links_that_no_correlation_matrix_has_become_smaller():
    """The centre stays positive definite: links that contradict each other shrink together."""
    links = np.zeros((3, 3))
    links[0, 1] = links[1, 0] = links[0, 2] = links[2, 0] = 0.95
    found = with_links(np.eye(3), links)
    assert np.linalg.eigvalsh(found)[0] > 5e-4
    assert 0.5 < found[0, 1] < 0.95
    assert_allclose(found[0, 2], found[0, 1])
    assert_array_equal(np.diag(found), 1.0)
    assert_array_equal(with_links(np.eye(3), 0.5 * links), np.eye(3) + 0.5 * links)
