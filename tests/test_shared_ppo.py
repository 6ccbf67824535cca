"""One network for all agents: it learns in worlds of every kind, repeats itself, and acts under the privacy it learned
under."""

from typing import Any

import numpy as np
import pytest
import worlds as tiny

import taciturn
from taciturn.envs.core import Population, PublicView
from taciturn.policies import Random, SharedPPO
from taciturn.wrappers import BitwiseRandomizedResponse

BRIEF: dict[str, Any] = {"steps": 40_000, "num_envs": 32, "n_steps": 16}


def earned(world: Any, policy: Any, **more: Any) -> float:
    return float(taciturn.simulate(world.population(200), policy, seed=7, **more).metrics["earned"].mean())


@pytest.mark.parametrize("name", ["consensus", "corridor", "gossip"])
def test_beats_chance(name: str) -> None:
    world = getattr(tiny, f"{name}_v0")
    policy = SharedPPO(**BRIEF, seed=1)
    assert earned(world, policy) > 1.1 * earned(world, Random())
    assert policy.history[-1] > policy.history[0]


def test_same_seed_same_network_same_run() -> None:
    runs = [earned(tiny.consensus_v0, SharedPPO(steps=4_000, num_envs=4, seed=seed)) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_threads_change_no_bit_and_are_given_back() -> None:
    torch = pytest.importorskip("torch")
    before, found, used = torch.get_num_threads(), [], set()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            policy = SharedPPO(steps=4_000, num_envs=4, seed=3)
            policy.progress = lambda share: used.add(torch.get_num_threads())
            found.append(earned(tiny.consensus_v0, policy))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert used == {1}
    assert found[0] == found[1]


def test_learns_under_the_privacy_it_acts_under(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Population[Any]] = []
    own = SharedPPO._own_world

    def spy(self: SharedPPO, view: PublicView) -> Population[Any]:
        seen.append(own(self, view))
        return seen[-1]

    monkeypatch.setattr(SharedPPO, "_own_world", spy)
    mechanism = BitwiseRandomizedResponse(epsilon=1.0)
    policy = SharedPPO(steps=2_000, num_envs=4, overrides={"num_agents": 2})
    earned(tiny.consensus_v0, policy, privacy={"vote": mechanism})
    (world,) = seen
    assert world.channels["vote"].config.mechanism == mechanism
    assert world.accountant is not None
    assert world.roles["agent"].num_agents == 2
    assert len(policy.history) > 1


def test_refuses_what_it_cannot_learn() -> None:
    with pytest.raises(ValueError, match="overrides must name parameters of consensus; 'agents' is not one"):
        earned(tiny.consensus_v0, SharedPPO(overrides={"agents": 2}))
    policy = SharedPPO(steps=1_000, num_envs=2)
    earned(tiny.consensus_v0, policy)
    with pytest.raises(ValueError, match=r"SharedPPO was trained on .* and corridor has other observations"):
        earned(tiny.corridor_v0, policy)


def test_likeliest_actions_need_no_luck() -> None:
    policy = SharedPPO(steps=2_000, num_envs=4, deterministic=True)
    env = tiny.consensus_v0.population(5)
    obs, _ = env.reset(seed=0)
    policy.reset(env, env.stream("a"))
    first = policy.act(obs)
    assert first.shape == (5, 4)
    np.testing.assert_array_equal(first, policy.act(obs))
