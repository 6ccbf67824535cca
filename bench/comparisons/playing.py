"""How the benchmark plays a cell's agent, trained if it is a learner, in a task's environment with the task's
mechanisms."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from taciturn.agents import bring
from taciturn.bench.comparisons.strangers import AmongStrangers, OfAnotherRun
from taciturn.bench.levels import MESSAGES, Configuration, budget_of, configurations, own_configuration, within
from taciturn.bench.play import FRESH, config, learns
from taciturn.bench.results import Cell, Config, Progress
from taciturn.bench.tasks import (
    AS_TRAINED,
    BENCHMARKS,
    CLASSIC,
    DESIGNED,
    EPSILON,
    NO_BUDGET_LIMIT,
    PAPER,
    PROTECTED,
    REFERENCES,
    RETURN,
    TASK_AGENT,
    YOURS,
    Task,
    others_in,
    sign,
    tasks_of,
    under,
)
from taciturn.bench.tasks.benchmark import PLAIN_PPO, PRETRAINED, TRAINER, Variant
from taciturn.centralisation import find_sharing, replicas_for
from taciturn.envs.core import ChannelConfig, Population, Rollout, as_policies, begin
from taciturn.policies import Learner, Mixture
from taciturn.policies.external.rows import Predictor, RowPolicy
from taciturn.policies.learned.stored import pretrained_for
from taciturn.registry import entry, make_policy, make_world, one_agent, own_policies
from taciturn.validation import Array
from taciturn.wrappers import NoPrivacy
from taciturn.wrappers.channels import on_channel, private_config

SEARCH = 10
"""Number of runs that evaluate each way to spend a budget."""
NOTHING: Mapping[str, ChannelConfig] = MappingProxyType({})


def population(config: Config, replicas: int, purpose: str, variant: Variant = AS_TRAINED) -> Population[Any]:
    """Replicas of an environment. If it has two sides, hand-designed policies and references get the whole environment,
    and others play one side of it."""
    env: str = config.get("plays_in") or config["env"]
    params = config["env_params"] | dict(variant.params) | config.get("world", {})
    if BENCHMARKS[env].side is not None and config["kind"] not in (*DESIGNED, *REFERENCES):
        (players,) = entry(env).players
        result = one_agent(env, replicas, params | {players: others_in(env, variant)})
    else:
        result = make_world(env).population(replicas, **params)
    result.purpose = purpose
    return result


def with_channels(world: Population[Any], channels: Mapping[str, ChannelConfig]) -> Population[Any]:
    """The environment with these mechanisms on its channels at every reset."""
    for name, added in channels.items():
        world = on_channel(world, name, added)
    return world


def plain_ppo(cell: Cell, progress: Progress | None, channels: Mapping[str, ChannelConfig]) -> Predictor:
    """PPO with all arguments at their defaults; it samples its actions, as in training."""
    import torch
    from stable_baselines3 import PPO

    from taciturn.policies.learned.training import fit, library_seed, one_thread
    from taciturn.wrappers.sb3 import RowsVecEnv

    field = BENCHMARKS[cell.config["env"]]
    steps = cell.config["policy_params"].get("steps", field.steps)
    world = with_channels(population(cell.config, field.replicas, "training"), channels)

    def checked(seen: dict[str, Any], _: dict[str, Any]) -> bool:
        if progress is not None:
            progress(min(1.0, seen["self"].num_timesteps / steps))
        return True

    with one_thread():
        model = PPO("MlpPolicy", RowsVecEnv(world, seed=cell.seed), seed=library_seed(cell.seed), device="cpu")
    fit(model, steps, callback=checked)
    torch.manual_seed(library_seed(cell.seed))
    return Predictor(model, deterministic=False, seeded=False)


def loaded(cell: Cell, progress: Progress | None, channels: Mapping[str, ChannelConfig] = NOTHING) -> Any:
    """The agent of a cell. A learner trains when it begins a run; if mechanisms are given, it trains immediately, with
    these on the channels."""
    name, own = cell.config["policy"], dict(cell.config["policy_params"])
    if name == PLAIN_PPO:
        return plain_ppo(cell, progress, channels)
    if not learns(name):
        return bring(name, **own)
    if name == TRAINER and not own:
        standard = tasks_of(cell.config["env"], cell.config.get("budget", NO_BUDGET_LIMIT))[0]
        if stored := pretrained_for(standard.id, cell.seed):
            return bring(f"{PRETRAINED}{stored}")  # the same training would end with the same weights
    agent = bring(name, **own, seed=cell.seed)
    agent.progress = progress
    if channels:
        agent.train(with_channels(population(cell.config, 1, "training"), channels))
    return agent


def begin_run(
    world: Population[Any],
    policy: Any,
    config: Config,
    seed: int,
    channels: Mapping[str, ChannelConfig] | None = None,
    variant: Variant = AS_TRAINED,
) -> Rollout:
    """A fresh run of a policy, already begun. The channels' mechanisms are always stated: no noise, unless mechanisms
    are given."""
    if channels is None:
        silent = (name for name, channel in world.channels.items() if not channel.chosen)
        channels = {name: private_config(NoPrivacy()) for name in silent}
    faulty = {
        name: replace(channels[name], faults=(*channels[name].faults, fault)) for name, fault in variant.faults.items()
    }
    world.reset(seed=seed, options={"channels": {**channels, **faulty}})
    policies = as_policies(world, all_policies(world, policy, config["env"], variant))
    begin(world, policies)
    return Rollout(world, policies)


def all_policies(world: Population[Any], policy: Any, env: str, variant: Variant = AS_TRAINED) -> Any:
    """A policy, with strangers among its agents, or with the policies of the other side in a two-sided environment."""
    if len(world.roles) == 1:
        strangers = [(make_policy(name), share) for name, share in variant.strangers.items()]
        return AmongStrangers(policy, strangers) if strangers else policy
    others = Mixture([(make_policy(name), share) for name, share in others_in(env, variant).items()])
    return {role: policy if role == BENCHMARKS[env].side else others for role in world.roles}


def evaluated(
    world: Population[Any],
    policy: Any,
    config: Config,
    seed: int,
    channels: Mapping[str, ChannelConfig] | None = None,
    variant: Variant = AS_TRAINED,
) -> dict[str, Array]:
    """The metrics of a run, [B], with `return`, the sum of an agent's rewards. Channels are as for `begin_run`."""
    rollout, budget = begin_run(world, policy, config, seed, channels, variant), np.zeros(world.num_envs)
    side = BENCHMARKS[config["env"]].side if len(world.roles) > 1 else None
    served = sum(role.num_agents for name, role in world.roles.items() if name != side)
    while not world.done.all():
        reward = rollout.play().reward
        budget += reward.mean(1) if side is None else reward[side].sum(1) / served
    return world.metrics() | {RETURN: budget}


def trained(agent: Any, config: Config, seed: int, channels: Mapping[str, ChannelConfig] | None = None) -> Any:
    """The agent; an untrained learner is first trained in the standard task of its environment."""
    if isinstance(agent, Learner):
        begin_run(population(config, FRESH, "evaluation"), agent, config, seed, channels)
    return agent


def how_centralised(agent: Any, config: Config, seed: int, variant: Variant = AS_TRAINED) -> str:
    """How a policy's agents share information in a task (`taciturn.centralisation`), in a sentence; empty if no check
    shows it.

    Policies of this package declare it, and tests check this. Others are checked in separate runs.
    """
    if config["policy"] in own_policies():
        return "as it declares" if agent.centralised else ""
    if getattr(agent, "needs_truth", False):
        return "it needs the hidden truth, which includes all agents' observations"

    def start(actor: Any, seed: int) -> Rollout:
        world = population(config, 1, "pooling", variant)
        (role,) = {"platform"} & set(world.roles) or set(world.roles)
        world = population(config, replicas_for(world.roles[role].num_agents), "pooling", variant)
        return begin_run(world, actor, config, seed, variant=variant)

    return find_sharing(trained(agent, config, seed), start, seed)


def task_config(task: Task, name: str, **form: Any) -> Config:
    """The configuration of an agent with that name in a task; `form` holds parameters of the environment that differ
    from the agent's usual ones."""
    field = BENCHMARKS[task.env]
    kinds = ((CLASSIC, field.classic), (PAPER, field.paper), (TASK_AGENT, field.designed))
    kind = next((kind for kind, some in kinds if name in {entry[0] for entry in some}), YOURS)
    params = field.params(name, learns=learns(name)) | under(task.env, task.budget) | form
    return config(task.env, name, **params) | {"kind": kind, "budget": task.budget}


class Played(NamedTuple):
    """The metrics of runs, [B], and their spending over all runs: `messages` of all agents, and under a budget
    `epsilon_message` and `epsilon` of the agent that spent most (per run, [B], epsilon is also a metric)."""

    metrics: dict[str, Array]
    spent: dict[str, float]


def played(
    task: Task,
    agent: Any,
    config: Config,
    runs: int,
    seed: int,
    configuration: Configuration | None = None,
    *,
    silenced: bool = False,
) -> Played:
    """Play runs of a task.

    Args:
        task: the task.
        agent: the acting agent.
        config: configuration of the agent's cell: the form of the environment, and the agent's kind.
        runs: number of replicas, B.
        seed: seed of all draws.
        configuration: how the budget is spent; None: no noise.
        silenced: whether each replica receives the messages of the next one instead of its own.
    """
    world, variant = population(config, runs, "evaluation", task.variant), task.variant
    channels = None if configuration is None else configuration.channels
    if silenced:
        mute = {
            name: replace((channels or {}).get(name, private_config(NoPrivacy())), faults=(OfAnotherRun(),))
            for name in BENCHMARKS[task.env].receives
        }
        channels = {**(channels or {}), **mute}
    metrics = evaluated(world, agent, config, seed, channels, variant)
    spent = {"messages": sent(world, world.channels)}
    if configuration is not None:
        level = float(metrics["epsilon_message"].mean()) if math.isnan(configuration.level) else configuration.level
        spent = {"messages": sent(world, PROTECTED[task.env].channels)}
        spent |= {"epsilon_message": level} if math.isfinite(level) else {}
        metrics[EPSILON] = budget_of(world, task.env)
        spent[EPSILON] = float(metrics[EPSILON].max())
    return Played(metrics, spent)


def fits(task: Task, agent: Any, config: Config) -> bool:
    """Whether a task has the spaces that an agent was made for (a network trained with 5 arms cannot act among 20), and
    whether its strangers, if any, can act in the same form of the environment."""
    if not isinstance(agent, RowPolicy) and not task.variant.strangers:
        return True
    world = population(config, 1, "evaluation", task.variant)
    spaces = not isinstance(agent, RowPolicy) or all(agent.fits(role) for role in world.roles.values())
    return spaces and all(begins(world, make_policy(name)) for name in task.variant.strangers)


def begins(world: Population[Any], policy: Any) -> bool:
    """Whether a policy can act in this form of the environment."""
    world.reset(seed=0)
    try:
        policy.reset(world.view(policy), np.random.default_rng(0), next(iter(world.roles)))
    except ValueError:
        return False
    return True


def configurations_by_rank(
    task: Task,
    agent: Any,
    config: Config,
    seed: int,
    runs: int = SEARCH,
    numbers: Sequence[int] = MESSAGES,
    progress: Progress = lambda _: None,
) -> list[Configuration]:
    """The ways to spend the budget of a task: the agent's own, or the generic ones, best first, evaluated in the
    standard task by separate runs."""
    assert isinstance(task.budget, float)
    world = population(config, runs, "choice of a level")
    if (own := own_configuration(agent, world, task.budget)) is not None:
        return [own]
    tried = []
    for configuration in configurations(world, PROTECTED[task.env], task.budget, numbers):
        result = evaluated(world, agent, config, seed, configuration.channels)
        tried.append((sign(task.measure) * float(result[task.measure].mean()), configuration))
        progress(len(tried) / (len(numbers) + 1))
    return [configuration for _, configuration in sorted(tried, key=lambda one: one[0], reverse=True)]


def first_within(
    task: Task, agent: Any, config: Config, runs: int, seed: int, configurations: Iterable[Configuration]
) -> tuple[Played, Configuration]:
    """The runs with the first way in which no agent overspends, and that way.

    Raises:
        ValueError: there is none.
    """
    spent = math.nan
    for configuration in configurations:
        result = played(task, agent, config, runs, seed, configuration)
        spent = result.spent[EPSILON]
        # A centralised agent plays as a reference: it has no finite epsilon, and tables say so.
        if getattr(agent, "centralised", False) or (isinstance(task.budget, float) and within(spent, task.budget)):
            return result, configuration
    raise ValueError(
        f"policy must spend at most epsilon = {task.budget} of each agent in {task.id}, and {agent!r} spends {spent:g} "
        "with every mechanism: its schedule is not public (Policy.public_schedule), or it repeats itself"
    )


def ready(task: Task, agent: Any, config: Config, seed: int) -> list[Configuration]:
    """Train an untrained learner in the standard task of its environment, under the same budget, and return the agent's
    ways to spend the budget of a task, best first; none without a budget."""
    if not isinstance(task.budget, float):
        trained(agent, config, seed)
        return []
    trained(agent, config, seed, training_way(task, agent, population(config, 1, "training")).channels)
    standard = next(one for one in tasks_of(task.env, task.budget, task.size))
    sized = one_size(config, standard)
    return configurations_by_rank(standard, agent, sized, seed)


def training_way(task: Task, agent: Any, world: Population[Any]) -> Configuration:
    """How the budget of a task is spent while a learner trains for it: its own way, or the usual number of messages."""
    assert isinstance(task.budget, float)
    protected = PROTECTED[task.env]
    return own_configuration(agent, world, task.budget) or next(
        configurations(world, protected, task.budget, [protected.messages])
    )


def one_size(config: Config, task: Task) -> Config:
    """A configuration with the environment in the size of a standard task."""
    return config | {"env_params": {**config["env_params"], **task.variant.params}}


def sent(world: Population[Any], channels: Iterable[str]) -> float:
    """The messages of all agents on the channels in a run, averaged over replicas."""
    return sum(float(world.channels[name].messages().sum(1).mean()) for name in channels)
