"""Which worlds pass through a library's own environment class, and how fast: `python probe.py LIBRARY`, for example
`sb3`.

It prints a line of JSON for each world: the form, the actions per second of a few hundred random steps, or what went
wrong.
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from taciturn import registry
from taciturn.envs.core.descriptor import Descriptor

STEPS, ENVS = 200, 4
SIZES: dict[str, dict[str, Any]] = {
    "round_stopping_v0": {"horizon": 20.0},
    "federated_training_v0": {"horizon": 20.0},
    "federated_bandit_v0": {"num_agents": 5, "num_arms": 5, "horizon": 500},
    "arm_elimination_v0": {"num_agents": 5, "num_arms": 5, "horizon": 500},
    "gossip_bandit_v0": {"num_agents": 10, "horizon": 50.0},
    "social_bandit_v0": {"num_agents": 10, "horizon": 100},
    "recommender_v0": {"num_agents": 4, "num_items": 60, "repository": 30, "horizon": 100},
    "elicitation_v0": {"num_individuals": 10, "horizon": 50},
}


class World:
    """A world at the size of this probe, in the forms that libraries take."""

    def __init__(self, entry: Descriptor) -> None:
        self.entry, self.size = entry, SIZES.get(entry.name, entry.small)
        self.seat: dict[str, Any] = {"others": entry.others} if entry.others else {}
        self.many = len(entry.world.population(**self.size).possible_agents) > 1

    def rows(self) -> Any:
        from taciturn.wrappers.sb3 import RowsVecEnv

        return RowsVecEnv(registry.one_agent(self.entry.name, ENVS, self.size), seed=0)

    def single(self) -> Any:
        return gymnasium.make(f"taciturn:{self.entry.id}", **self.size, **self.seat)

    def vector(self, mode: str = "NextStep") -> Any:
        mode_ = gymnasium.vector.AutoresetMode(mode)
        return gymnasium.make_vec(f"taciturn:{self.entry.id}", ENVS, autoreset_mode=mode_, **self.size, **self.seat)

    def parallel(self) -> Any:
        return self.entry.world.parallel_env(**self.size)


Played = tuple[str, int]
"""The form, and how many actions were taken."""


def sb3(world: World) -> Played:
    env = world.rows()
    env.reset()
    for _ in range(STEPS):
        env.step(np.array([env.action_space.sample() for _ in range(env.num_envs)]))
    return "RowsVecEnv", STEPS * env.num_envs


def sb3_contrib(world: World) -> Played:
    from sb3_contrib import MaskablePPO, RecurrentPPO

    env = world.rows()
    box = isinstance(env.action_space, gymnasium.spaces.Box)
    kind: Any = RecurrentPPO if box else MaskablePPO
    model = kind("MlpLstmPolicy" if box else "MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu")
    model.learn(32 * env.num_envs)
    return kind.__name__, int(model.num_timesteps)


def cleanrl(world: World) -> Played:
    env = world.vector()
    env.reset(seed=0)
    for _ in range(STEPS):
        env.step(env.action_space.sample())
    return seated(world, "the vector form"), STEPS * ENVS


def torchrl(world: World) -> Played:
    from torchrl.envs import GymWrapper, PettingZooWrapper

    if world.many:
        env = PettingZooWrapper(world.parallel())
        env.rollout(STEPS, break_when_any_done=False)
        return "PettingZooWrapper", STEPS * len(env.unwrapped.possible_agents)
    GymWrapper(world.vector("SameStep")).rollout(STEPS, break_when_any_done=False)
    return "GymWrapper on the vector form", STEPS * ENVS


def benchmarl(world: World) -> Played:
    from benchmarl.environments.pettingzoo.common import PettingZooClass
    from torchrl.envs import PettingZooWrapper

    class Task(PettingZooClass):  # type: ignore[misc]
        def get_env_fun(self, num_envs: Any, continuous_actions: Any, seed: Any, device: Any) -> Any:
            return lambda: PettingZooWrapper(world.parallel(), categorical_actions=True, done_on_any=False)

    task = Task("TACITURN", {})
    env = task.get_env_fun(1, False, 0, "cpu")()
    for spec in (task.observation_spec(env), task.action_spec(env)):
        assert not spec.is_empty()
    task.action_mask_spec(env)
    env.rollout(STEPS, break_when_any_done=False)
    return "a task over PettingZooWrapper", STEPS * sum(map(len, task.group_map(env).values()))


def tianshou(world: World) -> Played:
    from tianshou.algorithm.algorithm_base import RandomActionPolicy
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv

    envs = DummyVectorEnv([world.single] * ENVS)
    unused = RandomActionPolicy(gymnasium.spaces.Discrete(2))  # `random` draws from the world's own space
    collector = Collector(unused, envs, VectorReplayBuffer(STEPS * ENVS, ENVS))
    collector.reset()
    stats = collector.collect(n_step=STEPS * ENVS, random=True)
    return seated(world, "a Collector on the Gymnasium form"), int(stats.n_collected_steps)


def supersuit(world: World) -> Played:
    import supersuit as suit

    env = world.parallel()
    alike = len({str(space) for space in env.action_spaces.values()}) == 1
    if not alike:
        env = suit.pad_action_space_v0(suit.pad_observations_v0(suit.clip_actions_v0(env)))
    rows = suit.concat_vec_envs_v1(suit.pettingzoo_env_to_vec_env_v1(env), ENVS, base_class="stable_baselines3")
    rows.reset()
    for _ in range(STEPS):
        rows.step(np.array([rows.action_space.sample() for _ in range(rows.num_envs)]))
    return "concat_vec_envs" if alike else "concat_vec_envs (padded)", STEPS * rows.num_envs


def skrl(world: World) -> Played:
    import torch
    from skrl.envs.wrappers.torch import wrap_env

    if world.many:
        env = wrap_env(world.parallel(), wrapper="pettingzoo", verbose=False)
        env.reset()
        for _ in range(STEPS):
            agents = env.agents or env.possible_agents
            actions = {agent: torch.as_tensor(env.action_spaces[agent].sample()).view(1, -1) for agent in agents}
            env.step(actions)
            if not env.agents:
                env.reset()
        return "wrap_env on the PettingZoo form", STEPS * len(env.possible_agents)
    env = wrap_env(world.vector(), verbose=False)
    env.reset()
    for _ in range(STEPS):
        env.step(torch.as_tensor(np.array(env._env.action_space.sample())).view(ENVS, -1))
    return "wrap_env on the vector form", STEPS * ENVS


def rllib(world: World) -> Played:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = PPOConfig().environment(f"taciturn:{world.entry.id}", env_config=world.size | world.seat)
    runner = SingleAgentEnvRunner(config=config.env_runners(num_envs_per_env_runner=ENVS))
    episodes = runner.sample(num_timesteps=STEPS * ENVS, random_actions=False)
    return seated(world, "SingleAgentEnvRunner"), sum(map(len, episodes))


def agilerl(world: World) -> Played:
    from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

    if world.many:
        env: Any = AsyncPettingZooVecEnv([world.parallel] * 2)
        env.reset()
        for _ in range(STEPS):
            env.step(
                {agent: np.array([env.single_action_space(agent).sample() for _ in range(2)]) for agent in env.agents}
            )
        played = STEPS * 2 * len(env.agents)
        env.close()
        return "AsyncPettingZooVecEnv", played
    env = world.vector()
    env.reset(seed=0)
    for _ in range(STEPS):
        env.step(env.action_space.sample())
    return "the vector form", STEPS * ENVS


def seated(world: World, form: str) -> str:
    return f"{form}, one controlled agent" if world.seat else f"{form}, the platform" if world.many else form


def main(library: str) -> None:
    probe: Callable[[World], Played] = globals()[library]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for entry in registry.WORLDS:
        world, begun = World(entry), time.perf_counter()
        try:
            probe(world)  # once before it is timed, since some libraries compile
            begun = time.perf_counter()
            form, actions = probe(world)
            told: dict[str, Any] = {"form": form, "per_second": round(actions / (time.perf_counter() - begun))}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        print(json.dumps({"world": entry.name} | told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
