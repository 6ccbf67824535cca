"""Every charge against a bill that is kept by hand: who sent what, at which level, on each channel of every world, with
each mechanism that fits, under faults and budgets, in a first run, after a reset of some replicas, and in a second run
of the same objects."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import CASES

from taciturn.channels.config import require_fit
from taciturn.envs.core import Array, Channel, ChannelConfig, Fault, Streams
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Blocks,
    CentralSum,
    ChosenLevels,
    DistributedSum,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    NoPrivacy,
    Scheduled,
    Shuffled,
    TreeAggregation,
    UnaryEncoding,
)
from taciturn.privacy.spending import spending
from taciturn.testing.cases import chosen, random_actions
from taciturn.testing.replays import Nothing
from taciturn.wrappers import Churn, LossyChannel, MessageLimit, Stragglers

FAULTS: dict[str, Fault] = {
    "lossy": LossyChannel(0.5),
    "late": Stragglers((0.3, 0.3)),
    "limited": MessageLimit(2),
    "absent": Churn(1.0, 0.0),  # all leave before the first message
}
ONE_HOT = [
    BitwiseRandomizedResponse(1.0),
    UnaryEncoding(0.7),
    Memoized(BitwiseRandomizedResponse(1.0)),
    Scheduled(BitwiseRandomizedResponse(1.0), at=2),
    Shuffled(BitwiseRandomizedResponse(1.0)),
    Scheduled(Shuffled(BitwiseRandomizedResponse(1.0)), at=2),
]
NUMBERS = [Laplace(0.5), Memoized(Laplace(0.5)), Scheduled(Laplace(0.5), at=2), CentralSum(Laplace(0.5))]
MECHANISMS: list[Any] = [
    *ONE_HOT,
    *NUMBERS,
    DistributedSum(0.5),
    Gaussian(1.0, 1e-5),
    TreeAggregation(1.0, horizon=64),
    Blocks(1.0),
    Exponential(0.5),
    KaryRandomizedResponse(1.0, 3),
]


class Bill:
    """What the agents of one channel sent and owe. Keys are (replica, agent); all of it is counted message by message.

    Attributes:
        sent: how many messages were sent.
        paid: the epsilons that were charged.
        said: the value that was last answered anew.
        admitted: how many messages a `MessageLimit` let pass.
        crowds: among how many messages of a round each of those that were charged is shuffled.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.sent: dict[Any, int] = {}
        self.paid: dict[Any, list[float]] = {}
        self.said: dict[Any, Array] = {}
        self.admitted: dict[Any, int] = {}
        self.crowds: dict[Any, list[int]] = {}

    def forget(self, replicas: Any) -> None:
        books: Any = self.sent, self.paid, self.said, self.admitted, self.crowds
        for book in books:
            for key in [key for key in book if key[0] in replicas]:
                del book[key]

    def message(self, key: tuple[int, int], x: Any, level: float) -> None:
        """One message that agent `key` wants to send about x."""
        mechanism, budget = self.channel.config.mechanism, self.channel.config.budget
        for fault in self.channel.config.faults:
            if isinstance(fault, Churn):
                return
            if isinstance(fault, MessageLimit):
                if self.admitted.get(key, 0) >= fault.messages:
                    return
                self.admitted[key] = self.admitted.get(key, 0) + 1
        number, paid = self.sent.get(key, 0) + 1, self.paid.setdefault(key, [])
        if self.channel.chosen:
            cost = level
        elif mechanism is None:
            cost = math.inf
        elif isinstance(mechanism, ChosenLevels):
            cost = level
        elif isinstance(mechanism, Memoized):
            known = key in self.said and (budget is not None or np.array_equal(self.said[key], x))
            cost = 0.0 if known else mechanism.epsilon
        elif isinstance(mechanism, Scheduled):
            cost = mechanism.epsilon if number == mechanism.at else 0.0
        elif mechanism.per_stream:
            cost = mechanism.epsilon if number == 1 else 0.0
        else:
            cost = math.inf if mechanism.kind == "gaussian" else mechanism.epsilon
        if budget is not None and sum(paid) + cost > budget.epsilon * (1 + 1e-9):
            if not isinstance(mechanism, ChosenLevels):
                return
            cost = 0.0
        if isinstance(mechanism, ChosenLevels) and cost == 0 and not (mechanism.repeats and key in self.said):
            return
        self.sent[key] = number
        if cost:
            paid.append(cost)
            self.said[key] = np.copy(x)

    def round(self, x: Array, senders: Array | None, drawn: bool = False, levels: Array | None = None) -> None:
        """A round of messages x [B, N, ...]."""
        who = self.channel.live[:, None] & (np.ones(x.shape[:2], np.bool_) if senders is None else senders)
        mechanism = self.channel.config.mechanism
        if levels is None:
            levels = self.channel.levels if self.channel.takes_levels else np.zeros(x.shape[:2])
        if drawn and isinstance(mechanism, CentralSum) and not self.channel.config.faults:
            for b, row in enumerate(who):
                share = math.log1p(row.mean() * math.expm1(mechanism.epsilon))
                for n in range(len(row)) if row.any() else ():
                    self.paid.setdefault((b, n), []).append(share if mechanism.kind == "laplace" else math.inf)
                    self.sent[b, n] = self.sent.get((b, n), 0) + int(row[n])
            return
        before = {key: len(paid) for key, paid in self.paid.items()}
        for b, n in np.argwhere(who).tolist():
            self.message((b, n), x[b, n], float(levels[b, n]))
        fresh = [key for key, paid in self.paid.items() if len(paid) > before.get(key, 0)]
        for b, n in fresh:
            others = sum(key[0] == b for key in fresh) - 1
            crowd = others + (self.channel.observer != "neighbour")  # who reads others' answers knows its own
            self.crowds.setdefault((b, n), []).append(max(crowd, 1))

    def counted(self, sent: Array, charged: Array, cost: float) -> None:
        """Messages [B, N] that a world sent itself, of which so many are charged."""
        for key in np.ndindex(sent.shape):
            self.sent[key] = self.sent.get(key, 0) + int(sent[key])
            self.paid.setdefault(key, []).extend([cost] * int(charged[key]))

    def check(self, accountant: Any, told: str) -> None:
        """The counts of the channel and of the accountant, and totals: by basic composition, at delta 0, and of the
        costliest message where messages are disjoint."""
        channel = self.channel
        shape = len(channel.live), channel.num_senders

        def table(value: Any) -> Array:
            return np.array([[value(b, n) for n in range(shape[1])] for b in range(shape[0])])

        np.testing.assert_array_equal(channel.messages(), table(lambda b, n: self.sent.get((b, n), 0)), told)
        if channel.config.mechanism is None and not channel.chosen:
            clear = np.full(shape[0], channel.silence_leaks) | (channel.messages() > 0).any(1)
            assert np.isinf(spending([channel], None)["epsilon_basic"]).tolist() == clear.tolist(), told
            return
        owed = table(lambda b, n: len(self.paid.get((b, n), [])))
        np.testing.assert_array_equal(accountant.messages(channel.name), owed, told)
        for account in accountant.accounts_of(channel.name):
            if account.kind == "shuffled":
                size = account.loss.num_senders
                among = table(lambda b, n, size=size: self.crowds.get((b, n), []).count(size))
                np.testing.assert_array_equal(account.messages() + np.zeros(shape, int), among, told)
        basic, event = (
            accountant.epsilon(
                0.0, method="basic", unit=unit, channel=channel.name, role=accountant.senders[channel.name]
            )
            for unit in (None, "event")
        )
        if channel.silence_leaks:
            assert np.isinf(basic).all(), f"{told}: silence tells, also before the first message"
            return
        spent = table(lambda b, n: math.fsum(self.paid.get((b, n), [])))
        dearest = table(lambda b, n: max(self.paid.get((b, n), []), default=0.0))
        if isinstance(channel.config.mechanism, Memoized) and channel.config.budget is None:  # a change shows
            spent = dearest = np.where(owed > 0, math.inf, 0.0)
        np.testing.assert_allclose(basic, spent, rtol=1e-9, err_msg=told)
        np.testing.assert_allclose(event, dearest if channel.disjoint else spent, rtol=1e-9, err_msg=told)


def fits(channel: Channel, config: ChannelConfig) -> bool:
    try:
        require_fit(channel, config)
    except ValueError:
        return False
    return True


def dresses(mechanism: Any) -> dict[str, ChannelConfig]:
    """What can be on a channel beside the mechanism; budgets have room for two messages and a half."""
    found = {name: ChannelConfig(mechanism, None, (fault,)) for name, fault in FAULTS.items()}
    if mechanism is not None and mechanism.kind not in ("gaussian", "none") and not mechanism.averages:
        size = 1.0 if mechanism.changes_leak else 2.5
        found["budget"] = ChannelConfig(mechanism, Budget(size * mechanism.epsilon))
    return {"alone": ChannelConfig(mechanism)} | found


# A channel by itself.

PAYLOADS: dict[str, Any] = {
    "one_hot": lambda rng, shape: np.eye(3, dtype=np.int64)[rng.integers(0, 3, shape)],
    "categorical": lambda rng, shape: rng.integers(0, 3, shape),
    "bounded": lambda rng, shape: rng.integers(0, 2, shape) * 0.5,
    "stream": lambda rng, shape: rng.random(shape),
    "scores": lambda rng, shape: rng.random((*shape, 3)),
}


@pytest.mark.parametrize(
    "mechanism",
    [None, *MECHANISMS, ChosenLevels(BitwiseRandomizedResponse(2.0)), ChosenLevels(Laplace(2.0), repeats=False)],
    ids=repr,
)
def test_a_channel_charges_what_was_sent(mechanism: Any) -> None:
    """Random rounds of some or of all agents, as messages and as counts; silence before the first message; replicas
    that have ended; messages that a world perturbed itself, or sent past the mechanism."""
    shape = 3, 4
    payload: Any = next(one for one in PAYLOADS if mechanism is None or one in mechanism.payloads)
    more: dict[str, Any] = {
        "averaged": mechanism is not None and mechanism.averages,
        "counted": mechanism is not None and mechanism.shuffles,
    }
    for dress, config in dresses(mechanism).items():
        for options in ({}, {"disjoint": True}, {"silence_leaks": True}):
            channel = Channel("x", payload, observer="server", unit="event", num_senders=shape[1], **more | options)
            if not fits(channel, config):
                continue
            for run in range(2):
                rng = np.random.default_rng(run)
                accountant = Accountant(shape[0], shape[1], [channel])
                channel.install(config, accountant)
                channel.draw_from(Streams(run))
                channel.reset(shape[0])
                if mechanism is not None and not channel.takes_levels:
                    accountant.charge("x", mechanism.loss())  # as the core does at a reset
                bill, told = Bill(channel), f"{dress}, {options}, run {run}"
                bill.check(accountant, f"{told}, before the first message")
                for time in range(8):
                    if time == 5:
                        again = np.array([True, False, True])
                        channel.reset(shape[0], again)
                        accountant.reset(again)
                        bill.forget([0, 2])
                    channel.live = np.array([True, True, time < 2 or time >= 5])
                    x = PAYLOADS[payload](rng, shape)
                    who = None if rng.random() < 0.3 and time else rng.random(shape) < 0.6
                    if channel.takes_levels:
                        channel.levels = rng.choice([0.0, 0.5, 2.0], shape)
                    if payload == "one_hot" and not channel.takes_levels and time % 3 == 2:
                        x[1] = 0  # nobody holds an option there, and all say so
                        bill.round(x, None)
                        channel.tally(x.sum(1), lambda x=x: x, np.array([0, shape[1], 0]))  # type: ignore[misc]
                    else:
                        bill.round(x, who)
                        channel.send(x, who, 0.5)
                    if time in (0, 3, 7):  # not before the reset, so that it meets counts that nobody has read
                        bill.check(accountant, f"{told}, time {time}")


@pytest.mark.parametrize("seed", range(8))
def test_what_channels_cost_adds_up(seed: int) -> None:
    """Three channels, some of them disjoint: an event costs what its costliest message does on these, and all of them
    on others. Where one channel's silence tells, it is the only one without a total of its own."""
    rng, shape = np.random.default_rng(seed), (2, 3)
    channels = [
        Channel(
            *(name, "one_hot"),
            observer="server",
            unit="event",
            num_senders=3,
            disjoint=bool(rng.random() < 0.6),
            silence_leaks=seed % 4 == 3 and name == "b",
        )
        for name in "abc"
    ]
    accountant, bills = Accountant(*shape, channels), {}
    for channel, level in zip(channels, (0.5, 0.25, 1.0), strict=True):
        channel.install(ChannelConfig(BitwiseRandomizedResponse(level)), accountant)
        channel.draw_from(Streams(seed))
        channel.reset(2)
        bills[channel.name] = Bill(channel)
    for _ in range(8):
        channel = channels[rng.integers(3)]
        x, who = np.zeros((*shape, 2), int), rng.random(shape) < 0.5
        bills[channel.name].round(x, who)
        channel.send(x, who)
    owed = np.zeros(shape)
    for channel in channels:
        bills[channel.name].check(accountant, channel.name)
        for key, paid in bills[channel.name].paid.items():
            owed[key] += max(paid, default=0.0) if channel.disjoint else sum(paid)
    owed += math.inf if seed % 4 == 3 else 0.0
    np.testing.assert_allclose(accountant.epsilon(0.0, method="basic", unit="event"), owed)
    np.testing.assert_allclose(spending(channels, accountant)["epsilon_basic"], owed.max(1))


@pytest.mark.parametrize("mechanism", [Laplace(0.5), Shuffled(BitwiseRandomizedResponse(0.5))], ids=repr)
def test_messages_that_a_world_counts_itself_are_charged(mechanism: Any) -> None:
    channel = Channel("x", "bounded", observer="server", unit="event", num_senders=2)
    for seed in range(2):
        accountant, rng = Accountant(2, 2, [channel]), np.random.default_rng(seed)
        channel.install(ChannelConfig(mechanism), accountant)
        channel.reset(2)
        sent, charged, bare = np.zeros((3, 2, 2), np.int64)
        for time in range(6):
            everyone, each, some = rng.integers(0, 4, 2), rng.integers(0, 4, (2, 2)), rng.integers(0, 2, (2, 2))
            if time % 3 == 0:
                channel.record(everyone)
                sent, charged = sent + everyone[:, None], charged + everyone[:, None]
            elif time % 3 == 1:
                channel.record(everyone, each)
                sent, charged = sent + everyone[:, None] + each, charged + everyone[:, None] + each
            else:
                channel.record(everyone, each, np.minimum(each, 1))
                channel.expose(some)
                sent += everyone[:, None] + each + some
                charged += everyone[:, None] + np.minimum(each, 1)
                bare += some
        np.testing.assert_array_equal(channel.messages(), sent)
        np.testing.assert_array_equal(accountant.messages("x"), charged + bare)
        np.testing.assert_allclose(accountant.epsilon(0.0, method="basic"), np.where(bare > 0, np.inf, 0.5 * charged))
        found = spending([channel], accountant)
        np.testing.assert_array_equal(found["messages"], sent.sum(1))
        assert np.isinf(found["epsilon_basic"]).tolist() == (bare > 0).any(1).tolist()


# Every world.


class Replay:
    """Keeps a bill for each channel while a world plays, and the noise that its senders add to numbers, in the scales
    that follow from the sensitivities that the world states."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bills: dict[str, Bill] = {}
        self.noise: list[Array] = []
        calls = {name: getattr(Channel, name) for name in ("reset", "send", "tally", "record", "expose")}
        sends = [0]

        def reset(channel: Channel, num_envs: int, where: Array | None = None) -> None:
            calls["reset"](channel, num_envs, where)
            if where is None:
                self.bills[channel.name] = Bill(channel)
            else:
                self.bills[channel.name].forget(set(np.flatnonzero(where).tolist()))

        def send(channel: Channel, x: Array, senders: Any = None, sensitivity: Any = None, **more: Any) -> Any:
            sends[0] += 1
            self.bills[channel.name].round(x, senders, more.get("drawn", False), more.get("levels"))
            y, there = calls["send"](channel, x, senders, sensitivity, **more)
            mechanism = channel.config.mechanism
            if isinstance(mechanism, Laplace | Gaussian) and not channel.config.faults:
                numbers = math.prod(x.shape[2:])
                scale = np.broadcast_to(np.asarray(sensitivity, np.float64), x.shape)
                if mechanism.kind == "laplace":
                    scale = scale / mechanism.epsilon * (numbers**0.5 if more.get("norm") == 2 else 1)
                else:
                    scale = scale / math.sqrt(2 * mechanism.loss().rho) * math.sqrt(2 / math.pi)
                self.noise.append((np.abs(y - x) / scale)[there].ravel())
            return y, there

        def tally(channel: Channel, histogram: Array, *rest: Any, **more: Any) -> Any:
            before = sends[0]
            result = calls["tally"](channel, histogram, *rest, **more)
            if sends[0] == before:
                self.bills[channel.name].round(np.zeros((len(histogram), channel.num_senders)), None)
            return result

        def record(channel: Channel, everyone: Any = None, each: Any = None, charged: Any = None) -> None:
            calls["record"](channel, everyone, each, charged)
            shape = len(channel.live), channel.num_senders
            alike = np.zeros(shape, int) + (0 if everyone is None else everyone[:, None])
            mechanism = channel.config.mechanism
            cost = math.inf if mechanism is None or mechanism.kind == "gaussian" else mechanism.epsilon
            sent = alike + (0 if each is None else each)
            self.bills[channel.name].counted(sent, sent if charged is None else alike + charged, cost)

        def expose(channel: Channel, each: Array) -> None:
            calls["expose"](channel, each)
            self.bills[channel.name].counted(each, each, math.inf)

        for name, call in {"reset": reset, "send": send, "tally": tally, "record": record, "expose": expose}.items():
            monkeypatch.setattr(Channel, name, call)


def plays(env: Any, channel: str, config: ChannelConfig, seed: int) -> bool:
    """A few steps of random actions, with a reset of some replicas among them; whether the world takes the config."""
    rng = np.random.default_rng(seed)
    try:
        env.reset(seed=seed, options={"channels": {channel: config}, "public_schedule": True})
    except ValueError:
        return False
    for step in range(8):
        if step == 5 and (not env.turns or env.turn == env.turns[0]):
            env.reset(where=np.array([True, False, True]))
        if env.done.all():
            break
        env.step(chosen(env, random_actions(env, rng)))
    return True


@pytest.mark.parametrize("dress", ["alone", *FAULTS, "budget"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.privacy])
def test_worlds_are_charged_what_they_sent(name: str, dress: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each channel with each mechanism that fits, twice. Without a mechanism, where a world may count by itself, it
    counts what it sends under `NoPrivacy`, and levels that senders choose under a fault that does nothing. Of the
    answers of a third party, it is taken from the world which were sent
    and which were paid for before. Noise: 6 standard errors."""
    replay, case = Replay(monkeypatch), CASES[name]
    env: Any = case.population(3)
    for channel in env.channels:
        own = bool(env.channels[channel].chosen)
        for mechanism in [None] if own else [NoPrivacy(), *MECHANISMS]:
            config: Any = (dresses(mechanism) | ({"budget": ChannelConfig(None, Budget(1.5))} if own else {})).get(
                dress
            )
            counts_itself = own and dress == "alone"
            if counts_itself:
                config = ChannelConfig(faults=(Nothing(),))
            replay.noise.clear()
            for run in range(2 if config is not None else 0):
                if not plays(env, channel, config, run):
                    break
                replay.bills[channel].check(env.accountant, f"{channel}, {mechanism!r}, run {run}")
                if isinstance(mechanism, NoPrivacy) or counts_itself:
                    sent, spent = env.channels[channel].messages().copy(), env.spending()
                    plain = ChannelConfig() if counts_itself else replace(config, mechanism=None)
                    assert plays(env, channel, plain, run)
                    np.testing.assert_array_equal(env.channels[channel].messages(), sent)
                    if counts_itself:
                        np.testing.assert_equal(env.spending(), spent)
            noise = np.concatenate([np.empty(0), *replay.noise])
            assert noise.size < 200 or abs(noise.mean() - 1) < 6 / math.sqrt(noise.size), (channel, mechanism)
