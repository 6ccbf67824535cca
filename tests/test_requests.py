"""What a policy says of its requests to the recommender's third party is not taken on trust."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from taciturn.envs import recommender_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.recommender.sharing import Request
from taciturn.wrappers import TreeAggregation

EPSILON = 0.5
ASKED = np.array([[True, False, False]])


def shop(channel: str = "statistics") -> Any:
    env: Any = recommender_v0.population(1, num_agents=3, num_items=20, repository=10, horizon=40, graph="complete")
    distributions = {channel: ChannelConfig(TreeAggregation(EPSILON))}
    env.reset(seed=0, options={"channels": distributions, "public_schedule": True})
    return env


def ask(
    env: Any, names: Sequence[float], counts: Sequence[float], sums: Sequence[float], entered: Any = (), merged: int = 3
) -> Array:
    """Agent 0 asks for these streams; returns the answer's sums."""

    def of_all(values: Sequence[float], kind: Any) -> Array:
        return np.broadcast_to(np.array(values, kind), (1, 3, len(values)))

    request = Request(
        ASKED,
        of_all(sums, float),
        of_all(counts, np.int64),
        of_all(names, np.uint64),
        lambda who: who.astype(np.int64),
        np.full(3, merged),
        lambda who, reader: entered,
    )
    answer: Array = env.consult(request)[0][0, 0]
    return answer


def spent(env: Any, channel: str = "statistics") -> Array:
    found: Array = env.accountant.epsilon(delta=0.0, method="basic", channel=channel)[0]
    return found


@pytest.mark.parametrize("channel", ["statistics", "counts"])
@pytest.mark.parametrize("entered", [(), np.zeros((1, 3), np.int64)], ids=["nobody", "a count"])
def test_a_new_name_is_charged_whatever_the_policy_says(channel: str, entered: Any) -> None:
    """Ten names for one record: nothing was charged, and its value certified 0.30."""
    env = shop(channel)
    for name in range(10):
        ask(env, [name], [1], [1.0], entered)
        np.testing.assert_allclose(spent(env, channel), (name + 1) * EPSILON)
    ask(env, [9], [1], [1.0], entered)
    np.testing.assert_allclose(spent(env, channel), 10 * EPSILON), "the same answer again is free"
    ask(env, [9, 10, 11], [2, 1, 0], [1.0, 0.0, 0.0], entered)
    np.testing.assert_allclose(spent(env, channel), 12 * EPSILON)


def test_records_that_are_named_are_charged_as_before() -> None:
    """Two records of agent 2 and one of agent 1, in two streams; then one of them in a third."""
    env = shop()
    one, two = np.ones(1, np.int64), np.array([0, 0])
    three = ((np.zeros(2, np.int64), np.full(2, 2), np.array([0, 1])), (0 * one, one, 0 * one))
    ask(env, [1, 2], [2, 1], [2.0, 0.0], three)
    np.testing.assert_allclose(spent(env), [0, EPSILON, EPSILON])
    ask(env, [3], [1], [1.0], ((0 * one, 2 * one, two[:1]),))
    np.testing.assert_allclose(spent(env), [0, EPSILON, 2 * EPSILON])
    ask(env, [4, 5], [1, 1], [1.0, 1.0], ((0 * one, 2 * one, two[:1]),))
    np.testing.assert_allclose(spent(env), [2 * EPSILON, 3 * EPSILON, 5 * EPSILON]), "one record for two"


@pytest.mark.parametrize(
    ("counts", "sums", "message"),
    [
        (0, 2.0, "not 1 from 0 records"),  # the same noise twice: the difference is exact
        (1, 3.0, "not 2 from 1 records"),
        (-1, 1.0, "not 0 from -1 records"),
    ],
)
def test_streams_only_grow_and_by_records(counts: int, sums: float, message: str) -> None:
    """After an answer with the sum 1 of two records; and a stream without records, which would have no noise."""
    env = shop()
    ask(env, [7], [2], [1.0])
    with pytest.raises(ValueError, match=message):
        ask(env, [7], [2 + counts], [sums])
    with pytest.raises(ValueError, match="not 1 from 0 records"):
        ask(env, [8], [0], [1.0])


def test_a_stream_is_not_longer_than_its_noise_allows_for() -> None:
    env = shop()
    with pytest.raises(
        ValueError, match=r"merged must contain all agents .* not \[1, 1, 1\], which is too few for 100 records"
    ):
        ask(env, [7], [100], [50.0], merged=1)
    ask(env, [7], [100], [50.0], merged=3)


def test_names_of_the_worlds_own_streams_are_refused() -> None:
    with pytest.raises(ValueError, match=r"streams must have names below 2\^63"):
        ask(shop(), [2**63 + 5], [1], [1.0], np.zeros((1, 3), np.int64))
