"""What a learner's network is given when it acts: the observation, by the mean and the deviation of all observations of
its training, computed here from what the training environment returned."""

from typing import Any

import numpy as np
import pytest
import worlds as tiny

pytest.importorskip("torch")

from taciturn.envs import gossip_bandit_v0, round_stopping_v0
from taciturn.envs.core import Array, Population
from taciturn.policies import LearnedStopping, SharedPPO
from taciturn.wrappers.sb3 import RowsVecEnv

# A learner, its world, and how many resets precede its statistics.
LEARNERS: dict[str, tuple[Any, Any, int]] = {
    "SharedPPO": (SharedPPO(steps=2_000, num_envs=4, n_steps=16), tiny.consensus_v0.population(3), 1),
    "SharedPPO, masked": (SharedPPO(steps=2_000, num_envs=4, n_steps=16), tiny.corridor_v0.population(3), 1),
    "LearnedStopping": (
        LearnedStopping(stages=1, steps=800, rows=8),
        round_stopping_v0.population(3, num_clients=6, slot_time=0.1, horizon=20.0),
        0,
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_network_gets_normalised_observations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, population, before = LEARNERS[name]
    returned: list[Array] = []

    def noted(own: Any) -> Any:
        def method(self: RowsVecEnv) -> Any:
            found = own(self)
            returned.append(found[0] if isinstance(found, tuple) else found)
            return found

        return method

    for method in ("reset", "step_wait"):
        monkeypatch.setattr(RowsVecEnv, method, noted(getattr(RowsVecEnv, method)))
    observation = begun(population, learner)
    assert len(returned) > 50, "it has learned"
    trained, given = np.concatenate(returned[before:]), list[Array]()
    network = learner._model.policy
    network.features_extractor.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].numpy()))
    for _ in range(3):
        learner.act(observation, None)
        fields = observation.reshape(-1, observation.shape[-1])[:, : trained.shape[1]]
        expected = np.clip((fields - trained.mean(0)) / np.sqrt(trained.var(0) + 1e-8), -10, 10)
        np.testing.assert_allclose(given[-1], expected, atol=3e-4)  # they begin with 1e-4 of a sample
        assert np.abs(expected - fields).max() > 0.1
        observation = observation + 0.01


def begun(population: Population[Any], learner: Any) -> Array:
    observation, _ = population.reset(seed=0)
    learner.reset(population, population.stream("policy"))
    return np.asarray(observation)


def test_a_network_that_ranks_options_gets_them_in_order() -> None:
    """Counts from the largest down, and the agent's own option in the same order, as in training."""
    population = gossip_bandit_v0.population(3, num_agents=6, num_options=4, horizon=4.0)
    learner = SharedPPO(steps=2_000, num_envs=4, n_steps=16, options=("counts", "own"), overrides={})
    observation, given = begun(population, learner), list[Array]()
    counts = np.random.default_rng(0).permuted(np.tile([0.1, 0.2, 0.3, 0.4], (3, 1, 1)), axis=-1)
    observation[..., :4] = counts
    observation[..., 5:9] = np.eye(4)[[2, 0, 1]][:, None]
    learner._model.policy.features_extractor.register_forward_pre_hook(lambda _, x: given.append(x[0].numpy()))
    learner.act(observation, None)
    order = np.argsort(-counts[:, 0], axis=-1)
    ranked = observation[:, 0].copy()
    ranked[:, :4] = np.take_along_axis(counts[:, 0], order, 1)
    ranked[:, 5:9] = np.take_along_axis(observation[:, 0, 5:9], order, 1)
    np.testing.assert_allclose(given[-1], learner._normal.normalize_obs(ranked), rtol=1e-5)
    assert not np.array_equal(ranked, observation[:, 0])
