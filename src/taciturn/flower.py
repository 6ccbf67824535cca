"""Rounds of Flower that a stopping policy ends (extra `flower`).

A server of Flower asks clients to train and waits for all their replies, or until a timeout. `StoppingStrategy` wraps
any of Flower's strategies and asks a policy of `round_stopping_v0` after every slot whether to keep waiting. When the
policy stops, the strategy aggregates the updates that have arrived, and drops the rest. The policy has the same
observations as in that environment, so a policy that was trained there can act here.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from taciturn.agents import bring
from taciturn.compiling.counter_streams import uniform
from taciturn.envs.core import Functions, Rollout, as_policies, begin, choice, integer, number
from taciturn.envs.round_stopping.world import UPLOADS, WAIT, Params, RoundStopping, decide, round_stopping_v0, time_of
from taciturn.validation import Array, missing_extra

try:
    from flwr.app import MessageType
    from flwr.serverapp.strategy import Strategy
except ImportError as error:
    raise missing_extra("StoppingStrategy needs flwr", "flower") from error

TIME_KEY = "computing-time"


class StoppingStrategy(Strategy):
    """A strategy of Flower's message API in which a policy ends the training rounds.

    There are two clocks for arrivals:

    - `"virtual"`: all clients are trained, and each reply states in its metrics, as `"computing-time"`, after how many
      seconds it was computed. From then on it queues for the shared channel, which uploads one queued update per slot
      with probability `upload_probability`, as in the environment. Flower's simulation has no other way to make clients
      slow without waiting for them.
    - `"real"`: a slot lasts `slot_time` seconds, and at its end the replies that have arrived are pulled. No update is
      ever seen as queued, since a Flower server learns of updates only on arrival; `upload_probability=1` describes
      this best.

    A run is a session of the environment: it ends at its `horizon`, and a round that would end later is dropped.
    Flower's further rounds do nothing. Evaluation takes no time, and the time between rounds is `broadcast_time`, on
    either clock. A round also ends when no further reply can come, because the others are errors or the timeout has
    passed.

    Args:
        strategy: the strategy that samples clients and aggregates, such as `FedAvg()`.
        policy: stops the rounds: anything that `taciturn.agents.bring` takes for `round_stopping_v0`.
        seed: seed of the uploads on the virtual clock, and of the policy; the same as in `taciturn.simulate`.
        clock: "virtual" or "real".
        **parameters: parameters of `round_stopping_v0`, in seconds; `num_clients` is the number of clients that the
            strategy samples.

    Attributes:
        session: the current or last run as a population of one replica: its `clock()`, `measure(...)` and `metrics()`.

    Raises:
        ValueError: an unknown policy or parameter, one out of range, or Pareto times, which have no slots; during a
            run, a number of clients other than `num_clients`, or a reply without a computing time >= 0 on the virtual
            clock.

    On the real clock a late client finishes the stopped round before it begins the next, since Flower cannot recall a
    message. `start` must be called on this strategy: another wrapper around it would wait for all replies again.
    """

    def __init__(self, strategy: Any, policy: Any, *, seed: int, clock: str = "virtual", **parameters: Any) -> None:
        self.strategy, self.policy = strategy, bring(policy)
        self.seed = integer("seed", seed, at_least=0)
        self.clock = choice("clock", clock, ("virtual", "real"))
        self._world = round_stopping_v0.population(1, **parameters)
        choice("time_distribution", self._world.params.time_distribution, ("geometric",))
        self.session = Session(self._world.params)

    def start(
        self,
        grid: Any,
        initial_arrays: Any,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: Any = None,
        evaluate_config: Any = None,
        evaluate_fn: Callable[[int, Any], Any] | None = None,
    ) -> Any:
        """Run a session; the arguments and the result are as in Flower's `Strategy.start`.

        Args:
            num_rounds: the largest number of rounds; None: as many as the horizon admits.
            timeout: seconds of real time for the replies of a round.
            evaluate_fn: called before the first round and after each round that was closed; `session.clock()` gives the
                time.
        """
        if num_rounds is None:
            params = self.session.params
            num_rounds = math.floor(params.horizon / params.broadcast_time + 1e-9)
        policies = as_policies(self._world, self.policy)
        self._world.reset(seed=self.seed)
        begin(self._world, policies)
        self.session.reset(seed=self.seed)
        stopped = StoppedGrid(grid, Rollout(self.session, policies), self.clock)

        def evaluate(number: int, arrays: Any) -> Any:
            closed = int(self.session.state.rounds[0])
            return evaluate_fn(number, arrays) if evaluate_fn is not None and number <= closed else None

        return self.strategy.start(
            stopped, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn and evaluate
        )

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.strategy.summary()


class VirtualArrivals:
    """The replies of a round, in the order of arrival by their stated times.

    Attributes:
        received: replies that have been uploaded.
        queue: replies that have been computed and wait for the channel.
        failed: replies that are errors.
        slots: slots that have passed.
    """

    def __init__(self, replies: Iterable[Any], params: Params) -> None:
        replies = list(replies)
        self.failed = [reply for reply in replies if reply.has_error()]
        results = [(computing_slots(reply, params.slot_time), reply) for reply in replies if not reply.has_error()]
        self.computing = deque(sorted(results, key=lambda one: one[0]))
        self.received, self.queue = list[Any](), deque[Any]()
        self.slots = 0.0

    @property
    def exhausted(self) -> bool:
        return not self.computing and not self.queue

    def wait(self, uploads: bool) -> None:
        """Let a slot pass, in which a queued update can be uploaded if `uploads`."""
        self.slots += 1
        if uploads and self.queue:
            self.received.append(self.queue.popleft())
        while self.computing and self.computing[0][0] <= self.slots:
            self.queue.append(self.computing.popleft()[1])


class RealArrivals:
    """The replies of a round as they arrive; with the same attributes."""

    def __init__(self, grid: Any, message_ids: Iterable[str | None], params: Params, timeout: float | None) -> None:
        self.grid, self.slot_time = grid, params.slot_time
        self.missing = {message_id_ for message_id_ in message_ids if message_id_ is not None}
        self.started = time.monotonic()
        self.end = math.inf if timeout is None else self.started + timeout
        self.received, self.failed, self.queue = list[Any](), list[Any](), deque[Any]()
        self.slots = 0.0

    @property
    def exhausted(self) -> bool:
        return not self.missing or time.monotonic() > self.end

    def wait(self, uploads: bool) -> None:
        """Sleep until the end of the slot, and pull the new updates; slots that pass during the pull count too."""
        time.sleep(max(0.0, self.started + (self.slots + 1) * self.slot_time - time.monotonic()))
        for reply in self.grid.pull_messages(self.missing):
            self.missing.discard(reply.metadata.reply_to_message_id)
            (self.failed if reply.has_error() else self.received).append(reply)
        self.slots = max(self.slots + 1, (time.monotonic() - self.started) // self.slot_time)


class Session(RoundStopping):
    """The round-stopping environment, with one replica; its arrivals are Flower's replies."""

    arrivals: VirtualArrivals | RealArrivals
    compile = False

    @property
    def functions(self) -> Functions:  # type: ignore[override]
        return RoundStopping.functions._replace(act=self.wait_or_stop)

    def wait_or_stop(self, state: Any, arrays: Any, actions: Array, params: Any, rng: Array) -> None:
        arrivals, before = self.arrivals, state.slots
        state.before = state.clock
        # Always drawn, as in the environment: a seed then gives the same uploads in both.
        uploads = actions[0] == WAIT and uniform(rng, UPLOADS) < params.upload_probability
        waits = actions[0] == WAIT and not arrivals.exhausted
        if waits:
            arrivals.wait(uploads)
            state.received, state.queued, state.slots = len(arrivals.received), len(arrivals.queue), arrivals.slots
            state.total_slots += state.slots - before
            state.clock = time_of(state, params)
        decide(state, not waits, params)


class StoppedGrid:
    """A Flower grid that ends training rounds by a policy, and passes everything else on.

    Args:
        grid: Flower's grid.
        rollout: the policy's rollout in a `Session`.
        clock: "virtual" or "real".
    """

    def __init__(self, grid: Any, rollout: Rollout, clock: str) -> None:
        self._grid, self._rollout, self._clock = grid, rollout, clock
        self._over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        """The replies with which a round is closed, and its errors; none if the session is over, or ends before the
        round does."""
        session: Any = self._rollout.env
        messages = list(messages)
        trains = any(message.metadata.message_type.partition(".")[0] == MessageType.TRAIN for message in messages)
        self._over = bool(session.done[0]) if trains else self._over
        if self._over:
            return []
        if not trains:
            return list(self._grid.send_and_receive(messages, timeout=timeout))
        if len(messages) != session.params.num_clients:
            raise ValueError(
                f"num_clients must be the number of clients that train in a round, which is {len(messages)}, not "
                f"{session.params.num_clients}"
            )
        if self._clock == "virtual":
            replies = self._grid.send_and_receive(messages, timeout=timeout)
            session.arrivals = VirtualArrivals(replies, session.params)
        else:
            session.arrivals = RealArrivals(self._grid, self._grid.push_messages(messages), session.params, timeout)
        closed = session.state.rounds[0]
        while session.state.rounds[0] == closed and not session.done[0]:
            self._rollout.play()
        self._over = session.state.rounds[0] == closed
        return [] if self._over else [*session.arrivals.received, *session.arrivals.failed]


def computing_slots(reply: Any, slot_time: float) -> float:
    """The slots, at least 1, until a reply has been computed, from the seconds in its metrics; ValueError without
    them."""
    times = [record[TIME_KEY] for record in reply.content.metric_records.values() if TIME_KEY in record]
    seconds = number(f"{TIME_KEY!r} among the metrics of a reply", times[0] if times else None, at_least=0)
    # 0.07 / 0.01 is 7.000000000000001 in floating point, but 7 slots are meant.
    return max(1.0, math.ceil(seconds / slot_time - 1e-9))
