"""The tables and masks of learners, by hand: what is learned from which step, and which actions a learner may take."""

from typing import Any

import numpy as np
import pytest

from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, round_stopping_v0, social_bandit_v0
from taciturn.envs.core import Array
from taciturn.policies import LearnedStopping, SharedPPO, SocialQ, TabularQ
from taciturn.policies.learned.training import update_table
from taciturn.validation import Floats

LAW = (1.0, 0.0)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_a_cell_met_several_times_moves_by_its_mean_error_and_counts_every_visit() -> None:
    """Three targets for one cell, first visits, and one for another cell seen seven times; the others stay."""
    values, visits = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 0.0], [0.0, 7.0]])
    where = (np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1]))
    update_table(values, visits, where, np.array([5.0, 2.0, 8.0, 0.0]))
    # Rates: 3 visits of 3^0.8 (at most 1), and 1 of 8^0.8.
    np.testing.assert_allclose(values, [[1.0, 2.0 + 3.0 * min(1, 3 / 3**0.8)], [3.0, 4.0 - 4.0 / 8**0.8]], rtol=1e-12)
    np.testing.assert_array_equal(visits, [[0, 3], [0, 8]])


def table(**settings: Any) -> Any:
    """SocialQ as it stands in the middle of training: 3 options, 4 bins, exact messages."""
    q: Any = SocialQ(bins=4, epsilon=0.0, **settings)
    env = gossip_bandit_v0.population(2, num_agents=10, qualities=(0.9, 0.5, 0.1))
    env.reset(seed=0)
    q._values, q._visits = np.zeros((5, 4, 5)), np.zeros((5, 4, 5))
    q.reset(env, generator())
    q._distribution = LAW
    return q


def seen(q: Any, counts: list[list[float]], own: list[int]) -> Array:
    """Observations of one row a replica, which has heard 10 messages."""
    held = np.array([[float(k == o) for k in range(3)] for o in own])
    fields = {"counts": np.array(counts) / 10, "received": np.ones((len(own), 1)), "own": held}
    space = {name: value[:, None] for name, value in fields.items()}
    if "q" in q._layout.fields:
        space["q"] = np.zeros((len(own), 1, 1))
    return np.asarray(q._layout.pack(**space))


def test_social_q_learns_of_the_state_that_it_acted_in() -> None:
    """Shares .3 and .6 of 4 bins are bins 1 and 2; without an option the extra bin; a replica that ended has no value
    after it."""
    q = table(gamma=0.5)
    q._values[...] = 0.0
    q._values[1, 2, 3] = 1.0
    q._values[4, 3, 0] = 2.0
    q._learning = True
    first = q.act(seen(q, [[3, 6, 1], [1, 0, 9]], [0, -1]))
    assert [int(m) for m in np.ravel(q._last[2])] == [3, 0]
    assert [np.ravel(x).tolist() for x in q._last[:2]] == [[1, 4], [2, 3]]
    assert first.shape[:2] == (2, 1)
    q.update(None, first, np.array([[0.5], [0.25]]), np.array([False, True]))
    q.act(seen(q, [[3, 6, 1], [3, 6, 1]], [0, 0]))
    # One visit, rate 1: reward plus half the best value of the next state, which is none after the end.
    assert q._values[1, 2, 3] == 0.5 + 0.5 * 1.0
    assert q._values[4, 3, 0] == 0.25
    assert q._visits.sum() == 2


def test_social_q_learns_from_every_step_but_the_last_of_all() -> None:
    """Of 120 rounds of 2 replicas with 8 agents, the last of a run included: a run has 50 rounds."""
    q: Any = SocialQ(steps=120 * 16, num_envs=2)
    env = social_bandit_v0.population(2, num_agents=8)
    env.reset(seed=0)
    q.reset(env, generator())
    assert q._visits.sum() == 119 * 16


@pytest.mark.parametrize(
    ("move", "option", "adopts"),
    [(0, {3}, (0, 1)), (1, {0, 1}, (0, 1)), (2, {1}, (0, 1)), (3, {0, 1, 2}, (0, 1)), (4, {1}, (1, 1))],
)
def test_moves_of_social_q(move: int, option: set[int], adopts: tuple[int, int]) -> None:
    """In 300 rows: nothing, an option in proportion to its share, the most popular, any; only the last move adopts
    whatever the signal."""
    q = table()
    q._flat = False
    plans = q._plan(np.full((300, 1), move), np.tile([0.4, 0.6, 0.0], (300, 1, 1)))[:, 0]
    assert set(plans[:, 0].tolist()) == option
    assert {tuple(row) for row in plans[:, 1:].tolist()} == {adopts}


def stopping() -> Any:
    q: Any = TabularQ(sessions=1)
    q._values, q._visits = np.zeros((4, 4, 2)), np.zeros((4, 4, 2))
    env = round_stopping_v0.population(2, num_clients=3)
    env.reset(seed=0)
    q.reset(env, generator())
    q._earned, q._spent, q._slot, q._broadcast = 0.0, 1.0, 0.1, 2.0
    return q


def test_tabular_q_stops_where_both_are_worth_the_same() -> None:
    q = stopping()
    q._values[1, 0] = 0.3, 0.3
    assert not q.waits(np.array([1]), np.array([0]), np.array([0.0]))[0]


def test_tabular_q_does_not_learn_from_replicas_that_are_over() -> None:
    """Two replicas act; one is over. Its cell keeps its value and its number of visits."""
    q = stopping()
    q._learning = True
    layout = q._layout
    fields = {name: np.zeros((2, 1, size)) for name, (size, *_) in layout.fields.items()}
    fields["received"] = np.array([[[1.0]], [[2.0]]])
    obs = layout.pack(**fields)
    q.update(obs, np.array([[1], [1]]), np.array([[0.0], [0.0]]), np.array([False, True]))
    live = q._pending[-1]
    assert live.tolist() == [[True], [False]]
    q.act(obs)
    assert q._visits[1].sum() == 1
    assert q._visits[2].sum() == 0


def test_the_stage_with_the_best_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stages with rates 1, 3 and 2: the rule after training is that of the second."""
    pytest.importorskip("stable_baselines3")
    rule: Any = LearnedStopping(stages=3, steps=16, rows=2)
    from taciturn.policies.learned import round_stopping as module

    rates = iter((1.0, 3.0, 2.0))
    weights: list[Floats] = []

    class Trial:
        """Stands for the sessions in which a stage is tried."""

        purpose = ""

        def __init__(self, *_: Any) -> None: ...

        def reset(self, **_: Any) -> None: ...

        def advance(self, policy: Any) -> None:
            weights.append(policy._model.policy.action_net.weight.detach().numpy().copy())

        def metrics(self) -> dict[str, Floats]:
            return {"rate": np.array([next(rates)])}

    world = round_stopping_v0.population(1, num_clients=3)
    world.reset(seed=0)
    monkeypatch.setattr(module, "RoundStopping", Trial)
    rule.fit(world.view())
    assert rule.history == [1.0, 3.0, 2.0]
    kept = rule._model.policy.action_net.weight.detach().numpy()
    np.testing.assert_array_equal(kept, weights[1])
    assert not np.array_equal(weights[1], weights[2])


def test_the_shared_network_respects_the_mask() -> None:
    """Where actions are masked, none of them is taken in 200 draws, nor by the likeliest choice."""
    pytest.importorskip("stable_baselines3")
    env = federated_bandit_v0.population(50, num_agents=4, num_arms=3, horizon=20, qualities="uniform")
    env.reset(seed=0)
    mask = np.ones((50, 4, 6), np.int8)
    mask[..., 2:] = 0
    for deterministic in (False, True):
        rule: Any = SharedPPO(64, num_envs=2, n_steps=4, deterministic=deterministic)
        rule.reset(env, generator())
        assert set(np.ravel(rule.act(env.observe(), mask)).tolist()) <= {0, 1}
