"""How should a coordinator of agents that face the same bandit divide a horizon among exploration, elimination and communication?

Description
    The federated bandit of `federated_bandit_v0` with a server, from the coordinator's side. A step is an epoch: all agents pull every
    active arm equally often, some of them upload their means, and arms that fall too far below the best average are eliminated. When
    one arm is left, a step plays it to the end.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: Algorithm 1 and section IV-B, whose schedule is
    the policy `EliminationSchedule`.

Agents
    One: the coordinator (`coordinator_0`).

Observation
    Box float32. For each arm: `means`, the average over agents as last uploaded (0 before), including the channel's noise, clipped to
    [-10, 11]; `counts`, log(1 + n) / log(1 + T), where n is the number of times each agent has pulled it; `active`. Then `rounds` so far,
    and `time_left` as a share of the horizon.

Action
    Box(3), each in [-1, 1] and read as x = (1 + a) / 2. `pulls`: every active arm is pulled m^x times, where m is the largest number
    that fits in the time left; 0 means one pull and 1 means all of them. `threshold` x^2: an arm is eliminated if its average is at least
    this far below the best (2 C(r) in the paper; 0 leaves only the best arm). `participation` x = p: ceil(p M) agents upload, at least
    one. `arm_elimination_v0.action(share, threshold, participation)` makes such an action.

Reward
    -(sum over pulls of 1 minus the average reported of that arm in this epoch, plus the cost of links) / (M T). This is the regret that
    a coordinator can observe, who does not know the best mean and takes it to be 1. Its expectation is the negative regret per slot and
    agent, up to the constant 1 - mu*, minus the cost.

Termination
    Never; truncated after `horizon` slots. An epoch always fits: if fewer slots are left than one pull of each active arm takes, agents
    cycle through the active arms to the end.

Info
    As in the federated bandit (`regret`, `cost`, `transmissions` and so on), and `slots` of the epoch and `pulls` of each active arm.

Privacy channels
    `means`, as in the federated bandit: each reward enters one mean, of sensitivity 1/n. The coordinator decides, by what it was sent, how
    many pulls a mean is about and how many agents upload; which ones is drawn at random. Neither tells anything more.

Arguments
    Those of the federated bandit with other defaults: 5 agents, 10 arms, 10,000 slots, c1 = 25. The only topology
    is the server.

Deviations from the paper
    Actions choose what Algorithm 1 computes. The last arm is uploaded too, once, at the end, so that rewards are based on reported means.
    The rest is as under 'Deviations from the paper' of the federated bandit.

Registered configurations
    `taciturn/ArmElimination-v0`: the defaults.

Version history
    v0: first version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Fast, Layout, Role, Transition, World
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.federated_bandit.model import State as BanditState
from taciturn.envs.federated_bandit.model import eliminate, own_copy, round_robin
from taciturn.envs.federated_bandit.world import MEAN_BOUNDS, FederatedBandit
from taciturn.envs.federated_bandit.world import Params as BanditParams
from taciturn.validation import Array, Bools, Floats, Ints, shown

__all__ = ["ArmElimination", "Params", "State", "action", "arm_elimination_v0"]


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
    """B federations, and the arms that are not eliminated."""

    active: Bools  # [B, K]


def pulls_per_arm(share: Floats, most: Ints) -> Ints:
    """Pulls of every active arm, int64[B]: `most`^share, from 1 to `most`; 0 if not even one fits."""
    return np.where(most > 0, np.rint(np.maximum(most, 1) ** share), 0).astype(np.int64)


def decode_action(action: Array) -> tuple[Floats, Floats, Floats]:
    """(exponent of the number of pulls that fit; threshold; participation), float64[B] each, of actions float32[B, 3] in [-1, 1]."""
    share, root, participation = (1 + action.astype(np.float64).T) / 2
    return share, root**2, participation


def action(share: Any, threshold: Any, participation: Any) -> Array:
    """The inverse of `decode_action`: actions float32[..., 3] for arguments in [0, 1]."""
    x = np.broadcast_arrays(np.asarray(share, np.float64), np.sqrt(threshold), np.asarray(participation, np.float64))
    return (2 * np.clip(np.stack(x, axis=-1), 0, 1) - 1).astype(np.float32)


class ArmElimination(FederatedBandit):
    __doc__ = __doc__
    name = "arm_elimination"
    params: Params
    clock_unit = "slot"
    jumps: Mapping[str, type[Fast]] = {}
    agents_decide = False

    @classmethod
    def length_of_cycles(cls, params: Any) -> tuple[float, str]:
        return params.arms, ", if each pulls every arm once and eliminates none"

    def make_roles(self) -> tuple[Role, ...]:
        arms = self.params.arms
        layout = Layout(
            means=(arms, *MEAN_BOUNDS), counts=(arms, 0, 1), active=(arms, 0, 1), rounds=(1, 0, self.params.horizon),
            time_left=(1, 0, 1),
        )  # fmt: skip
        return (Role("coordinator", 1, layout, gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)),)

    def initial(self) -> State:
        fresh = super().initial()
        active = np.ones((self.num_envs, self.params.arms), np.bool_)
        return State(**{f.name: getattr(fresh, f.name) for f in fields(fresh)}, active=active)

    @property
    def state(self) -> State:
        now = super().state
        assert isinstance(now, State)
        return now

    def playing(self, state: BanditState) -> Bools:
        assert isinstance(state, State)
        return state.active

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:  # type: ignore[override]
        p, new = self.params, own_copy(state)
        share, threshold, participation = decode_action(actions["coordinator"][:, 0])
        left, number = self.params.horizon - state.time, state.active.sum(-1)
        pulls = np.where(number == 1, left, pulls_per_arm(share, left // number))
        slots = np.where(pulls > 0, pulls * number, left)
        each = round_robin(state.active, np.zeros_like(slots), slots)
        self.pull_many(new, np.broadcast_to(each[:, None], new.counts.shape))
        new.time[:] += slots
        uploading = np.maximum(np.ceil(participation * p.num_agents - 1e-6), 1)
        order = self.stream("participation").random((self.num_envs, p.num_agents)).argsort(1).argsort(1)
        cost = self.communicate(new, order < uploading[:, None], slots).sum(1)
        best = np.where(state.active, new.broadcast, -np.inf)
        stay = eliminate(state.active, new.broadcast, threshold)
        stay |= np.arange(p.arms) == best.argmax(-1)[:, None]
        new.active[:] = stay & state.active
        missing = (each * (1 - epoch_mean(state, new))).sum(-1)
        reward = -(p.num_agents * missing + cost) / (p.num_agents * self.params.horizon)
        nobody = np.zeros(self.num_envs, np.bool_)
        neighbour = self.neighbour_messages

        def info() -> dict[str, Any]:
            return self.inform(new, neighbour) | {"slots": slots, "pulls": pulls}

        return new, {"coordinator": reward[:, None]}, nobody, new.time >= self.params.horizon, info

    def empty_info(self) -> dict[str, Any]:
        return super().empty_info() | {"slots": 0, "pulls": 0}

    def observe_role(self, state: BanditState, role: str, rows: Array | None = None) -> Array:
        assert isinstance(state, State)
        return self.roles[role].layout.pack(
            means=state.broadcast[:, None],
            counts=np.log1p(state.counts[:, :1]) / np.log1p(self.params.horizon),
            active=state.active[:, None],
            rounds=state.rounds[:, None],
            time_left=1 - state.time[:, None] / self.params.horizon,
        )

    def action_mask(self, role: str) -> None:  # type: ignore[override]
        return None


def epoch_mean(before: State, after: State) -> Floats:
    """The average over agents of the means uploaded in this epoch (yhat), float64[B, K]; the previous average if there are none."""
    pulls = after.weight - before.weight
    mean = (after.weight * after.private - before.weight * before.private) / np.where(pulls > 0, pulls, 1.0)
    number = (pulls > 0).sum(1)
    uploaded = np.where(pulls > 0, mean, 0.0).sum(1) / np.maximum(number, 1)
    return np.where(number > 0, uploaded, after.broadcast)


class _World(World[P, Q, K]):
    action = staticmethod(action)


arm_elimination_v0 = _World(ArmElimination, Params)
