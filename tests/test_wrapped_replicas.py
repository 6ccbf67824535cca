"""What stands on a channel treats each replica as if it were alone: replicas that play together, do other things and
end at other times are the runs of one replica each, message by message and in every total.

Faults and mechanisms that draw nothing make the runs comparable. The laws of those that draw are tested elsewhere.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from cases import CASES

from taciturn.envs.core import ChannelConfig, Population
from taciturn.privacy.losses import PrivacyLoss, pure
from taciturn.testing.cases import chosen, is_compiled, named, random_actions
from taciturn.wrappers import (
    Budget,
    Byzantine,
    Churn,
    LossyChannel,
    Memoized,
    MessageLimit,
    NoPrivacy,
    Scheduled,
    Stragglers,
)
from taciturn.wrappers.sb3 import RowsVecEnv

REPLICAS = 3
WORLDS = [name for name, case in CASES.items() if is_compiled(case) and case.population().channels]


@dataclass(frozen=True)
class Charged(NoPrivacy):
    """Leaves messages as they are, and charges for them."""

    closed_counts = False
    epsilon: float = field(default=1.0, init=False)

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        return pure(1.0)


STANDING = {
    "charged": ChannelConfig(Charged()),
    "silent when spent": ChannelConfig(Charged(), Budget(3.0)),
    "ended when spent": ChannelConfig(Charged(), Budget(5.0, when_spent="truncate")),
    "memoised": ChannelConfig(Memoized(Charged()), Budget(1.5)),
    "scheduled": ChannelConfig(Scheduled(Charged(), at=4)),
    "brief": ChannelConfig(Charged(), faults=(MessageLimit(3),)),
    "late": ChannelConfig(Charged(), faults=(Stragglers((0.0, 0.0, 1.0)),)),
    "lying": ChannelConfig(faults=(Byzantine(1.0, "constant"),)),
    "lost": ChannelConfig(Charged(), faults=(LossyChannel(1.0),)),
    "absent": ChannelConfig(Charged(), faults=(Churn(1.0, 0.0),)),
}


def replicas(name: str, num_envs: int, first: int = 0) -> Any:
    case = CASES[name]
    # Of some 25 ticks, each of which is compared.
    brief: dict[str, Any] = {"horizon": 4.0} if name == "gossip_bandit_v0" else {}
    return case.world._population(case.population(**brief).params, num_envs, first)


def fitting(population: Population[Any], config: ChannelConfig) -> dict[str, ChannelConfig]:
    """What fits of a configuration, on each channel: senders that perturb their own messages take no mechanism."""
    found = {}
    for channel in population.channels:
        one = config
        try:
            population.check_config(channel, one)
        except ValueError:
            one = ChannelConfig(faults=config.faults)
        found[channel] = one
    return found


def told(population: Population[Any], replica: int, step: Any = None) -> dict[str, Any]:
    """Everything that a replica shows."""
    found: dict[str, Any] = {"terminated": population.terminated[replica], "truncated": population.truncated[replica]}
    if step is not None:
        found |= {"observation": own(step.observation, replica), "reward": own(step.reward, replica)}
        found |= {
            key: own(step.info[key], replica) for key in named(step.info) if step.info.get(f"_{key}", ALL)[replica]
        }
    found |= {f"messages on {key}": channel.messages()[replica] for key, channel in population.channels.items()}
    found |= {key: values[replica] for key, values in population.metrics().items()}
    if population.accountant is not None:
        roles = {channel.sender for channel in population.channels.values()}
        found |= {f"total of {role}": population.accountant.epsilon(1e-6, role=role)[replica] for role in roles}
    return found


ALL = np.ones(REPLICAS, np.bool_)


def own(values: Any, replica: int) -> Any:
    return {key: own(part, replica) for key, part in values.items()} if isinstance(values, dict) else values[replica]


def rows(values: Any, replica: int) -> Any:
    """The actions of one replica, with its axis."""
    return {role: part[replica : replica + 1] for role, part in values.items()}


@pytest.mark.parametrize("standing", STANDING)
@pytest.mark.parametrize("name", WORLDS)
def test_replicas_under_a_wrapper_are_runs_of_their_own(name: str, standing: str) -> None:
    together = replicas(name, REPLICAS)
    alone = [replicas(name, 1, i) for i in range(REPLICAS)]
    options = {"channels": fitting(together, STANDING[standing])}
    for population in (together, *alone):
        population.reset(seed=7, options=options)
    rng, ends, first = np.random.default_rng(0), 0, together.turn
    while ends < 3:
        actions = random_actions(together, rng)
        playing = ~together.done
        step = together.step(chosen(together, actions))
        for i in np.flatnonzero(playing).tolist():
            one = alone[i]
            single = one.step(chosen(one, rows(actions, i)))
            np.testing.assert_equal(told(together, i, step), told(one, 0, single))
        over = together.done & ((rng.random(REPLICAS) < 0.7) | together.done.all())  # others wait
        if over.any() and together.turn == first:
            ends += int(over.sum())
            together.reset(where=over)
            for i in np.flatnonzero(over).tolist():
                alone[i].reset(where=ALL[:1])
                np.testing.assert_equal(told(together, i), told(alone[i], 0))


@pytest.mark.parametrize("name", [name for name in WORLDS if CASES[name].one_role])
def test_rows_of_stable_baselines_are_those_of_their_replicas(name: str) -> None:
    """Budgets end them apart."""
    together = RowsVecEnv(replicas(name, REPLICAS), seed=7)
    alone = [RowsVecEnv(replicas(name, 1, i), seed=7) for i in range(REPLICAS)]
    count = together.rows
    parts = [slice(i * count, (i + 1) * count) for i in range(REPLICAS)]
    for env in (together, *alone):
        env.set_options({"channels": fitting(env.population, STANDING["ended when spent"])})
    seen = together.reset()
    for part, one in zip(parts, alone, strict=True):
        np.testing.assert_array_equal(seen[part], one.reset())
    together.action_space.seed(0)
    ends = 0
    while ends < 4:
        actions = np.stack([together.action_space.sample() for _ in range(together.num_envs)])
        played: Any = together.step(actions)
        ends += int(played[2][::count].sum())
        for part, one in zip(parts, alone, strict=True):
            single = one.step(actions[part])
            np.testing.assert_equal(tuple(values[part] for values in played), single)
