"""The worlds by hand that `benchmarks/parallel_view.py` times ours against are the same worlds: the same runs for the
same seed."""

from typing import Any

import numpy as np
import pytest
from distributions import same_moments
from reference_implementations import REFERENCE_IMPLEMENTATIONS

from taciturn import registry
from taciturn.compiling.counter_streams import binomial, sources_of
from taciturn.envs.core import Array, Streams

DRAWN = slice(0, 6)  # what is observed of copies in the social bandit, where the two draw in different ways


def pair(name: str, **changed: Any) -> tuple[Any, Any]:
    """Ours and the world by hand."""
    known, reference_implementation = registry.entry(name), REFERENCE_IMPLEMENTATIONS[name]
    size = {**reference_implementation.size, **changed}
    named = {known.size if key == "num_agents" else key: value for key, value in size.items()}
    return known.world.parallel_env(**named), reference_implementation.made(**size)


def actions(env: Any, seed: int) -> list[dict[str, Any]]:
    """Random ones, of which the recommender's hit an agent's items half of the time."""
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(1000 * seed + i)
    return [{agent: env.action_space(agent).sample() for agent in env.possible_agents} for _ in range(60)]


@pytest.mark.parametrize("name", REFERENCE_IMPLEMENTATIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_run(name: str, seed: int) -> None:
    ours, by_hand = pair(name)
    rounded: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}
    drawn = DRAWN if name == "social_bandit_v0" else slice(0, 0)
    if name == "arm_elimination_v0":  # sums of rewards, which NumPy draws in another way
        rng = sources_of(Streams(seed).entropy, "", ("rewards",), np.arange(1))[0]
        by_hand.sum_of_rewards = lambda pulls, mean: binomial(pulls, mean, rng, 0)
    (seen, _), (other, _) = ours.reset(seed=seed), by_hand.reset(seed=seed)
    for chosen in actions(ours, seed):
        assert list(seen) == list(other)
        for agent in seen:
            assert seen[agent].shape == other[agent].shape
            assert seen[agent].dtype == other[agent].dtype
            np.testing.assert_allclose(np.delete(other[agent], drawn), np.delete(seen[agent], drawn), **rounded)
        if not ours.agents:
            break
        seen, rewards, terminated, truncated, infos = ours.step(chosen)
        other, *rest, told = by_hand.step(chosen)
        assert list(rewards) == list(rest[0])
        np.testing.assert_allclose(list(rest[0].values()), list(rewards.values()), **rounded)
        assert [terminated, truncated] == rest[1:]
        for agent, info in told.items():
            for key, value in info.items():
                np.testing.assert_allclose(value, infos[agent][key], **rounded)
    assert not ours.agents
    assert not by_hand.agents


def test_copies_of_the_social_bandit() -> None:
    """What two of seven agents receive, moments over 2,000 resets each with other seeds. False alarms: 1e-5."""
    found: list[Array] = []
    for env in pair("social_bandit_v0", copies=3):
        seen = []
        for seed in range(2000):
            observation, _ = env.reset(seed=seed + 10_000 * len(found))
            one = np.array(list(observation.values()), np.float64)
            assert one[:, 5].sum() == one[:, :5].sum() == 21
            seen.append([one[0, 0], one[0, 5], one[1, 1], (one[:, 5] ** 2).sum()])
        found.append(np.array(seen))
    assert same_moments(*found) > 1e-5
