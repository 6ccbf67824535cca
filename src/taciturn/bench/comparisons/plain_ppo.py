"""Whether PPO with the plain defaults of Stable-Baselines3 learns in every world, on fresh instances."""

from typing import Any, ClassVar

import numpy as np

from taciturn.bench.play import FRESH, config
from taciturn.bench.results import RUNS, Cell, Config, Progress, Result
from taciturn.bench.study import Score, Study, register
from taciturn.envs.core import Population, Rollout, as_policies, begin
from taciturn.policies import Random
from taciturn.policies.external.rows import Predictor
from taciturn.registry import make_world, platform_side
from taciturn.validation import Array

PLAIN, RANDOM = "PPO, plain defaults", "Random"
# The world's parameters, replicas in training, and steps of training over all rows: less than five minutes on one core.
TRAININGS: dict[str, tuple[Config, int, int]] = {
    "round_stopping_v0": ({}, 1, 100_000),
    "federated_training_v0": ({}, 1, 60_000),
    "federated_bandit_v0": ({"num_agents": 5, "num_arms": 5, "horizon": 200}, 2, 200_000),
    "arm_elimination_v0": ({}, 1, 60_000),
    "gossip_bandit_v0": ({"num_agents": 20, "horizon": 20.0}, 2, 100_000),
    "social_bandit_v0": ({"num_agents": 20, "horizon": 50}, 1, 300_000),
    "elicitation_v0": ({"num_individuals": 50}, 1, 40_000),
}


def population(cell: Cell, replicas: int) -> Population[Any]:
    """Replicas of a cell's world, as its only role sees it."""
    world, params = cell.config["env"], cell.config["env_params"]
    if world == "elicitation_v0":
        return platform_side(replicas, **params)
    return make_world(world).population(replicas, **params)


def trained(cell: Cell, progress: Progress | None) -> Predictor:
    """What PPO learns with all its arguments left at their defaults; it acts as it was trained, by drawing its actions."""
    import torch
    from stable_baselines3 import PPO

    from taciturn.policies.learned.training import library_seed, one_thread
    from taciturn.wrappers.sb3 import RowsVecEnv

    _, replicas, steps = TRAININGS[cell.config["env"]]
    steps = cell.config["policy_params"].get("steps", steps)
    world = population(cell, replicas)
    world.purpose = "training"

    def told(seen: dict[str, Any], _: dict[str, Any]) -> bool:
        if progress is not None:
            progress(min(1.0, seen["self"].num_timesteps / steps))
        return True

    with one_thread():
        model = PPO("MlpPolicy", RowsVecEnv(world, seed=cell.seed), seed=library_seed(cell.seed), device="cpu")
        model.learn(steps, callback=told)
    torch.manual_seed(library_seed(cell.seed))
    return Predictor(model, deterministic=False)


def returns(world: Population[Any], policy: Any, seed: int) -> Array:
    """The sum of the rewards of each replica's run, over the agents' number, [B]."""
    world.reset(seed=seed)
    policies = as_policies(world, policy)
    begin(world, policies)
    rollout, total = Rollout(world, policies), np.zeros(world.num_envs)
    while not world.done.all():
        total += rollout.play().reward.sum(1)
    (role,) = world.roles.values()
    return total / role.num_agents


@register
class PlainPPO(Study):
    name = "plain-ppo"
    title = "PPO with plain defaults in every world"
    description = (
        "PPO of Stable-Baselines3 with all its arguments left at their defaults, on the observations, actions and rewards that each world "
        "has by default, without normalisation; all agents share one network. Worlds of many agents are smaller than by default, as the "
        "configurations say. A training takes less than five minutes on one core. The score is an agent's mean return in "
        f"{FRESH} fresh runs, whose instances no training has seen, for 10 trainings."
    )
    score = Score("return", label="mean return of an agent")
    reference: ClassVar[Config] = {"policy": RANDOM}
    facets = ("env",)
    rows = ("policy",)
    seeds: ClassVar[tuple[int, int]] = (2, 10)  # quick and full: trainings, and runs of Random to pair them with

    def cells(self, quick: bool) -> list[Cell]:
        found = []
        for env, (params, _, _) in TRAININGS.items():
            for policy in (PLAIN, RANDOM):
                own: Config = {"steps": 20_000} if quick and policy == PLAIN else {}
                found.append(config(env, policy, own, **params) | ({"replicas": 10} if quick else {}))
        return self.sweep(found, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        policy = Random() if cell.config["policy"] == RANDOM else trained(cell, progress)
        world = population(cell, cell.config.get("replicas", FRESH))
        world.purpose = "evaluation"
        found = returns(world, policy, cell.seed)
        return Result({"return": float(found.mean())}, {RUNS: (np.arange(found.size), found)})
