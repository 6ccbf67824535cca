"""When should a parameter server stop waiting for client updates and start the next round?

Description
    A server trains with `M` clients over one shared channel. Time passes in slots. At the start of a round every client computes.
    Later, `k` updates have been received, `beta` are computed and queued, and `u = M - k - beta` are still being computed. In a
    slot of waiting, one queued update (if the queue was not empty at the start of the slot) is uploaded with probability `mu`, and
    each client that was computing at the start of the slot finishes with probability `p`; its update can be uploaded from the
    next slot on. A round that is stopped after `n` slots lasts `n tau + t0` and earns `R(k)`.

Paper
    Jiang 2020 (dissertation), chapter 3: the Markov chain of section 3.1, the objectives (equations 3.1 and 3.2), and the
    heavy-tailed times of section 3.4.2.

Agents
    One: the server (`server_0`).

Observation
    Box float32 `[k, beta, u, slots, time_left]`: the updates received, queued and being computed; the slots of this round so far;
    the time that is left of the horizon (0 under the Lagrangian objective, which has no horizon).

Action
    Discrete(2): 0 stops the round; 1 waits, for one slot under geometric times, until the next completion or upload under Pareto times.

Reward
    `differential`: R(k) when a round closes, minus lambda for each unit of time that passed in the step. All time of a session is charged,
    so that this is the return of `rate` minus lambda times the horizon, whatever the server does: the best policy is the same. The price
    is for learners that discount by the step. A broadcast, however long, is one step, so that without a price they stop at once; at a
    price near the best rate, no round is worth much more than the time that it takes, and the discount matters little.
    `rate`: R(k) when a round closes, else 0. `lagrangian`: R(k) - lambda (n tau + t0) when the one round closes, else 0.

Termination
    `differential`, `rate`: terminated when the horizon is reached; a round that would end after it earns nothing and is not counted.
    `lagrangian`: terminated when the round closes. A round closes by itself once all M updates have been received.

Info
    Of a round that closes in the step `updates`, `slots`, `duration`, `round_reward` R(k), and whether it was `complete` (otherwise the
    server stopped it); all are 0 if none closes. At every step `rate_so_far` (the reward of the closed rounds divided by their duration, 0
    before the first) and `messages` (uploads received so far).

Privacy channels
    None: the clients' updates have no content here (see `taciturn/FederatedTraining-v0`).

Arguments
    - num_clients: M >= 1.
    - broadcast_time, slot_time: t0 > 0 and tau > 0, in the same unit of time (seconds by default).
    - upload_probability, compute_probability: mu and p in (0, 1]; used by geometric times only.
    - reward: `Hyperbolic(c, a)`, or a table R(0..M) of finite numbers.
    - horizon: > 0, the length of a training session, in the same unit of time (`time_budget` is an alias).
    - objective: "differential", "rate" or "lagrangian".
    - lambda_: the price of a unit of time, > 0; not for "rate". It must be given for "lagrangian". For "differential", None stands for
      an estimate of the rate of the best fixed number of updates (`rate_of_best_count`).
    - time_law: "geometric" or "pareto"; transmission, computing: (shape, scale) of the Pareto laws, in slots.

Deviations from the paper
    Equations 3.5 to 3.7, Lemma 1, Algorithm 1 and Theorem 3 contain errors of sign and unit, which `OptimalStopping` corrects. The
    paper leaves the order of events within a slot open; with the order above, E[N_1] = 1/(1 - (1-p)^M) + 1/mu. The paper's
    objective is a long-run rate; an episode here is a training session of given length, so that no policy needs to know lambda (the
    price of `differential` changes no policy's rank).
    Pareto times have no slots, so the server acts at events; which of several queued clients uploads next does not matter.

Registered configurations
    `taciturn/RoundStopping-v0`: the paper's setting (M=100, t0=3 s, tau=10 ms, mu=5/8, p=1/500, R(k) = 0.04 - 0.018/(k+1)), in sessions
    of 100 s with differential rewards.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Layout, Population, Role, Transition, World, updated
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.round_stopping import drawing
from taciturn.envs.round_stopping.model import (
    Completions,
    Evaluation,
    Hyperbolic,
    Model,
    evaluate,
    parameters,
    some_finish,
)
from taciturn.validation import Array, Bools, Floats, Ints, choice, number, shown, vector

__all__ = [
    "STOP", "WAIT", "Evaluation", "Hyperbolic", "Model", "Params", "RoundStopping", "State", "evaluate", "parameters",
    "rate_of_best_count", "round_stopping_v0",
]  # fmt: skip

STOP, WAIT = 0, 1


@dataclass(frozen=True, kw_only=True)
class Params(Model):
    """The world's parameters: the stopping problem, and how it is played."""

    horizon: float = 100.0
    objective: str = "differential"
    lambda_: float | None = None
    time_law: str = "geometric"
    transmission: tuple[float, float] = (1.454, 0.5)
    computing: tuple[float, float] = (2.0, 250.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("horizon", self.horizon, above=0)
        number("horizon / slot_time", self.horizon / self.slot_time, at_least=1e-30, at_most=1e30)
        # Beyond, rounds without a slot would not move the clock, and a session would never end.
        number("horizon / broadcast_time", self.horizon / self.broadcast_time, at_most=1e15)
        choice("objective", self.objective, ("differential", "rate", "lagrangian"))
        if self.objective == "lagrangian" or (self.objective == "differential" and self.lambda_ is not None):
            number("lambda_", self.lambda_, above=0)
        elif self.lambda_ is not None:
            raise ValueError(
                f"lambda_ must be None under objective 'rate', where time has no price, not {shown(self.lambda_)}"
            )
        choice("time_law", self.time_law, ("geometric", "pareto"))
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
    """B training sessions."""

    received: Ints  # int64[B]: k
    queued: Ints  # int64[B]: beta
    slots: Floats  # float64[B]: of this round
    total_slots: Floats  # float64[B]: of all rounds
    rounds: Ints  # int64[B]: closed
    updates: Ints  # int64[B]: in closed rounds
    closed_slots: Floats  # float64[B]: of closed rounds
    earned: Floats  # float64[B]: reward of closed rounds
    clock: Floats  # float64[B]: time so far
    finish: Floats  # float64[B, M], sorted: when each client finishes computing, in slots of this round (Pareto; else [B, 0])
    upload: Floats  # float64[B]: when the upload in progress ends (Pareto; inf if there is none)


def geometric_slot(
    received: Ints, queued: Ints, model: Model, completions: Completions, uploads: np.random.Generator,
    computing: np.random.Generator,
) -> tuple[Ints, Ints]:  # fmt: skip
    """One slot of the Markov chain of section 3.1: (k, beta) after it, int64[B] each."""
    uploaded = (uploads.random(received.shape) < model.upload_probability) & (queued > 0)
    finished = completions.draw(model.num_clients - received - queued, computing)
    return received + uploaded, queued - uploaded + finished


def pareto(law: tuple[float, float], size: int | tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Pareto variates with (shape, scale): P(X > x) = (scale / x)^shape for x >= scale (section 3.4.2)."""
    shape, scale = law
    return scale * (1.0 + rng.pareto(shape, size))


def pareto_event(state: State, params: Params, uploads: np.random.Generator) -> tuple[Ints, Ints, Floats, Floats]:
    """Wait for the next completion or upload: (k, beta, slots of the round, end of the upload in progress), each [B]."""
    size, clients = state.finish.shape
    done = state.received + state.queued
    padded = np.minimum(done, clients - 1)
    completion = np.where(done < clients, state.finish[np.arange(size), padded], np.inf)
    computed = completion <= state.upload
    now = np.minimum(completion, state.upload)
    received, queued = state.received + ~computed, state.queued + np.where(computed, 1, -1)
    start = np.where(computed, state.queued == 0, queued > 0)
    under_way = np.where(queued == 0, np.inf, state.upload)
    return received, queued, now, np.where(start, now + pareto(params.transmission, size, uploads), under_way)


def rate_of_best_count(params: Params) -> float:
    """An estimate of the rate of the best fixed number of updates, as if every time had its mean (Pareto times: their quantiles)."""
    clients, k = params.num_clients, np.arange(1, params.num_clients + 1)
    if params.time_law == "geometric":
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


def rate(state: State, model: Model) -> Floats:
    """Reward of the closed rounds divided by their duration, [B]; 0 before the first."""
    time = state.rounds * model.broadcast_time + state.closed_slots * model.slot_time
    return state.earned / np.where(state.rounds > 0, time, 1.0)


class RoundStopping(Population[State]):
    __doc__ = __doc__
    name = "round_stopping"
    params: Params
    clock_unit = "second"
    aliases: Mapping[str, str] = {"time_budget": "horizon"}
    hidden_state = frozenset({"finish", "upload"})

    @classmethod
    def length_of_cycles(cls, params: Any) -> tuple[float, str]:
        return params.slot_time, ", if the server waits in most of them"

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        up_to: dict[str, float] = dict.fromkeys(("received", "queued", "computing"), p.num_clients)
        up_to |= {"slots": p.horizon / p.slot_time, "time_left": p.horizon}
        layout = Layout(**{name: (1, 0, most) for name, most in up_to.items()})
        self.completions = Completions(p.num_clients, p.compute_probability)
        return (Role("server", 1, layout, gymnasium.spaces.Discrete(2)),)

    def initial(self) -> State:
        whole, real = np.zeros(self.num_envs, np.int64), np.zeros(self.num_envs)
        return State(
            received=whole, queued=whole, slots=real, total_slots=real, rounds=whole, updates=whole, closed_slots=real,
            earned=real, clock=real, finish=self.new_finish(self.num_envs), upload=np.full(self.num_envs, np.inf),
        )  # fmt: skip

    def new_finish(self, size: int) -> Floats:
        """When the clients of `size` new rounds finish computing: float64[size, M], sorted (Pareto; else [size, 0])."""
        if self.params.time_law == "geometric":
            return np.zeros((size, 0))
        return np.sort(pareto(self.params.computing, (size, self.params.num_clients), self.stream("computing")), axis=1)

    def wait(self, state: State, waits: Bools) -> State:
        """Let time pass in the replicas `waits` bool[B]: one slot, or until the next event."""
        p = self.params
        if p.time_law == "geometric":
            streams = self.stream("uploads"), self.stream("computing")
            received, queued = geometric_slot(state.received, state.queued, p, self.completions, *streams)
            slots, upload = state.slots + waits, state.upload
        else:
            received, queued, slots, upload = pareto_event(state, p, self.stream("uploads"))
            slots, upload = np.where(waits, slots, state.slots), np.where(waits, upload, state.upload)
        total = state.total_slots + (slots - state.slots)
        return updated(
            state, received=np.where(waits, received, state.received), queued=np.where(waits, queued, state.queued),
            slots=slots, total_slots=total, upload=upload, clock=state.rounds * p.broadcast_time + total * p.slot_time,
        )  # fmt: skip

    def aggregate(self, state: State, closes: Bools) -> tuple[State, Floats]:
        """Aggregate the updates of the rounds that close, `closes` bool[B]: the state after it, and R(k), float64[B] (0 elsewhere)."""
        return state, np.where(closes, self.params.rewards[state.received], 0.0)

    def close(self, state: State, closes: Bools, reward: Floats) -> State:
        """Record the rounds that close, `closes` bool[B], with their `reward` [B], and begin the next ones."""
        p, who = self.params, np.flatnonzero(closes)

        def put(array: Array, values: Any) -> Array:
            array = array.copy()
            array[who] = values
            return array

        rounds = state.rounds[who] + 1
        return updated(
            state, received=put(state.received, 0), queued=put(state.queued, 0), slots=put(state.slots, 0.0),
            rounds=put(state.rounds, rounds), updates=put(state.updates, state.updates[who] + state.received[who]),
            closed_slots=put(state.closed_slots, state.closed_slots[who] + state.slots[who]),
            earned=state.earned + reward,
            clock=put(state.clock, rounds * p.broadcast_time + state.total_slots[who] * p.slot_time),
            finish=put(state.finish, self.new_finish(who.size)) if state.finish.size else state.finish,
            upload=put(state.upload, np.inf),
        )  # fmt: skip

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        p, limit = self.params, self.params.horizon * (1 + 1e-12)
        waits = actions["server"][:, 0] == WAIT
        after = self.wait(state, waits)
        complete = after.received == p.num_clients
        ends = ~waits | complete
        session = p.objective != "lagrangian"
        closes = ends & (after.clock + p.broadcast_time <= limit) if session else ends
        earned, new = np.zeros(self.num_envs), after
        if closes.any():
            after, earned = self.aggregate(after, closes)
            new = self.close(after, closes, earned)
        if session:
            # The session ends when no further round can close within the horizon.
            terminated = (new.clock + min(p.slot_time, p.broadcast_time) > limit) | (ends & ~closes)
            new = updated(new, clock=np.where(terminated, p.horizon, new.clock))
            reward = earned - p.price * (new.clock - state.clock)
        else:
            reward = np.where(closes, earned - p.price * (after.slots * p.slot_time + p.broadcast_time), 0.0)
            terminated = closes
        info = partial(self.step_info, after, new, closes, earned, complete)
        return new, {"server": reward[:, None]}, terminated, np.zeros(self.num_envs, np.bool_), info

    def empty_info(self) -> dict[str, Any]:
        closed = {"updates": 0, "slots": 0.0, "duration": 0.0, "round_reward": 0.0, "complete": False}
        return {"rate_so_far": 0.0, "messages": 0} | closed

    def step_info(self, after: State, new: State, closes: Bools, earned: Floats, complete: Bools) -> dict[str, Any]:
        """The info of a step, [B] each; entries that describe a closed round are masked by `closes`."""
        p = self.params
        closed = {
            "updates": after.received, "slots": after.slots, "duration": after.slots * p.slot_time + p.broadcast_time,
            "round_reward": earned, "complete": complete,
        }  # fmt: skip
        info: dict[str, Any] = {"rate_so_far": rate(new, p), "messages": new.updates + new.received}
        return info | closed | {f"_{key}": closes for key in closed}

    def fields(self, state: State) -> dict[str, Array]:
        """The fields of the server's observation, [B] each."""
        p = self.params
        return {
            "received": state.received,
            "queued": state.queued,
            "computing": p.num_clients - state.received - state.queued,
            "slots": state.slots,
            "time_left": np.zeros(self.num_envs) if p.objective == "lagrangian" else p.horizon - state.clock,
        }

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        return self.roles[role].layout.pack(**{name: value[:, None] for name, value in self.fields(state).items()})

    def clock(self) -> Array:
        return self.state.clock

    def measures(self) -> dict[str, Callable[[], Array]]:
        s = self.state
        return {
            "reward": lambda: s.earned,
            "rounds": lambda: s.rounds,
            "updates": lambda: s.updates + s.received,
            "rate": lambda: rate(s, self.params),
        }

    def outcome(self) -> dict[str, Array]:
        """`rate` (0 if no round closed), `reward`, `rounds`, `messages`, and the means per round `mean_duration` and `mean_updates`
        (NaN if no round closed)."""
        s, p = self.state, self.params
        rounds = np.where(s.rounds > 0, s.rounds, np.nan)
        return {
            "rate": rate(s, p), "reward": s.earned.copy(), "rounds": s.rounds.astype(np.float64),
            "mean_duration": (s.closed_slots * p.slot_time) / rounds + p.broadcast_time,
            "mean_updates": s.updates / rounds, "messages": (s.updates + s.received).astype(np.float64),
        }  # fmt: skip

    describe, draw = drawing.describe, drawing.draw


class _World(World[P, Q, K]):
    Hyperbolic = Hyperbolic
    evaluate = staticmethod(evaluate)


round_stopping_v0 = _World(RoundStopping, Params)
