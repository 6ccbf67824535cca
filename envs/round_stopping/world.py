"""When should a parameter server stop waiting for client updates and start the next round?

Description
    A server trains with `M` clients over one shared channel. Time passes in slots. A round starts with every client computing;
    `k` updates have been received, `beta` are computed and queued, `u = M - k - beta` are still being computed. In a slot of
    waiting, one queued update (if there was one when the slot began) is uploaded with probability `mu`, and each client that
    was computing when the slot began finishes with probability `p`; it can upload from the next slot. A round stopped after
    `n` slots lasts `n tau + t0` and earns `R(k)`.

Paper
    Jiang 2020 (dissertation), chapter 3: the Markov chain of section 3.1, objectives (3.1) and (3.2), heavy tails in 3.4.2.

Agents
    One: the server (`server_0`).

Observation
    Box float32 `[k, beta, u, slots, time_left]`: updates received, queued, being computed; slots of this round; what is left of
    the time budget (0 under the Lagrangian objective, which has none).

Action
    Discrete(2): 0 stop the round, 1 wait: one slot with geometric clocks, until the next completion or upload with Pareto ones.

Reward
    `rate`: R(k) when a round closes, else 0. `lagrangian`: R(k) - lambda (n tau + t0) when the one round closes, else 0.

Termination
    `rate`: terminated when the time budget is spent; a round that would not end within it earns nothing and is not counted.
    `lagrangian`: terminated when the round closes. A round of which all M updates were received closes by itself.

Info
    At each closed round `updates`, `slots`, `duration`, `reward`, `stop_reason` ("stopped" or "complete"); always `rate_so_far`
    (reward of the closed rounds over their duration, 0 before the first) and `messages` (uploads received so far).

Privacy channels
    None: the clients' updates have no content here (see `taciturn/FederatedTraining-v0`).

Arguments
    - num_clients: M >= 1.
    - broadcast_time, slot_time: t0 > 0 and tau > 0, in one unit of time (the defaults: seconds).
    - upload_probability, compute_probability: mu and p in (0, 1]; geometric clocks only.
    - reward: `Hyperbolic(c, a)` or a table R(0..M) of finite numbers.
    - horizon: > 0, the time that a session may take, in the same unit (also called `time_budget`).
    - objective: "rate" or "lagrangian"; lambda_: the price of a unit of time, > 0, for the latter.
    - time_law: "geometric" or "pareto"; transmission, computing: Pareto (shape, scale), in slots.

Deviations from the paper
    The paper's (3.5)-(3.7), Lemma 1, Algorithm 1 and Theorem 3 hold slips of sign and unit, corrected in `OptimalStopping`. A slot's
    order of events, which the paper leaves open, is as above: E[N_1] = 1/(1 - (1-p)^M) + 1/mu. The paper's objective is a
    long-run rate; an episode is a training session under a time budget, so that no policy needs to know lambda. Under Pareto
    clocks the server acts at events, since there are no slots; which of several queued clients uploads does not matter.

Registered configurations
    `taciturn/RoundStopping-v0`: the paper's setting (M=100, t0=3 s, tau=10 ms, mu=5/8, p=1/500, R(k) = 0.04 - 0.018/(k+1)).

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from taciturn.envs.core import Array, Layout, Population, Role, World, choice, integer, number, vector

__all__ = [
    "Evaluation",
    "Hyperbolic",
    "Model",
    "Params",
    "RoundStopping",
    "State",
    "evaluate",
    "parameters",
    "round_stopping_v0",
]

STOP, WAIT = 0, 1


@dataclass(frozen=True)
class Hyperbolic:
    """The paper's reward curve, R(k) = c - a / (k + 1) (section 3.4)."""

    c: float = 0.04
    a: float = 0.018

    def __post_init__(self) -> None:
        number("c", self.c)
        number("a", self.a, at_least=0)

    def table(self, num_clients: int) -> Array:
        """R(0..M), float64[M + 1]."""
        return self.c - self.a / (np.arange(num_clients + 1) + 1.0)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The stopping problem (3.1): who computes, how fast, and what a round is worth.

    Args:
        num_clients: M.
        broadcast_time: t0, the fixed cost of a round, in the unit of `slot_time`.
        slot_time: tau.
        upload_probability: mu, that an upload succeeds in a slot.
        compute_probability: p, that a client finishes in a slot.
        reward: R(0..M), or a `Hyperbolic`.

    Raises:
        ValueError: a parameter outside its range, or a table that is not M + 1 finite numbers.
    """

    num_clients: int = 100
    broadcast_time: float = 3.0
    slot_time: float = 0.01
    upload_probability: float = 0.625
    compute_probability: float = 0.002
    reward: Hyperbolic | Sequence[float] | Array = field(default_factory=Hyperbolic)

    def __post_init__(self) -> None:
        integer("num_clients", self.num_clients, at_least=1)
        number("broadcast_time", self.broadcast_time, above=0)
        number("slot_time", self.slot_time, above=0)
        number("upload_probability", self.upload_probability, above=0, at_most=1)
        number("compute_probability", self.compute_probability, above=0, at_most=1)
        if not isinstance(self.reward, Hyperbolic):
            vector("reward", self.reward, size=self.num_clients + 1)

    @cached_property
    def rewards(self) -> Array:
        """R(0..M), float64[M + 1]."""
        if isinstance(self.reward, Hyperbolic):
            return self.reward.table(self.num_clients)
        return vector("reward", self.reward)


def parameters(model: Model) -> dict[str, Any]:
    """The parameters of `Model`, also of what extends it, as keyword arguments."""
    return {f.name: getattr(model, f.name) for f in fields(Model)}


@dataclass(frozen=True, kw_only=True)
class Params(Model):
    """The world's parameters: the model, and how it is played."""

    horizon: float = 100.0
    objective: str = "rate"
    lambda_: float | None = None
    time_law: str = "geometric"
    transmission: tuple[float, float] = (1.454, 0.5)
    computing: tuple[float, float] = (2.0, 250.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("horizon", self.horizon, above=0)
        choice("objective", self.objective, ("rate", "lagrangian"))
        if self.objective == "lagrangian":
            number("lambda_", self.lambda_, above=0)
        elif self.lambda_ is not None:
            raise ValueError(f"lambda_ has no meaning under objective 'rate', but it is {self.lambda_!r}: leave it out")
        choice("time_law", self.time_law, ("geometric", "pareto"))
        for name in ("transmission", "computing"):
            shape, scale = vector(name, getattr(self, name), size=2)
            number(f"{name} shape", shape, above=0)
            number(f"{name} scale", scale, above=0)


@dataclass(frozen=True)
class State:
    """B training sessions."""

    received: Array  # int64[B]: k
    queued: Array  # int64[B]: beta
    slots: Array  # float64[B]: of this round
    waited: Array  # float64[B]: slots of all rounds
    rounds: Array  # int64[B]: closed
    updates: Array  # int64[B]: in closed rounds
    counted: Array  # float64[B]: slots of closed rounds
    earned: Array  # float64[B]: reward of closed rounds
    clock: Array  # float64[B]: time so far
    finish: Array  # float64[B, M], sorted: when each client will have computed, in slots of this round (Pareto; else [B, 0])
    upload: Array  # float64[B]: when the upload in progress will end (Pareto; inf: none)


def binomial_rows(sizes: Array, probability: float, width: int) -> Array:
    """P(Binomial(n, probability) = d) for each n in `sizes` and d = 0..width: float64[len(sizes), width + 1]."""
    n, d = np.asarray(sizes, np.float64)[:, None], np.arange(1, width + 1)
    if probability == 1.0:
        return (np.arange(width + 1) == n).astype(np.float64)
    with np.errstate(divide="ignore"):
        ratios = np.log(np.maximum(n - d + 1, 0) / d) + (np.log(probability) - np.log1p(-probability))
    start = n * np.log1p(-probability)
    return np.exp(np.concatenate([start, start + np.cumsum(ratios, axis=1)], axis=1))


def some_finish(computing: Array, probability: float) -> Array:
    """1 - (1-p)^u, the probability that any of u `computing` clients finishes in a slot, exact also where p is tiny."""
    if probability == 1.0:
        return (computing > 0).astype(np.float64)
    return -np.expm1(computing * np.log1p(-probability))


class Completions:
    """Draws Binomial(u, p), how many of u computing clients finish in a slot, for many u at once.

    Inverts the distribution function, which is cheap because few finish in a slot; where many may, NumPy's sampler is used.
    """

    def __init__(self, num_clients: int, probability: float) -> None:
        self.probability = probability
        self.table: Array | None = None
        # Where fewer than 2 are expected, more than 24 have a chance below 2^-53, which a uniform double cannot tell from none.
        if num_clients * probability < 2 and num_clients <= 100_000:
            computing, width = np.arange(num_clients + 1), min(num_clients, 24)
            rows = np.cumsum(binomial_rows(computing, probability, width), axis=1)
            rows[np.arange(width + 1) >= computing[:, None]] = 1.0
            self.table = np.ascontiguousarray(rows.T)

    def draw(self, computing: Array, rng: np.random.Generator) -> Array:
        """int64[B] for int64[B]."""
        if self.table is None:
            return rng.binomial(computing, self.probability)
        uniform = rng.random(computing.shape)
        above = uniform >= self.table[0].take(computing)
        finished, some = above.astype(np.int64), np.flatnonzero(above)
        for row in self.table[1:]:
            if not some.size:
                break
            some = some[uniform[some] >= row[computing[some]]]
            finished[some] += 1
        return finished


def geometric_slot(
    received: Array,
    queued: Array,
    model: Model,
    completions: Completions,
    uploads: np.random.Generator,
    computing: np.random.Generator,
) -> tuple[Array, Array]:
    """One slot of the Markov chain of section 3.1: (k, beta) after it, int64[B] each."""
    uploaded = (uploads.random(received.shape) < model.upload_probability) & (queued > 0)
    finished = completions.draw(model.num_clients - received - queued, computing)
    return received + uploaded, queued - uploaded + finished


def pareto(law: tuple[float, float], size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
    """Pareto variates with (shape, scale): P(X > x) = (scale / x)^shape for x >= scale (section 3.4.2)."""
    shape, scale = law
    drawn: Array = scale * (1.0 + rng.pareto(shape, size))
    return drawn


def pareto_event(state: State, params: Params, uploads: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Wait for the next completion or upload: (k, beta, slots of the round, end of the upload in progress), each [B]."""
    size, clients = state.finish.shape
    done = state.received + state.queued
    padded = np.minimum(done, clients - 1)
    completion = np.where(done < clients, state.finish[np.arange(size), padded], np.inf)
    computed = completion <= state.upload
    now = np.minimum(completion, state.upload)
    received, queued = state.received + ~computed, state.queued + np.where(computed, 1, -1)
    start = np.where(computed, state.queued == 0, queued > 0)
    upload = np.where(
        start, now + pareto(params.transmission, size, uploads), np.where(queued == 0, np.inf, state.upload)
    )
    return received, queued, now, upload


class Evaluation(NamedTuple):
    """What a stopping rule is worth: expectations over one round, and the rate J = E[R(K)] / E[N tau + t0] of (3.1)."""

    rate: float
    expected_reward: float
    expected_slots: float
    expected_duration: float
    expected_updates: float


def evaluate(wait: Any, **model: Any) -> Evaluation:
    """Evaluate exactly any stationary stopping rule.

    Solves the linear equations of the rule's Markov chain, k downwards: within one k, states are ordered by s = k + beta, the number of
    clients that have computed, which never falls, so the equations are triangular.

    Args:
        wait: bool[M + 1, M + 1] over (k, beta), whether the rule waits there; entries with k + beta > M or k = M are not looked at.
        **model: the parameters of `Model`.

    Raises:
        ValueError: a table of another shape or kind, or a parameter out of range.

    Cost:
        O(M^3) operations, 2 ms for M = 100.
    """
    from scipy.linalg import solve_triangular

    m = Model(**model)
    clients, mu = m.num_clients, m.upload_probability
    table = np.asarray(wait)
    if table.shape != (clients + 1, clients + 1) or table.dtype != np.bool_:
        raise ValueError(
            f"wait must be bool[{clients + 1}, {clients + 1}] over (k, beta), not {table.dtype}{list(table.shape)}"
        )
    computing = clients - np.arange(clients + 1)
    moves, leave = np.zeros((clients + 1, clients + 1)), some_finish(computing, m.compute_probability)
    for s, row in enumerate(binomial_rows(computing, m.compute_probability, clients)):
        moves[s, s:] = row[: clients + 1 - s]

    # Columns: E[R(K)], E[K], E[slots still to come], from (k, s - k) for s = k..M.
    beyond = np.array([[m.rewards[clients], clients, 0.0]])
    for k in range(clients - 1, -1, -1):
        chain = moves[k:, k:]
        system, ahead = (mu - 1) * chain, np.zeros((clients + 1 - k, 3))
        np.fill_diagonal(system, mu + (1 - mu) * leave[k:])
        system[0], system[0, 0] = -chain[0], leave[k]
        ahead[1:] = mu * chain[1:, 1:] @ beyond
        ahead[:, 2] += 1.0
        stops = np.flatnonzero(~table[k, : clients + 1 - k])
        system[stops], system[stops, stops], ahead[stops] = 0.0, 1.0, (m.rewards[k], k, 0.0)
        beyond = solve_triangular(system, ahead, check_finite=False)
    reward, updates, slots = (float(x) for x in beyond[0])
    duration = slots * m.slot_time + m.broadcast_time
    return Evaluation(reward / duration, reward, slots, duration, updates)


class RoundStopping(Population[State]):
    __doc__ = __doc__
    name = "round_stopping"
    params: Params
    clock_unit = "second"
    aliases: Mapping[str, str] = {"time_budget": "horizon"}

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        clients, slots = p.num_clients, p.horizon / p.slot_time
        layout = Layout(
            received=(1, 0, clients),
            queued=(1, 0, clients),
            computing=(1, 0, clients),
            slots=(1, 0, slots),
            time_left=(1, 0, p.horizon),
        )
        self.completions = Completions(clients, p.compute_probability)
        return (Role("server", 1, layout, gymnasium.spaces.Discrete(2)),)

    def initial(self) -> State:
        whole, real = np.zeros(self.num_envs, np.int64), np.zeros(self.num_envs)
        return State(
            received=whole, queued=whole, slots=real, waited=real, rounds=whole, updates=whole, counted=real, earned=real, clock=real,
            finish=self.fresh_finish(self.num_envs), upload=np.full(self.num_envs, np.inf),
        )  # fmt: skip

    def fresh_finish(self, size: int) -> Array:
        """When the clients of `size` fresh rounds will have computed: float64[size, M], sorted (Pareto; else [size, 0])."""
        if self.params.time_law == "geometric":
            return np.zeros((size, 0))
        return np.sort(pareto(self.params.computing, (size, self.params.num_clients), self.stream("computing")), axis=1)

    def wait(self, state: State, waits: Array) -> State:
        """Let time pass for the replicas in `waits` bool[B]: a slot, or until the next event."""
        p = self.params
        if p.time_law == "geometric":
            received, queued = geometric_slot(
                state.received, state.queued, p, self.completions, self.stream("uploads"), self.stream("computing")
            )
            slots, upload = state.slots + waits, state.upload
        else:
            received, queued, slots, upload = pareto_event(state, p, self.stream("uploads"))
            slots, upload = np.where(waits, slots, state.slots), np.where(waits, upload, state.upload)
        waited = state.waited + (slots - state.slots)
        return replace(
            state,
            received=np.where(waits, received, state.received),
            queued=np.where(waits, queued, state.queued),
            slots=slots,
            waited=waited,
            upload=upload,
            clock=state.rounds * p.broadcast_time + waited * p.slot_time,
        )

    def aggregate(self, state: State, closes: Array) -> tuple[State, Array]:
        """Use the updates of the rounds in `closes` bool[B]: the state with what the server learned, and R(k), float64[B]."""
        return state, np.where(closes, self.params.rewards[state.received], 0.0)

    def close(self, state: State, closes: Array, reward: Array) -> State:
        """Book the rounds in `closes` bool[B] and begin the next ones."""
        p, who = self.params, np.flatnonzero(closes)

        def put(array: Array, values: Any) -> Array:
            array = array.copy()
            array[who] = values
            return array

        rounds = state.rounds[who] + 1
        return replace(
            state,
            received=put(state.received, 0),
            queued=put(state.queued, 0),
            slots=put(state.slots, 0.0),
            rounds=put(state.rounds, rounds),
            updates=put(state.updates, state.updates[who] + state.received[who]),
            counted=put(state.counted, state.counted[who] + state.slots[who]),
            earned=state.earned + reward,
            clock=put(state.clock, rounds * p.broadcast_time + state.waited[who] * p.slot_time),
            finish=put(state.finish, self.fresh_finish(who.size)) if state.finish.size else state.finish,
            upload=put(state.upload, np.inf),
        )

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        p = self.params
        waits = actions["server"][:, 0] == WAIT
        passed = self.wait(state, waits)
        complete = passed.received == p.num_clients
        closes = ~waits | complete
        if p.objective == "rate":
            limit = self.params.horizon * (1 + 1e-12)
            closes &= passed.clock + p.broadcast_time <= limit
            passed, earned = self.aggregate(passed, closes)
            new = self.close(passed, closes, earned)
            # A round that cannot be finished any more ends the session.
            terminated = new.clock + min(p.slot_time, p.broadcast_time) > limit
            terminated |= ~closes & (~waits | complete)
            new = replace(new, clock=np.where(terminated, self.params.horizon, new.clock))
            reward = earned
        else:
            assert p.lambda_ is not None
            passed, earned = self.aggregate(passed, closes)
            new = self.close(passed, closes, earned)
            reward = np.where(closes, earned - p.lambda_ * (passed.slots * p.slot_time + p.broadcast_time), 0.0)
            terminated = closes
        truncated = np.zeros(self.num_envs, np.bool_)
        return (
            new,
            {"server": reward[:, None]},
            terminated,
            truncated,
            self.inform(passed, new, closes, earned, complete),
        )

    def inform(self, passed: State, new: State, closes: Array, earned: Array, complete: Array) -> dict[str, Any]:
        """The info of a step, [B] each; what describes a closed round is masked by `closes`."""
        p = self.params
        # Texts take long to copy, and seldom is a round complete.
        seldom = complete.any()
        reason = REASONS[complete.astype(np.int8)] if seldom else np.broadcast_to(REASONS[:1], complete.shape)
        closed = {
            "updates": passed.received,
            "slots": passed.slots,
            "duration": passed.slots * p.slot_time + p.broadcast_time,
            "reward": earned,
            "stop_reason": reason,
        }
        info: dict[str, Any] = {"rate_so_far": rate(new, p), "messages": new.updates + new.received}
        return info | closed | {f"_{key}": closes for key in closed}

    def seen(self, state: State) -> dict[str, Array]:
        """What the server sees, each [B]."""
        return {
            "received": state.received,
            "queued": state.queued,
            "computing": self.params.num_clients - state.received - state.queued,
            "slots": state.slots,
            "time_left": self.params.horizon - state.clock
            if self.params.objective == "rate"
            else np.zeros(self.num_envs),
        }

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        return self.roles[role].layout.pack(**{name: value[:, None] for name, value in self.seen(state).items()})

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
        """`rate` (0 before a round closed), `reward`, `rounds`, `messages`; per round `mean_duration`, `mean_updates` (NaN without any)."""
        s, p = self.state, self.params
        rounds = np.where(s.rounds > 0, s.rounds, np.nan)
        return {
            "rate": rate(s, p),
            "reward": s.earned.copy(),
            "rounds": s.rounds.astype(np.float64),
            "mean_duration": (s.counted * p.slot_time) / rounds + p.broadcast_time,
            "mean_updates": s.updates / rounds,
            "messages": (s.updates + s.received).astype(np.float64),
        }

    def describe(self, replica: int = 0) -> str:
        s, p, i = self.state, self.params, replica
        width = min(p.num_clients, 50)
        received = round(width * s.received[i] / p.num_clients)
        queued = round(width * (s.received[i] + s.queued[i]) / p.num_clients) - received
        bar = "#" * received + "+" * queued + "." * (width - received - queued)
        return (
            f"t={s.clock[i]:9.2f}  round {s.rounds[i] + 1:4d}  slot {s.slots[i]:7.1f}  [{bar}]  "
            f"received {s.received[i]}, queued {s.queued[i]}  reward {s.earned[i]:.4f}  rate {rate(s, p)[i]:.6f}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        s, p, i = self.state, self.params, replica
        parts = {
            "received": (s.received[i], "#2a6f4e"),
            "queued": (s.queued[i], "#e0a526"),
            "computing": (p.num_clients - s.received[i] - s.queued[i], "#c9ced6"),
        }
        left = 0
        for name, (count, colour) in parts.items():
            axes.barh(1, count, left=left, height=0.8, color=colour, label=f"{name} {count}")
            left += count
        if p.objective == "rate":
            axes.barh(0, s.clock[i] / self.params.horizon * p.num_clients, height=0.25, color="#47597e")
            axes.barh(0, p.num_clients, height=0.25, fill=False, edgecolor="#47597e")
            axes.text(0, 0.25, f"time {s.clock[i]:.2f} of {self.params.horizon:g}", va="bottom")
        axes.set_xlim(0, p.num_clients)
        axes.set_ylim(-0.5, 2.4)
        axes.set_yticks([])
        axes.set_xlabel("clients")
        axes.set_title(
            f"round {s.rounds[i] + 1}, slot {s.slots[i]:.0f}: reward {s.earned[i]:.4f}, rate {rate(s, p)[i]:.5f}"
        )
        axes.legend(loc="upper center", ncols=3, frameon=False)
        axes.spines[["top", "right", "left"]].set_visible(False)


REASONS = np.array(["stopped", "complete"])


def rate(state: State, model: Model) -> Array:
    """Reward of the closed rounds over their duration, [B]; 0 before the first."""
    time = state.rounds * model.broadcast_time + state.counted * model.slot_time
    return state.earned / np.where(state.rounds > 0, time, 1.0)


class _World(World[RoundStopping, Params]):
    Hyperbolic = Hyperbolic
    evaluate = staticmethod(evaluate)


round_stopping_v0 = _World(RoundStopping, Params)
