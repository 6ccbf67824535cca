"""Private bandits with a trusted curator, Azize & Basu 2022: the bound of their theorem."""

import numpy as np
import pytest

from taciturn_papers.azize2022.claims import upper_bound


def test_the_bound_of_theorem_7_by_hand() -> None:
    """Gaps of 1/8, 1/4, 3/8 and 1/2, alpha = 3.1, and ln 10^7."""
    assert upper_bound() == pytest.approx(16 * 3.1 * 7 * np.log(10) * (8 + 4 + 8 / 3 + 2) + 4 * 3.1 / 0.1)
