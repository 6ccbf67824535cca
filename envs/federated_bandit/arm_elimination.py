"""How should a coordinator of agents with the same bandit divide a horizon among exploration, elimination and
communication?

Description
    The federated bandit of `federated_bandit_v0` with a server, from the coordinator's side. A step is an epoch: all
    agents pull every active arm equally often, some of them upload their means, and arms that fall too far below the
    best average are eliminated. When one arm is left, a step plays it to the end.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: Algorithm 1 and section IV-B;
    the policy `EliminationSchedule` has their schedule.

Agents
    One: the coordinator (`coordinator_0`).

Observation
    Box float32. For each arm: `means`, the last uploaded average over agents (0 before), including the channel's noise,
    clipped to [-10, 11]; `counts`, log(1 + n) / log(1 + T), where n is the number of times each agent has pulled it;
    `active`. Then `rounds` so far, and `time_left` as a share of the horizon.

Action
    Box(3), each in [-1, 1] and read as x = (1 + a) / 2. `pulls`: every active arm is pulled m^x times, where m is the
    largest number of pulls per arm that fits in the time left (x = 0: one pull, x = 1: m pulls). `threshold` x^2: an
    arm is eliminated if its average is at least x^2 below the best (2 C(r) in the paper; 0 leaves only the best arm).
    `participation` x = p: ceil(p M) agents upload, at least one.
    `arm_elimination_v0.action(share, threshold, participation)` makes such an action; `share` is the x of `pulls`.

Reward
    -(L + cost of links) / (M T), where L is the sum over the epoch's pulls of 1 - (the average reported for the pulled
    arm in this epoch). A coordinator does not know the best mean mu*, so its reward uses 1 instead. The expected return
    of a run is the negative regret per slot and agent, up to the constant 1 - mu*, minus the cost.

Termination
    Never; truncated after `horizon` slots. An epoch always fits: if the slots left do not allow one pull of each active
    arm, agents cycle through the active arms to the end.

Info
    As in the federated bandit (`regret`, `cost`, `transmissions` and so on), plus `slots` of the epoch and `pulls` of
    each active arm.

Privacy channels
    `means`, as in the federated bandit: each reward enters one mean, of sensitivity 1/n. The number of pulls in a mean
    and the number of uploading agents follow from messages to the coordinator, and the uploading agents are drawn at
    random, so none of this reveals more than the messages.

Arguments
    As in the federated bandit, with other defaults: 5 agents, 10 arms, 10,000 slots, c1 = 25. The only topology
    is the server.

Deviations from the paper
    Actions choose the values that Algorithm 1 computes. The last arm is uploaded too, once, at the end, so rewards are
    based on reported means. Otherwise as under 'Deviations from the paper' of the federated bandit.

Registered configurations
    `taciturn/ArmElimination-v0`: the defaults.

Version history
    v0: first version.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn.compiling.counter_streams import uniform
from taciturn.envs.core import Fast, Functions, Layout, Population, Role, World, fields
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.federated_bandit.federation import PARTICIPATION, communicate, pull_plan, send
from taciturn.envs.federated_bandit.federation import begin as begin_federation
from taciturn.envs.federated_bandit.federation import fill_info as fill_federation_info
from taciturn.envs.federated_bandit.model import AGENTS, PAIRS, stays, turns
from taciturn.envs.federated_bandit.model import State as BanditState
from taciturn.envs.federated_bandit.world import MEAN_BOUNDS, FederatedBandit
from taciturn.envs.federated_bandit.world import Params as BanditParams
from taciturn.validation import Array, Floats, Ints, shown


@dataclass(frozen=True, kw_only=True)
class Params(BanditParams):
    """The federated bandit's parameters, with the server as topology."""

    num_agents: int = 5
    num_arms: int | None = None
    horizon: int = 10_000

    def __post_init__(self) -> None:
        if self.num_arms is None and isinstance(self.qualities, str):
            object.__setattr__(self, "num_arms", 10)
        super().__post_init__()
        if self.components:
            raise ValueError(f"topology must be 'server' for a coordinator, not {shown(self.topology)}")


@dataclass(frozen=True)
class State(BanditState):
    """A federation; `active` marks the arms not eliminated. From outside, each field has a leading axis [B]."""

    threshold: Floats = fields.public()  # an arm this far below the best is eliminated
    order: Ints = fields.public(AGENTS)  # the agents in random order; the first ones upload
    weight_before: Floats = fields.hidden(PAIRS)  # `weight` and
    private_before: Floats = fields.hidden(PAIRS)  # `private` before the epoch


def pulls_per_arm(share: float, most: int) -> int:
    """Pulls of every active arm: `most`^share, from 1 to `most`; 0 if not even one pull fits."""
    return round(float(most) ** share) if most > 0 else 0


def decode_action(action: Any) -> tuple[float, float, float]:
    """(exponent of the number of pulls that fit; threshold; participation) of an action float32[3] in [-1, 1]."""
    share, root, participation = (
        (1.0 + float(action[0])) / 2,
        (1.0 + float(action[1])) / 2,
        (1.0 + float(action[2])) / 2,
    )
    return share, root * root, participation


def action(share: Any, threshold: Any, participation: Any) -> Array:
    """The inverse of `decode_action`: actions float32[..., 3] for arguments in [0, 1]."""
    x = np.broadcast_arrays(np.asarray(share, np.float64), np.sqrt(threshold), np.asarray(participation, np.float64))
    return (2 * np.clip(np.stack(x, axis=-1), 0, 1) - 1).astype(np.float32)


# One federation, epoch by epoch, in the form required by `taciturn.envs.core.hooks.Hooks`.


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw the means of the arms, and number the agents."""
    begin_federation(state, arrays, params, rng)
    for i in range(params.num_agents):
        arrays.order[i] = i


def draw_uploaders(arrays: Any, number: int, params: Any, rng: Any) -> None:
    """Draw `number` agents without replacement, by the first swaps of a shuffle (Fisher & Yates)."""
    agents = params.num_agents
    for i in range(agents):
        arrays.asks[i] = False
    for i in range(number):
        other = i + int(uniform(rng, PARTICIPATION) * (agents - i))
        arrays.order[i], arrays.order[other] = arrays.order[other], arrays.order[i]
        arrays.asks[arrays.order[i]] = True


def epoch(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """Let all agents pull the active arms in turn, and some of them upload their means."""
    share, state.threshold, participation = decode_action(actions[0])
    left, number, rank = params.horizon - state.time, 0, 0
    for k in range(params.num_arms):
        number += arrays.active[k]
    state.pulls = left if number == 1 else pulls_per_arm(share, left // number)
    state.slots = state.pulls * number if state.pulls > 0 else left
    for k in range(params.num_arms):
        pulls = turns(state.slots, rank, number) if arrays.active[k] else 0
        rank += arrays.active[k]
        for i in range(params.num_agents):
            arrays.plan[i, k] = pulls
            arrays.weight_before[i, k], arrays.private_before[i, k] = arrays.weight[i, k], arrays.private[i, k]
    pull_plan(state, arrays, params, rng)
    state.time += state.slots
    draw_uploaders(arrays, max(math.ceil(participation * params.num_agents - 1e-6), 1), params, rng)
    send(state, arrays, params, rng)


def epoch_mean(arrays: Any, arm: int) -> float:
    """The average over agents of the means uploaded in this epoch (yhat); the previous average if there are none."""
    total, number = 0.0, 0
    for i in range(len(arrays.weight)):
        before, after = arrays.weight_before[i, arm], arrays.weight[i, arm]
        if after > before:
            total += (after * arrays.private[i, arm] - before * arrays.private_before[i, arm]) / (after - before)
            number += 1
    return total / number if number > 0 else arrays.broadcast[arm]


def end_epoch(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Pay the coordinator, and eliminate arms, but never the best one; returns (terminated, truncated)."""
    for i in range(params.num_agents):
        arrays.earned[i] = 0.0
    communicate(state, arrays, params, rng)
    missing, best, highest = 0.0, -1, -math.inf
    for k in range(params.num_arms):
        if arrays.active[k]:
            missing += arrays.plan[0, k] * (1.0 - epoch_mean(arrays, k))
            if arrays.broadcast[k] > highest:
                best, highest = k, arrays.broadcast[k]
    for k in range(params.num_arms):
        if k != best and not stays(highest, arrays.broadcast[k], state.threshold):
            arrays.active[k] = False
    missing *= params.num_agents
    for i in range(params.num_agents):
        missing -= arrays.earned[i]
    reward[0] = -missing / (params.num_agents * params.horizon)
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    arms = params.num_arms
    longest = math.log1p(float(params.horizon))
    for k in range(arms):
        out[k] = seen.broadcast[k]
        out[arms + k] = math.log1p(float(seen.pulled[k] // params.num_agents)) / longest
        out[2 * arms + k] = seen.active[k]
    out[3 * arms] = seen.rounds
    out[3 * arms + 1] = 1.0 - seen.time / params.horizon


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    fill_federation_info(state, arrays, params, info)
    info.slots, info.pulls = state.slots, state.pulls


class ArmElimination(FederatedBandit):
    __doc__ = __doc__
    name = "arm_elimination"
    params: Params
    clock_unit = "slot"
    jumps: Mapping[str, type[Fast]] = {}
    agents_decide = False
    state_type: ClassVar[Any] = State
    functions = Functions(reset=begin, act=epoch, receive=end_epoch, observe=observe, info=fill_info)
    action_mask = Population.action_mask

    def make_roles(self) -> tuple[Role, ...]:
        arms = self.params.arms
        layout = Layout(
            means=(arms, *MEAN_BOUNDS),
            counts=(arms, 0, 1),
            active=(arms, 0, 1),
            rounds=(1, 0, self.params.horizon),
            time_left=(1, 0, 1),
        )
        return (Role("coordinator", 1, layout, gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)),)

    def arrays(self) -> dict[str, Any]:
        return super().arrays() | {"mask": np.zeros((0, 0), np.int8)}

    def empty_info(self) -> dict[str, Any]:
        return super().empty_info() | {"slots": 0, "pulls": 0}


class _World(World[P, Q, K]):
    action = staticmethod(action)


arm_elimination_v0 = _World(ArmElimination, Params)
