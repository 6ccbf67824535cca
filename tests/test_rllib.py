"""Checkpoints of RLlib, trained for a moment in the worlds, act as RLlib's own inference does; run where ray is
installed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import taciturn
from taciturn.agents import bring
from taciturn.registry import one_agent

pytest.importorskip("ray.rllib", exc_type=ImportError)

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]

WORLDS: dict[str, dict[str, Any]] = {
    "RoundStopping": {"num_clients": 6, "slot_time": 0.1, "horizon": 20.0},
    "Elicitation": {"num_individuals": 4, "horizon": 12},
    "SocialBandit": {"others": "PrivateSocialLearning", "num_agents": 4, "horizon": 20},
}
FLOOR = 1e-5


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: workers starve beside other tests
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def algorithm(world: str, workers: int = 0, **model: Any) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    config = (
        PPOConfig()
        .environment(f"taciturn:taciturn/{world}-v0", env_config=WORLDS[world])
        .env_runners(num_env_runners=workers, num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config=DefaultModelConfig(**model))
        .debugging(seed=0)
    )
    return config.build_algo()


def played(world: str, module: Any) -> list[Any]:
    """The actions of a run by hand, through the pipelines that RLlib itself puts between a world and a module."""
    import torch
    from ray.rllib.utils.spaces.space_utils import unsquash_action

    parameters = WORLDS[world]
    env: Any = gymnasium.make(f"taciturn/{world}-v0", **parameters)
    seen, _ = env.reset(seed=4)
    state = (
        {name: torch.as_tensor(one)[None] for name, one in module.get_initial_state().items()}
        if module.is_stateful()
        else None
    )
    actions, done = [], False
    distribution = module.get_inference_action_dist_cls()
    while not done:
        rows = torch.as_tensor(seen)[None]
        given = {"obs": rows} if state is None else {"obs": rows[None], "state_in": state}
        with torch.no_grad():
            out = module.forward_inference(given)
        state = out.get("state_out")
        action = (
            distribution.from_logits(out["action_dist_inputs"])
            .to_deterministic()
            .sample()
            .numpy()
            .reshape(env.action_space.shape)
        )
        if isinstance(env.action_space, gymnasium.spaces.Box):
            action = unsquash_action(action, env.action_space)
        actions.append(action)
        seen, _, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
    return actions


class Noted:
    """Keeps what a policy does."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.actions = policy, list[Any]()
        self.reset, self.update = policy.reset, policy.update

    def act(self, obs: Any, mask: Any = None) -> Any:
        self.actions.append(self.policy.act(obs, mask))
        return self.actions[-1]


@pytest.mark.parametrize(("world", "lstm"), [*((world, False) for world in WORLDS), ("RoundStopping", True)])
def test_a_checkpoint_acts_as_its_module(world: str, lstm: bool, ray: Any, tmp_path: Path) -> None:
    trained = algorithm(world, use_lstm=True, lstm_cell_size=8, max_seq_len=8) if lstm else algorithm(world)
    trained.train()
    folder, module = trained.save_to_path(tmp_path / "checkpoint"), trained.get_module()
    trained.stop()
    by_hand = played(world, module)
    inner = f"{folder}/learner_group/learner/rl_module/default_policy"
    for agent in (f"rllib:{folder}", f"rllib:{inner}", module):
        noted = Noted(bring(agent, trust=True))
        taciturn.simulate(one_agent(world, 1, WORLDS[world]), noted, seed=4, fast=False)
        np.testing.assert_allclose(
            np.array(noted.actions).reshape(len(by_hand), -1), np.reshape(by_hand, (len(by_hand), -1)), rtol=FLOOR
        )
    two = taciturn.simulate(one_agent(world, 2, WORLDS[world]), bring(f"rllib:{folder}", trust=True), seed=4)
    assert all(len(values) == 2 for values in two.metrics.values())


def test_remote_workers_register_the_worlds_by_the_prefix(ray: Any) -> None:
    """In a worker nothing has imported the package: the id without the prefix is not known there."""
    trained = algorithm("RoundStopping", workers=1)
    result = trained.train()
    trained.stop()
    assert result["env_runners"]["num_env_steps_sampled"] >= 64


def test_what_is_no_checkpoint_is_refused(ray: Any, tmp_path: Path) -> None:
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    with pytest.raises(ValueError, match="policy must name the folder of an RLlib checkpoint"):
        bring(f"rllib:{tmp_path}/nothing")
    with pytest.raises(ValueError, match=r"policy must be an RLlib checkpoint, and .* is not"):
        bring(f"rllib:{tmp_path}", trust=True)
    config = algorithm("RoundStopping").config.copy(copy_frozen=False)
    config.env_runners(env_to_module_connector=lambda *_: MeanStdFilter())
    trained = config.build_algo()
    folder = trained.save_to_path(tmp_path / "checkpoint")
    trained.stop()
    with pytest.raises(ValueError, match="policy must be an algorithm without env_to_module_connector"):
        bring(f"rllib:{folder}", trust=True)
    with pytest.raises(ValueError, match=r"module must be one of \['default_policy'\], which .* holds, not 'other'"):
        bring(f"rllib:{folder}", trust=True, module="other")
