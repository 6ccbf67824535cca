"""When should a parameter server stop waiting for client updates and start the next round?

Description
    A server trains with `M` clients over one shared channel. Time passes in slots. At the start of a round every client
    computes. Later, `k` updates have been received, `beta` are computed and queued, and `u = M - k - beta` are still
    being computed. In a slot of waiting, one queued update (if the queue was not empty at the start of the slot) is
    uploaded with probability `mu`, and each client that was computing at the start of the slot finishes with
    probability `p`; its update can be uploaded from the next slot on. A round that is stopped after `n` slots lasts `n
    tau + t0` and earns `R(k)`.

Paper
    Jiang 2020 (dissertation), chapter 3: the Markov chain of section 3.1, the objectives (equations 3.1 and 3.2), and
    the heavy-tailed times of section 3.4.2.

Agents
    One: the server (`server_0`).

Observation
    Box float32 `[k, beta, u, slots, time_left]`: the updates received, queued and being computed; the slots of this
    round so far; the time left of the horizon (0 under the Lagrangian objective, which has no horizon).

Action
    Discrete(2): 0 stops the round; 1 waits: for one slot if times are geometric, or until the next completion or upload
    if they are Pareto.

Reward
    `differential`: R(k) when a round closes, minus lambda for each unit of time that passed in the step. All time of a
    run is charged, so a policy's return is its return under `rate` (below) minus lambda times the horizon, and both
    objectives have the same best policy. The price lambda helps learners that discount per step: the broadcast time t0
    passes in one step, so without a price such a learner does not notice it and stops every round immediately. If
    lambda is near the best rate, no round earns much more than the price of its time, so the discount matters little.
    `rate`: R(k) when a round closes, else 0. `lagrangian`: R(k) - lambda (n tau + t0) when the one round closes, else
    0.

Termination
    `differential`, `rate`: terminated when the horizon is reached; a round that would end after the horizon is not
    counted and earns nothing. `lagrangian`: terminated when the round closes. A round closes by itself once all M
    updates have been received.

Info
    For a round that closes in the step: `updates`, `slots`, `duration`, `round_reward` R(k), and whether it was
    `complete` (otherwise the server stopped it); all are 0 if none closes. At every step `rate_so_far` (the reward of
    the closed rounds divided by their duration, 0 before the first) and `messages` (uploads received so far).

Privacy channels
    None: the clients' updates have no content here (see `taciturn/FederatedTraining-v0`).

Arguments
    - num_clients: M >= 1.
    - broadcast_time, slot_time: t0 > 0 and tau > 0, in the same unit of time (seconds by default).
    - upload_probability, compute_probability: mu and p in (0, 1]; used by geometric times only.
    - reward: `Hyperbolic(c, a)`, or a table R(0..M) of finite numbers.
    - horizon: > 0, the length of a training session, in the same unit of time (`time_budget` is an alias).
    - objective: "differential", "rate" or "lagrangian".
    - lambda_: the price of a unit of time, > 0; not for "rate". It must be given for "lagrangian". For "differential",
      None means an estimate of the rate of the best policy that stops at a fixed number of updates
      (`rate_of_best_count`).
    - time_distribution: "geometric" or "pareto". transmission, computing: (shape, scale) of the Pareto times of uploads
      and clients, in slots.

Deviations from the paper
    Equations 3.5 to 3.7, Lemma 1, Algorithm 1 and Theorem 3 contain errors of sign and unit, which
    `OptimalStopping` corrects. The paper does not state the order of events within a slot; with the order above,
    the expected number of slots until the first update is E[N_1] = 1/(1 - (1-p)^M) + 1/mu. The paper maximises a
    long-run rate, and its policy needs that rate as lambda. An episode here has a given length, so no policy needs
    lambda (in `differential` it does not change the order of policies). The rule of the best long-run rate is not
    the best in an episode: it closes the last rounds as if others followed (unlike `FiniteHorizonStopping`). Pareto
    times have no slots, so the server acts at events; which of several queued clients uploads next does not matter.

Registered configurations
    `taciturn/RoundStopping-v0`: the paper's setting (M=100, t0=3 s, tau=10 ms, mu=5/8, p=1/500, R(k) = 0.04 -
    0.018/(k+1)), in sessions of 100 s with differential rewards.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from taciturn.compiling.counter_streams import binomial, invert_binomial, pareto, uniform
from taciturn.envs.core import Functions, Layout, Replicas, Role, World, fields
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.round_stopping import drawing
from taciturn.envs.round_stopping.model import (
    Hyperbolic,
    Model,
    evaluate,
    some_finish,
)
from taciturn.validation import Array, Bools, Floats, Ints, choice, number, shown, vector

STOP, WAIT = 0, 1
UPLOADS, COMPUTING = 0, 1
LEAST = 1e-7  # mass at 0 above which one search draws a binomial
CLOSED = ("updates", "slots", "duration", "round_reward", "complete")


@dataclass(frozen=True, kw_only=True)
class Params(Model):
    """The environment's parameters: the stopping problem, objective and horizon."""

    horizon: float = 100.0
    objective: str = "differential"
    lambda_: float | None = None
    time_distribution: str = "geometric"
    transmission: tuple[float, float] = (1.454, 0.5)
    computing: tuple[float, float] = (2.0, 250.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("horizon", self.horizon, above=0)
        number("horizon / slot_time", self.horizon / self.slot_time, at_least=1e-30, at_most=1e30)
        # Beyond this limit, a round without slots would not move the clock, and a session would never end.
        number("horizon / broadcast_time", self.horizon / self.broadcast_time, at_most=1e15)
        choice("objective", self.objective, ("differential", "rate", "lagrangian"))
        if self.objective == "lagrangian" or (self.objective == "differential" and self.lambda_ is not None):
            number("lambda_", self.lambda_, above=0)
        elif self.lambda_ is not None:
            raise ValueError(
                f"lambda_ must be None under objective 'rate', where time has no price, not {shown(self.lambda_)}"
            )
        choice("time_distribution", self.time_distribution, ("geometric", "pareto"))
        for name in ("transmission", "computing"):
            shape, scale = vector(name, getattr(self, name), size=2)
            number(f"{name} shape", shape, above=0)
            number(f"{name} scale", scale, above=0)

    @cached_property
    def price(self) -> float:
        """lambda, the price of a unit of time in the reward."""
        if self.objective == "rate":
            return 0.0
        return rate_of_best_count(self) if self.lambda_ is None else self.lambda_


@dataclass(frozen=True)
class State:
    """A training session; from outside, each field has a leading axis [B]."""

    received: Ints = fields.public()  # k
    queued: Ints = fields.public()  # beta
    slots: Floats = fields.public()  # slots of this round
    total_slots: Floats = fields.public()  # slots of all rounds
    rounds: Ints = fields.public()  # closed rounds
    updates: Ints = fields.public()  # updates in closed rounds
    closed_slots: Floats = fields.public()  # slots of closed rounds
    earned: Floats = fields.public()  # reward of closed rounds
    clock: Floats = fields.public()  # time so far
    upload: Floats = (
        fields.hidden()
    )  # when the upload in progress ends, in slots of this round (Pareto; inf if there is none)
    finish: Floats = (
        fields.hidden()
    )  # [M], sorted: when each client finishes computing, in slots of this round (Pareto; else [0])
    ends: Bools = fields.public()  # last turn: whether the server stopped or had all updates
    complete: Bools = fields.public()  # last turn: whether it had all updates
    closes: Bools = fields.public()  # last turn: whether a round closed
    gain: Floats = fields.public()  # R(k) of the closed round
    closed_updates: Ints = fields.public()  # updates of the closed round
    round_slots: Floats = fields.public()  # slots of the closed round
    before: Floats = fields.public()  # the time when the turn began


class Constants(NamedTuple):
    """The `params` of the functions of a session."""

    num_clients: int
    broadcast_time: float
    slot_time: float
    upload_probability: float
    compute_probability: float
    rewards: Floats  # [M + 1]
    nobody: Floats  # [M + 1]: (1 - p)^u, the probability that none of u clients finishes in a slot
    horizon: float
    price: float
    session: bool  # False under the Lagrangian objective
    pareto: bool
    upload_shape: float  # parameters of the Pareto distributions
    upload_scale: float
    computing_shape: float
    computing_scale: float


# One session, in the form required by `taciturn.envs.core.hooks.Hooks`. `UPLOADS` and `COMPUTING` are its sources of
# random numbers.


def completions(computing: int, params: Any, rng: Any) -> int:
    """Number of the `computing` clients that finish in a slot, Binomial(u, p)."""
    none = params.nobody[computing]
    if none < LEAST:
        return binomial(computing, params.compute_probability, rng, COMPUTING)
    return invert_binomial(uniform(rng, COMPUTING), computing, params.compute_probability, none)


def slot(state: Any, params: Any, rng: Any) -> None:
    """One slot of the Markov chain of section 3.1."""
    uploaded = uniform(rng, UPLOADS) < params.upload_probability and state.queued > 0
    finished = completions(params.num_clients - state.received - state.queued, params, rng)
    if uploaded:
        state.received += 1
        state.queued -= 1
    state.queued += finished
    state.slots += 1.0


def event(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Wait for the next completion or upload (section 3.4.2)."""
    done = state.received + state.queued
    completion = arrays.finish[done] if done < params.num_clients else math.inf
    computed = completion <= state.upload
    state.slots = min(completion, state.upload)
    if computed:
        begins = state.queued == 0
        state.queued += 1
    else:
        state.received += 1
        state.queued -= 1
        begins = state.queued > 0
        state.upload = math.inf
    if begins:
        state.upload = state.slots + pareto(params.upload_shape, params.upload_scale, rng, UPLOADS)


def new_round(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Begin a round: nothing is received yet, and every client computes."""
    state.received, state.queued, state.slots, state.upload = 0, 0, 0.0, math.inf
    if params.pareto:
        # Pareto times in ascending order, from uniform numbers drawn in descending order (Bentley & Saxe 1980).
        largest = 1.0
        for client in range(params.num_clients):
            largest *= (1.0 - uniform(rng, COMPUTING)) ** (1.0 / (params.num_clients - client))
            arrays.finish[client] = params.computing_scale * largest ** (-1.0 / params.computing_shape)


def time_of(state: Any, params: Any) -> float:
    """The time used by rounds and slots."""
    return float(state.rounds * params.broadcast_time + state.total_slots * params.slot_time)


def limit(params: Any) -> float:
    """The horizon, with a tolerance for rounding of the clock."""
    return float(params.horizon * (1.0 + 1e-12))


def wait(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Let time pass: one slot, or until the next event."""
    before = state.slots
    if params.pareto:
        event(state, arrays, params, rng)
    else:
        slot(state, params, rng)
    state.total_slots += state.slots - before
    state.clock = time_of(state, params)


def decide(state: Any, stops: bool, params: Any) -> None:
    """Determine whether the round ends and closes within the session, and its reward."""
    state.complete = state.received == params.num_clients
    state.ends = stops or state.complete
    state.closes = state.ends and (not params.session or state.clock + params.broadcast_time <= limit(params))
    state.gain = params.rewards[state.received] if state.closes else 0.0


def act(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """The server stops or waits."""
    state.before = state.clock
    if actions[0] == WAIT:
        wait(state, arrays, params, rng)
    decide(state, actions[0] != WAIT, params)


def close(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Record a round that earns `gain`, and begin the next."""
    state.closed_updates, state.round_slots = state.received, state.slots
    state.rounds += 1
    state.updates += state.received
    state.closed_slots += state.slots
    state.earned += state.gain
    new_round(state, arrays, params, rng)
    state.clock = time_of(state, params)


def settle(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Close the round, if it ends, and pay for it; returns (terminated, truncated)."""
    if state.closes:
        close(state, arrays, params, rng)
    if not params.session:
        length = state.round_slots * params.slot_time + params.broadcast_time
        reward[0] = state.gain - params.price * length if state.closes else 0.0
        return state.closes, False
    # The session ends when no further round can close within the horizon.
    over = state.clock + min(params.slot_time, params.broadcast_time) > limit(params) or (
        state.ends and not state.closes
    )
    if over:
        state.clock = params.horizon
    reward[0] = state.gain - params.price * (state.clock - state.before)
    return over, False


def observe(seen: Any, params: Any, out: Any) -> None:
    out[0] = seen.received
    out[1] = seen.queued
    out[2] = params.num_clients - seen.received - seen.queued
    out[3] = seen.slots
    out[4] = params.horizon - seen.clock if params.session else 0.0


def rate(state: Any, params: Any) -> float:
    """Reward of the closed rounds divided by their duration; 0 before the first."""
    if state.rounds == 0:
        return 0.0
    return float(state.earned / (state.rounds * params.broadcast_time + state.closed_slots * params.slot_time))


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    info.rate_so_far, info.messages = rate(state, params), state.updates + state.received
    if state.closes:
        info.updates, info.slots, info.round_reward = state.closed_updates, state.round_slots, state.gain
        info.duration = state.round_slots * params.slot_time + params.broadcast_time
        info.complete = state.complete


def rate_of_best_count(params: Params) -> float:
    """An estimate of the rate of the best fixed number of updates, with every time replaced by its mean (Pareto times:
    by their quantiles)."""
    clients, k = params.num_clients, np.arange(1, params.num_clients + 1)
    if params.time_distribution == "geometric":
        computed = np.cumsum(1 / some_finish(clients + 1 - k, params.compute_probability))
        upload = 1 / params.upload_probability
    else:
        (shape, scale), (transmission, least) = params.computing, params.transmission
        computed = scale * (1 - k / (clients + 1)) ** (-1 / shape)
        upload = least * 2 ** (1 / transmission)
    # An upload begins when its update has been computed and the previous upload has ended.
    received = upload * k + np.maximum.accumulate(computed - upload * (k - 1))
    slots = np.concatenate([[0.0], received])
    return max(0.0, float((params.rewards / (slots * params.slot_time + params.broadcast_time)).max()))


class RoundStopping(Replicas[State]):
    __doc__ = __doc__
    name = "round_stopping"
    params: Params
    clock_unit = "second"
    aliases: Mapping[str, str] = {"time_budget": "horizon"}
    state_type: ClassVar[Any] = State
    sources = ("uploads", "computing")
    info_valid_if: ClassVar[Mapping[str, str]] = dict.fromkeys(CLOSED, "closes")
    functions = Functions(reset=new_round, act=act, receive=settle, observe=observe, info=fill_info)

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        up_to: dict[str, float] = dict.fromkeys(("received", "queued", "computing"), p.num_clients)
        up_to |= {"slots": p.horizon / p.slot_time, "time_left": p.horizon}
        layout = Layout(**{name: (1, 0, most) for name, most in up_to.items()})
        return (Role("server", 1, layout, gymnasium.spaces.Discrete(2)),)

    def constants(self) -> Constants:
        p = self.params
        with np.errstate(under="ignore"):
            nobody = np.power(1.0 - p.compute_probability, np.arange(p.num_clients + 1.0))
        return Constants(
            p.num_clients,
            float(p.broadcast_time),
            float(p.slot_time),
            float(p.upload_probability),
            float(p.compute_probability),
            p.rewards,
            nobody,
            float(p.horizon),
            float(p.price),
            p.objective != "lagrangian",
            p.time_distribution == "pareto",
            *map(float, (*p.transmission, *p.computing)),
        )

    def arrays(self) -> dict[str, Array]:
        return {"finish": np.zeros(self.params.num_clients if self.params.time_distribution == "pareto" else 0)}

    def empty_info(self) -> dict[str, Any]:
        return {"rate_so_far": 0.0, "messages": 0} | dict(zip(CLOSED, (0, 0.0, 0.0, 0.0, False), strict=True))

    def clock(self) -> Array:
        return self.state.clock

    def rate(self) -> Floats:
        """Reward of the closed rounds divided by their duration, [B]; 0 before the first."""
        rate: Floats = self.current_info()["rate_so_far"]
        return rate

    def measures(self) -> dict[str, Callable[[], Array]]:
        s = self.state
        return {
            "reward": lambda: s.earned,
            "rounds": lambda: s.rounds,
            "updates": lambda: s.updates + s.received,
            "rate": self.rate,
        }

    def outcome(self) -> dict[str, Array]:
        """`rate` (0 if no round closed), `reward`, `rounds`, `messages`, and the means per round `mean_duration` and
        `mean_updates` (NaN if no round closed)."""
        s, p = self.state, self.params
        rounds = np.where(s.rounds > 0, s.rounds, np.nan)
        return {
            "rate": self.rate(),
            "reward": s.earned.copy(),
            "rounds": s.rounds.astype(np.float64),
            "mean_duration": (s.closed_slots * p.slot_time) / rounds + p.broadcast_time,
            "mean_updates": s.updates / rounds,
            "messages": (s.updates + s.received).astype(np.float64),
        }

    describe, draw = drawing.describe, drawing.draw


class _World(World[P, Q, K]):
    Hyperbolic = Hyperbolic
    evaluate = staticmethod(evaluate)


round_stopping_v0 = _World(RoundStopping, Params)
