"""A policy that stops Flower's rounds sees what the world would show; run where flwr is installed."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from taciturn.agents import bring
from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Array
from taciturn.policies import Deadline, FixedCount

pytest.importorskip("flwr.serverapp", exc_type=ImportError)

from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from taciturn.flower import StoppingStrategy

pytestmark = [pytest.mark.flower, pytest.mark.filterwarnings("ignore")]

CLIENTS = 6
SETTING: dict[str, Any] = {
    "num_clients": CLIENTS, "compute_probability": 0.1, "slot_time": 0.1, "broadcast_time": 0.5, "horizon": 12.0,
}  # fmt: skip
Reply = Callable[[int, int], Any]
"""The seconds after which a client has computed, or an `Error`, of round and client (both from 0)."""


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulation sets before it makes messages."""
    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Grid:
    """A grid whose clients add their number to the model; on the real clock their replies can be pulled when the time
    has come."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.rounds, self.ids = reply, 0, itertools.count()
        self.sent: dict[str, tuple[float, Message]] = {}

    def get_node_ids(self) -> list[int]:
        return list(range(1, CLIENTS + 1))

    def answer(self, message: Any, client: int) -> tuple[float, Message]:
        told = self.reply(self.rounds, client)
        if isinstance(told, Error):
            return 0.0, Message(told, reply_to=message)
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        metrics = MetricRecord({"num-examples": 1} | ({} if told is None else {"computing-time": told}))
        content = RecordDict({"arrays": ArrayRecord([weights + client]), "metrics": metrics})
        return told or 0.0, Message(content, reply_to=message)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = one = str(next(self.ids))
            seconds, reply = self.answer(message, message.metadata.dst_node_id - 1)
            self.sent[one] = (time.monotonic() + seconds, reply)
            ids.append(one)
        self.rounds += bool(ids)
        return ids

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        return [self.sent.pop(one)[1] for one in list(ids) if self.sent[one][0] <= time.monotonic()]

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Message]:
        return [self.sent.pop(one)[1] for one in self.push_messages(messages)]


class Noted:
    """Keeps what a policy sees."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.seen = bring(policy), list[Array]()
        self.reset, self.update = self.policy.reset, self.policy.update

    def act(self, obs: Array, mask: Any = None) -> Array:
        self.seen.append(obs[0, 0])
        return self.policy.act(obs, mask)


def strategy(policy: Any, seed: int = 0, clock: str = "virtual", **parameters: Any) -> StoppingStrategy:
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    return StoppingStrategy(inner, policy, seed=seed, clock=clock, **SETTING | parameters)


def weight(arrays: Any) -> float:
    """The model, which has one weight."""
    return float(arrays.to_numpy_ndarrays()[0][0])


def start(one: StoppingStrategy, reply: Reply, **arguments: Any) -> Any:
    return one.start(Grid(reply), ArrayRecord([np.zeros(1)]), **arguments)


def computed(seen: Sequence[Array]) -> list[list[float]]:
    """The slots after which clients had computed, by round, in a run that showed these observations."""
    rounds: list[list[float]] = []
    for received, queued, _, slots, _ in seen:
        if slots == 0:
            rounds.append([])
        rounds[-1] += [float(slots)] * int(received + queued - len(rounds[-1]))
    return rounds


@pytest.mark.parametrize("uploads", [1.0, 0.4])
@pytest.mark.parametrize("policy", ["OptimalStopping", "Random", "WaitForAll", Deadline(13)])
def test_a_policy_sees_what_the_world_shows_when_updates_arrive_at_the_same_slots(policy: Any, uploads: float) -> None:
    setting = SETTING | {"upload_probability": uploads}
    world, there = round_stopping_v0.population(1, **setting), Noted(policy)
    world.reset(seed=7)
    there.reset(world, world.stream("policy/server"))
    world.advance(there)
    rounds = computed(there.seen)
    assert len(rounds) > 2

    def reply(number: int, client: int) -> float:
        slots = rounds[number] if number < len(rounds) else []
        return slots[client] * SETTING["slot_time"] if client < len(slots) else 1e9

    here = Noted(policy)
    one = strategy(here, seed=7, upload_probability=uploads)
    start(one, reply)
    np.testing.assert_array_equal(here.seen, there.seen)
    for name, values in world.metrics().items():
        np.testing.assert_array_equal(one.session.metrics()[name], values, err_msg=name)


def test_what_has_arrived_is_averaged_and_the_rest_is_dropped() -> None:
    """Clients 4, 2 and 0 are the first three; a slot after each is computed it is there."""
    order = [4, 2, 0, 5, 3, 1]
    one = strategy(lambda rows: np.where(rows[:, 0] < 3, 1, 0), upload_probability=1.0, horizon=1.8)
    told: list[tuple[int, float]] = []

    def evaluate(number: int, arrays: Any) -> None:
        told.append((number, weight(arrays)))

    result = start(one, lambda _, client: 0.1 + 0.2 * order.index(client), evaluate_fn=evaluate)
    # Two rounds of 0.5 s and 6 slots do not fit: the horizon leaves time for one.
    assert told == [(0, 0.0), (1, 2.0)]
    assert weight(result.arrays) == 2.0
    assert one.session.metrics()["mean_updates"] == 3
    assert one.session.metrics()["mean_duration"] == pytest.approx(0.5 + 0.6)
    assert list(result.train_metrics_clientapp) == [1]


def test_a_round_ends_when_the_others_have_failed() -> None:
    one = strategy("WaitForAll", upload_probability=1.0)
    result = start(one, lambda _, client: 0.1 if client < 2 else Error(code=0, reason="out of memory"), num_rounds=1)
    assert one.session.metrics()["mean_updates"] == 2
    assert weight(result.arrays) == 0.5


def test_on_the_real_clock_replies_are_pulled_as_they_come() -> None:
    """Nothing is seen as queued, a slot takes its time, and the others go on computing."""
    noted = Noted(FixedCount(2))
    one = strategy(noted, clock="real", slot_time=0.05, horizon=60.0, upload_probability=1.0)
    started = time.monotonic()
    result = start(one, lambda _, client: 0.12 if client in (1, 3) else 600.0, num_rounds=2)
    elapsed = time.monotonic() - started
    received, queued, computing, slots, left = np.array(noted.seen).T
    assert weight(result.arrays) == 4.0, "client 1 and client 3, twice"
    assert not queued.any()
    np.testing.assert_array_equal(computing, CLIENTS - received)
    last = np.flatnonzero(received == 2)
    assert len(last) == 2
    assert (slots[last] * 0.05 >= 0.12).all()
    assert slots[last].sum() * 0.05 <= elapsed + 1e-9
    assert left[last[0]] == pytest.approx(60.0 - slots[last[0]] * 0.05)


def test_on_the_real_clock_a_timeout_ends_a_round() -> None:
    one = strategy("WaitForAll", clock="real", slot_time=0.05, horizon=60.0)
    result = start(one, lambda _, client: 0.01 if client == 5 else 600.0, num_rounds=1, timeout=0.2)
    assert weight(result.arrays) == 5.0
    assert one.session.metrics()["mean_duration"] >= 0.5 + 4 * 0.05


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match="clock must be one of 'virtual', 'real', not 'sun'"):
        strategy("OptimalStopping", clock="sun")
    with pytest.raises(ValueError, match="time_distribution must be one of 'geometric', not 'pareto'"):
        strategy("OptimalStopping", time_distribution="pareto")
    with pytest.raises(ValueError, match="unknown policy 'Optimal'"):
        strategy("Optimal")
    with pytest.raises(
        ValueError, match="num_clients must be the number of clients that train in a round, which is 6, not 5"
    ):
        start(strategy("OptimalStopping", num_clients=5), lambda *_: 0.1)
    for wrong in (None, -1.0, float("nan")):
        with pytest.raises(
            ValueError, match="'computing-time' among the metrics of a reply must be a finite number >= 0, not"
        ):
            start(strategy("OptimalStopping"), lambda *_, told=wrong: told)


def test_evaluation_passes_the_grid_until_the_session_is_over() -> None:
    asked: list[str] = []

    class Listening(Grid):
        def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Message]:
            messages = list(messages)
            asked.extend({one.metadata.message_type for one in messages})
            return super().send_and_receive(messages, timeout=timeout)

    one = StoppingStrategy(
        FedAvg(min_train_nodes=CLIENTS, min_available_nodes=CLIENTS), "WaitForAll", seed=0, **SETTING | {"horizon": 4.0}
    )
    result = one.start(Listening(lambda *_: 0.3), ArrayRecord([np.zeros(1)]))
    closed = int(one.session.metrics()["rounds"][0])
    assert closed > 1
    assert asked[: 2 * closed] == ["train", "evaluate"] * closed
    assert list(result.evaluate_metrics_clientapp) == list(range(1, closed + 1))
