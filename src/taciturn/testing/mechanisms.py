"""Checks of a mechanism: it equals its copies, it draws from the given generator, its stated moments are right, and its
claim holds."""

import json
import pickle
from typing import Any

import numpy as np

from taciturn.adjacent import adjacent_pair
from taciturn.privacy.mechanisms import Mechanism
from taciturn.wrappers import audit
from taciturn.wrappers.channels import as_described, described

DRAWS = 20_000
ORDERS = np.array([1.5, 2.0, 8.0, 64.0])


def check_mechanism(mechanism: Mechanism) -> None:
    """Check a mechanism on two adjacent messages (`taciturn.adjacent.adjacent_pair`).

    The checks: it survives pickling and the plain form in the `spec` of an environment. The same generator gives the
    same messages, in the shape of the private values, and leaves these unchanged. If it sends numbers, the mean of
    `debias` over 20,000 messages is right to within 5.5 of the standard errors that `variance` implies. An audit of
    20,000 trials does not violate the claim at confidence 0.99995. A correct mechanism fails with a probability of at
    most 1e-4. A mechanism with floating-point noise is correct only if it declares itself `idealised`.
    """
    again = pickle.loads(pickle.dumps(mechanism))
    assert again == mechanism
    assert as_described(json.loads(json.dumps(described(mechanism), allow_nan=False))) == mechanism
    loss = mechanism.loss()
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert len({loss, again.loss()}) == 1
    divergence = loss.rdp(ORDERS)
    assert (divergence[1:] >= divergence[:-1]).all(), "Renyi divergence grows with its order"
    reach = getattr(mechanism, "sensitivity", None) or 1.0
    pair = [np.asarray(one) for one in adjacent_pair(mechanism)]
    for x in (np.stack([one, one]) for one in pair):
        before = x.copy()
        first, second = (one.perturb(x, np.random.default_rng(3), reach) for one in (mechanism, again))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(x, before)
        assert mechanism.stateful or np.shape(first)[:1] == (2,)
        if mechanism.stateful:
            untyped: Any = mechanism
            state = untyped.start((2,), horizon=4, sensitivity=reach)
            values = x[:, 0] if mechanism.payloads == {"stream"} else x
            steps = [
                one.step(values, np.random.default_rng(4), memory, sensitivity=reach)
                for one, memory in ((again, pickle.loads(pickle.dumps(state))), (untyped, state))
            ]
            np.testing.assert_array_equal(steps[0], steps[1])
        elif mechanism.payloads & {"one_hot", "bounded", "vector"}:
            check_mean(mechanism, x[0], reach)
    result = audit(mechanism, pair=(pair[0], pair[1]), trials=DRAWS, confidence=0.99995, seed=0)
    assert result.verdict != "violated", result


def check_mean(mechanism: Mechanism, x: Any, sensitivity: float) -> None:
    """The mean of `debias` over many messages about x equals x, to within standard errors from `variance`."""
    values = np.broadcast_to(x, (DRAWS, *np.shape(x)))
    result = mechanism.debias(
        mechanism.perturb(values, np.random.default_rng(5), sensitivity), np.ones(DRAWS, np.int64)
    )
    error = np.sqrt(mechanism.variance(x, sensitivity) / DRAWS)
    assert (np.abs(result.mean(0) - x) <= 5.5 * error + 1e-12).all(), (result.mean(0), x, error)
