"""How should a coordinator of agents that play one bandit spread exploration, elimination and talk over a horizon?

Description
    The federated bandit of `federated_bandit_v0` with a server, seen by the one who runs it. A step is an epoch: all agents pull
    every active arm equally often, some of them upload what they heard, and the arms that fall too far below the best average are
    dropped. With one arm left, a step plays it to the end.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: Algorithm 1 and section IV-B, whose schedule is
    the policy `EliminationSchedule`.

Agents
    One: the coordinator (`coordinator_0`).

Observation
    Box float32. For each arm: `means`, the average over agents as last uploaded (0 before), with what noise stands on the channel, within
    [-10, 11]; `counts`, log(1 + n) / log(1 + T) of the n pulls each agent has made of it; `active`. Then `rounds` so far and `time_left`,
    as a share of the horizon.

Action
    Box(3), each in [-1, 1] and read as x = (1 + a) / 2: `pulls` of every active arm, as many as fit in the time left to the power x, so
    that 0 is one and 1 is all; `threshold` x^2: an arm is dropped if its average is at least this much below the best (2 C(r) in the
    paper; 0 leaves the best arm); `participation` x = p: ceil(p M) agents upload, at least one. `arm_elimination_v0.action(x,
    threshold, participation)` makes one.

Reward
    -(sum over pulls of 1 - the average heard of that arm in this epoch, plus the cost of links) / (M T): the regret that a coordinator
    sees, who does not know what the best arm pays and takes 1. Its expectation is the regret a slot and agent, but for 1 - mu*.

Termination
    Never; truncated after `horizon` slots. An epoch always fits: where less is left than one pull of each active arm, the rest is played
    in turn.

Info
    As in the federated bandit: `regret`, `cost`, `messages` and the others; `slots` of the epoch, `pulls` of each active arm.

Privacy channels
    `means`, as in the federated bandit: each reward enters one mean, of sensitivity 1/n.

Arguments
    Those of the federated bandit, with other defaults (5 agents, 10 arms, drawn anew at each reset, 10,000 slots, c1 = 25), and the
    server as the only topology.

Deviations from the paper
    Actions choose what Algorithm 1 computes. The last arm is reported on too, once, at the end, so that rewards are what agents heard.
    For what it plays, see 'Deviations from the paper' of the federated bandit.

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

from taciturn.envs.core import Array, Channel, Fast, Layout, Role, World
from taciturn.envs.federated_bandit.world import REACH, FederatedBandit, eliminate, in_turn, own
from taciturn.envs.federated_bandit.world import Params as BanditParams
from taciturn.envs.federated_bandit.world import State as BanditState

__all__ = ["ArmElimination", "Params", "State", "action", "arm_elimination_v0"]


@dataclass(frozen=True, kw_only=True)
class Params(BanditParams):
    """The federated bandit's parameters, with the server as topology."""

    num_agents: int = 5
    num_arms: int | None = None
    qualities: Any = "uniform"
    horizon: int = 10_000

    def __post_init__(self) -> None:
        if self.num_arms is None and isinstance(self.qualities, str):
            object.__setattr__(self, "num_arms", 10)
        super().__post_init__()
        if self.components:
            raise ValueError(f"topology must be 'server' for a coordinator, not {self.topology!r}")


@dataclass(frozen=True)
class State(BanditState):
    """B campaigns."""

    active: Array  # bool[B, K]


def pulls_of(share: Array, most: Array) -> Array:
    """How often to pull every active arm, int64[B]: `most`^share, 1 to `most`; 0 where even one pull is too many."""
    return np.where(most > 0, np.rint(np.maximum(most, 1) ** share), 0).astype(np.int64)


def decided(action: Array) -> tuple[Array, Array, Array]:
    """(share of the pulls that fit, as an exponent; threshold; participation), float64[B] each, of actions float32[B, 3] in [-1, 1]."""
    share, root, participation = (1 + action.astype(np.float64).T) / 2
    return share, root**2, participation


def action(share: Any, threshold: Any, participation: Any) -> Array:
    """The actions float32[..., 3] that `decided` reads so; each of them in [0, 1]."""
    x = np.broadcast_arrays(np.asarray(share, np.float64), np.sqrt(threshold), np.asarray(participation, np.float64))
    return (2 * np.clip(np.stack(x, axis=-1), 0, 1) - 1).astype(np.float32)


class ArmElimination(FederatedBandit):
    __doc__ = __doc__
    name = "arm_elimination"
    params: Params
    clock_unit = "slot"
    jumps: Mapping[str, type[Fast]] = {}

    def make_roles(self) -> tuple[Role, ...]:
        super().make_roles()
        arms = self.params.arms
        layout = Layout(
            means=(arms, *REACH),
            counts=(arms, 0, 1),
            active=(arms, 0, 1),
            rounds=(1, 0, self.params.horizon),
            time_left=(1, 0, 1),
        )
        return (Role("coordinator", 1, layout, gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)),)

    def make_channels(self) -> tuple[Channel, ...]:
        agents = self.params.num_agents
        return (
            Channel(
                "means", "vector", observer="server", unit="event", sender="agent", num_senders=agents, disjoint=True
            ),
        )

    def initial(self) -> State:
        fresh = super().initial()
        active = np.ones((self.num_envs, self.params.arms), np.bool_)
        return State(**{f.name: getattr(fresh, f.name) for f in fields(fresh)}, active=active)

    @property
    def state(self) -> State:
        now = super().state
        assert isinstance(now, State)
        return now

    def playing(self, state: BanditState) -> Array:
        assert isinstance(state, State)
        return state.active

    def transition(  # type: ignore[override]
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        p, new = self.params, own(state)
        share, threshold, participation = decided(actions["coordinator"][:, 0])
        left, number = self.params.horizon - state.time, state.active.sum(-1)
        pulls = np.where(number == 1, left, pulls_of(share, left // number))
        slots = np.where(pulls > 0, pulls * number, left)
        each = in_turn(state.active, np.zeros_like(slots), slots)
        self.pull_many(new, np.broadcast_to(each[:, None], new.counts.shape))
        new.time[:] += slots
        uploading = np.maximum(np.ceil(participation * p.num_agents - 1e-6), 1)
        order = self.stream("participation").random((self.num_envs, p.num_agents)).argsort(1).argsort(1)
        cost = self.communicate(new, order < uploading[:, None], slots).sum(1)
        best = np.where(state.active, new.broadcast, -np.inf)
        stay = eliminate(state.active, new.broadcast, threshold)
        stay |= np.arange(p.arms) == best.argmax(-1)[:, None]
        new.active[:] = stay & state.active
        seen = (each * (1 - heard_now(state, new))).sum(-1)
        reward = -(p.num_agents * seen + cost) / (p.num_agents * self.params.horizon)
        nobody = np.zeros(self.num_envs, np.bool_)
        info = self.inform(new) | {"slots": slots, "pulls": pulls}
        return new, {"coordinator": reward[:, None]}, nobody, new.time >= self.params.horizon, info

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


def heard_now(before: State, after: State) -> Array:
    """The average over agents of what each uploaded now (yhat), float64[B, K]; the standing average where nobody was heard."""
    pulls = after.weight - before.weight
    mean = (after.weight * after.private - before.weight * before.private) / np.where(pulls > 0, pulls, 1.0)
    number = (pulls > 0).sum(1)
    heard = np.where(pulls > 0, mean, 0.0).sum(1) / np.maximum(number, 1)
    return np.where(number > 0, heard, after.broadcast)


class _World(World[ArmElimination, Params]):
    action = staticmethod(action)


arm_elimination_v0 = _World(ArmElimination, Params)
