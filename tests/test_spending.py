"""What was spent: against sums over single agents and messages, kept apart from the accountant."""

import math
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from taciturn.envs.core import Array, ChannelConfig
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.channels import Observer, Unit
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Exponential, Gaussian, Laplace, PrivacyLoss
from taciturn.privacy.spending import spending

DELTA = 1e-5


@dataclass
class Counted:
    """A channel that only counts."""

    name: str
    num_senders: int
    everyone: Array
    each: Array | None = None
    observer: Observer = "server"
    unit: Unit = "event"
    disjoint: bool = False
    silence_leaks: bool = False
    given: str = ""
    unbounded: str = ""
    config: ChannelConfig = field(default_factory=ChannelConfig)


def counted(name: str, num_envs: int, num_senders: int, **options: Any) -> Counted:
    return Counted(name, num_senders, np.zeros(num_envs, np.int64), **options)


def bitwise(epsilon: float) -> PrivacyLoss:
    return BitwiseRandomizedResponse(epsilon).loss()


def of_gaussian(rho: float, delta: float) -> float:
    """Epsilon of Gaussian noise: Balle & Wang (2018), Theorem 8, solved by a library."""
    mu = math.sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 0, 50, xtol=1e-12))


def of_rho(rho: float, delta: float) -> float:
    """Epsilon of rho-zCDP: Canonne, Kamath & Steinke (2020), Proposition 12, minimised over all orders by a library."""

    def at(log_order: float) -> float:
        alpha = 1 + math.exp(log_order)
        return alpha * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)

    return max(float(minimize_scalar(at, bounds=(-7, 12), method="bounded", options={"xatol": 1e-10}).fun), 0.0)


class Brute:
    """Every message as a line of its own: (replica, agent, loss)."""

    def __init__(self, num_envs: int, num_agents: int) -> None:
        self.lines: list[tuple[int, int, PrivacyLoss | None]] = []
        self.shape = num_envs, num_agents

    def spending(self, delta: float = DELTA) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {name: [] for name in ("messages", "message", "basic", "zcdp")}
        for replica in range(self.shape[0]):
            agents = [[loss for b, n, loss in self.lines if (b, n) == (replica, m)] for m in range(self.shape[1])]
            spent = [self.of_agent(losses, delta) for losses in agents]
            found["messages"].append(sum(len(losses) for losses in agents))
            for place, name in enumerate(("message", "basic", "zcdp")):
                found[name].append(max(three[place] for three in spent))
        return found

    @staticmethod
    def of_agent(losses: list[PrivacyLoss | None], delta: float) -> tuple[float, float, float]:
        if not losses:
            return 0.0, 0.0, 0.0
        if None in losses:
            return math.inf, math.inf, math.inf
        known = [loss for loss in losses if loss is not None]
        impure = sum(loss.kind == "gaussian" for loss in known)

        def single(loss: PrivacyLoss, delta: float) -> float:
            return of_gaussian(loss.rho, delta) if loss.kind == "gaussian" else loss.epsilon

        basic = math.fsum(single(loss, delta / max(impure, 1)) for loss in known)
        together = of_rho(math.fsum(loss.rho for loss in known), delta)
        return max(single(loss, delta) for loss in known), basic, min(basic, together)


LOSSES = [bitwise(0.25), bitwise(0.75), Laplace(0.4).loss(), Exponential(1.5).loss()]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "impure", [[], [Gaussian.from_rho(0.02).loss()]], ids=["pure messages", "and some that are not"]
)
def test_against_every_message_by_itself(seed: int, impure: list[PrivacyLoss]) -> None:
    """Two channels, some charges of everybody and some of few, resets of single replicas, one replica that stays
    silent."""
    rng, (num_envs, num_agents) = np.random.default_rng(seed), (3, 5)
    channels = [counted(name, num_envs, num_agents) for name in ("vote", "mean")]
    accountant, brute = Accountant(num_envs, num_agents, channels), Brute(num_envs, num_agents)
    for channel in channels:  # each channel has its mechanism, whether or not it is ever used
        accountant.charge(channel.name, bitwise(5.0))
    for _ in range(25):
        channel, losses = channels[rng.integers(2)], LOSSES + impure
        loss = losses[rng.integers(len(losses))]
        if rng.random() < 0.5 - 0.5 * (seed < 2):
            who = np.repeat(rng.random((num_envs, 1)) < 0.5, num_agents, 1)
            who[2] = False
            channel.everyone += who[:, 0]
            accountant.charge(channel.name, loss, who[:, 0])
        else:
            who = rng.random((num_envs, num_agents)) < 0.4
            who[2] = False
            if seed % 2 and channel is channels[1]:
                continue
            channel.each = who.astype(np.int64) if channel.each is None else channel.each + who
            accountant.charge(channel.name, loss, each=who)
        brute.lines += [(int(b), int(n), loss) for b, n in np.argwhere(who)]
        if rng.random() < 0.1:
            gone = np.array([True, False, False])
            accountant.reset(gone)
            brute.lines = [line for line in brute.lines if line[0] != 0]
            for one in channels:
                one.everyone[0] = 0
                if one.each is not None:
                    one.each[0] = 0
        found, truth = spending(channels, accountant, delta=DELTA), brute.spending()
        assert found["messages"].tolist() == truth["messages"]
        assert found["messages"].dtype == np.int64
        np.testing.assert_allclose(found["epsilon_message"], truth["message"], rtol=1e-9)
        np.testing.assert_allclose(found["epsilon_basic"], truth["basic"], rtol=1e-9)
        np.testing.assert_allclose(found["epsilon_zcdp"], truth["zcdp"], rtol=2e-3)
        assert {array.shape for array in found.values()} == {(num_envs,)}
    assert brute.lines


def test_messages_about_different_events_cost_what_the_costliest_costs() -> None:
    """Two messages at .5 and four at .25, each about events of its own: parallel composition."""
    channel = counted("vote", 1, 2, unit="event", disjoint=True)
    accountant = Accountant(1, 2, [channel])
    channel.each = np.array([[2, 4]])
    accountant.charge("vote", bitwise(0.25), each=channel.each)
    accountant.charge("vote", bitwise(0.5), each=np.array([[0, 2]]))
    found = spending([channel], accountant, methods=("basic", "zcdp"))
    assert found["epsilon_basic"].tolist() == [0.5]
    assert found["epsilon_zcdp"].tolist() == [0.5]


def test_the_costliest_role_counts() -> None:
    channels = [counted("bid", 2, 3), counted("offer", 2, 1)]
    accountant = Accountant(2, {"buyer": 3, "seller": 1}, channels, senders={"bid": "buyer", "offer": "seller"})
    channels[0].everyone += [4, 1]
    accountant.charge("bid", bitwise(0.5), np.array([4, 1]))
    channels[1].everyone += [1, 1]
    accountant.charge("offer", bitwise(1.0), np.array([1, 1]))
    found = spending(channels, accountant)
    assert found["messages"].tolist() == [4 * 3 + 1, 1 * 3 + 1]
    assert found["epsilon_basic"].tolist() == [2.0, 1.0]
    assert found["epsilon_message"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("with_accountant", [False, True])
def test_without_a_mechanism_the_first_message_costs_everything(with_accountant: bool) -> None:
    channels = [counted("vote", 4, 2), counted("mean", 4, 2)]
    accountant = Accountant(4, 2, channels) if with_accountant else None
    if accountant is not None:
        channels[1].everyone += [0, 1, 0, 1]
        accountant.charge("mean", bitwise(0.5), np.array([0, 1, 0, 1]))
    channels[0].everyone[2] += 1
    channels[0].each = np.array([[0, 0], [0, 0], [0, 0], [0, 1]])
    found = spending(channels, accountant, methods=("basic", "zcdp", "rdp"))
    private = 0.5 if with_accountant else 0.0
    for name in ("message", "basic", "zcdp", "rdp"):
        assert found[f"epsilon_{name}"] == pytest.approx([0.0, private, math.inf, math.inf], rel=1e-3)
    assert found["messages"].tolist() == [0, 2 * with_accountant, 2, 1 + 2 * with_accountant]


@pytest.mark.parametrize("other", [False, True], ids=["one channel", "beside another on which agents differ"])
def test_levels_that_agents_choose(other: bool) -> None:
    channels = [counted("report", 2, 3), counted("vote", 2, 3)]
    accountant = Accountant(2, 3, channels)
    levels = np.array([[0.5, 0.0, 1.0], [0.0, 0.0, 0.0]])
    for _ in range(2):
        accountant.charge_levels("report", levels)
    channels[0].each = 2 * (levels > 0)
    more = np.array([[4, 0, 0], [0, 0, 0]])
    accountant.charge("vote", bitwise(0.5), each=more if other else None)
    channels[1].each = more * other
    found = spending(channels, accountant)
    assert found["messages"].tolist() == [4 + 4 * other, 0]
    assert found["epsilon_message"].tolist() == [1.0, 0.0]
    assert found["epsilon_basic"].tolist() == [3.0 if other else 2.0, 0.0]


def test_results_are_nobody_elses_arrays() -> None:
    channel = counted("vote", 1, 1)
    for accountant in (None, Accountant(1, 1, [channel])):
        found = spending([channel], accountant)
        for array in found.values():
            array += 1
        assert channel.everyone.tolist() == [0]
        assert found["epsilon_basic"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("best",)}, "method must be one of"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
    ],
)
def test_hostile_input(options: dict[str, Any], message: str) -> None:
    channel = counted("vote", 1, 1)
    with pytest.raises(ValueError, match=message):
        spending([channel], Accountant(1, 1, [channel]), **options)


def test_a_million_agents_who_all_send_cost_no_array_of_agents() -> None:
    channel = counted("vote", 2, 1_000_000)
    accountant = Accountant(2, 1_000_000, [channel])
    channel.everyone += 7
    accountant.charge("vote", bitwise(0.5), np.full(2, 7))
    spending([channel], accountant)
    tracemalloc.start()
    try:
        found = spending([channel], accountant)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["messages"].tolist() == [7_000_000] * 2
    assert peak < 100_000


def test_basic_composition_does_not_load_scipy() -> None:
    code = """if True:
        import sys, numpy as np
        from taciturn.privacy.channels import SendingChannel
        from taciturn.privacy.accountant import Accountant
        from taciturn.privacy.mechanisms import BitwiseRandomizedResponse
        from taciturn.privacy.spending import spending
        class ChannelConfig:
            mechanism = budget = None
        class Channel:
            name, observer, unit, disjoint, silence_leaks, unbounded = "vote", "server", "event", False, False, ""
            num_senders, each, config = 2, None, ChannelConfig()
            everyone = np.ones(1, np.int64)
        accountant = Accountant(1, 2, [Channel()])
        accountant.charge("vote", BitwiseRandomizedResponse(1.0).loss(), np.ones(1, np.int64))
        assert spending([Channel()], accountant, methods=("basic",))["epsilon_basic"] == 1
        print("scipy" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
