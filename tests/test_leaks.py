"""The table of docs/privacy.md: what the papers' settings leak, by the ledger. `--regenerate-golden` writes it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Channel
from taciturn.policies import FixedCount
from taciturn.privacy.channels import Unit
from taciturn.privacy.composition import Method
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Ledger,
    NoPrivacy,
    PrivacyLoss,
    TreeAggregation,
)

PAGE = Path(__file__).parent.parent / "docs" / "privacy.md"
BEGIN, END = "<!-- what is leaked: written by tests/test_leaks.py -->\n", "<!-- end -->\n"
DELTA = 1e-6
Sent = list[tuple[PrivacyLoss, int, int | None]]  # what one message costs, how many, and how many events each is about


@dataclass(frozen=True)
class Row:
    setting: str
    read: str
    changes: str
    message: str
    messages: int
    basic: float
    best: float

    def __str__(self) -> str:
        cells = (
            self.setting,
            self.read,
            self.changes,
            self.message,
            f"{self.messages:,}",
            said(self.basic),
            said(self.best),
        )
        return "| " + " | ".join(cells) + " |\n"


def said(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "∞"
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.3g}"


def spent(setting: str, read: str, changes: str, ledger: Ledger, channel: str = "c", unit: Unit | None = None) -> Row:
    """What the agent who sent most on `channel` has spent: the basic sum, and the least of all bounds."""
    loss, messages = ledger.per_message[channel], int(ledger.messages(channel).max())
    methods: tuple[Method, ...] = ("basic", "advanced", "rdp")
    total = [float(ledger.total(DELTA, "max", method, channel=channel, unit=unit)[0]) for method in methods]
    message = said(loss.epsilon) if loss.kind != "gaussian" else f"ρ = {loss.rho:.3g}"
    return Row(setting, read, changes, message, messages, total[0], min(total))


def ledger_of(sent: Sent, disjoint: bool = False) -> Ledger:
    ledger = Ledger(1, 1, [Channel("c", "vector", observer="server", unit="event", disjoint=disjoint)])
    for loss, count, events in sent:
        ledger.charge("c", loss, everyone=np.array([count]), events=events)
    return ledger


def gossip(num_agents: int = 400, rate: float = 1.0, until: float = 50.0, epsilon: float = 3.0) -> Iterator[Row]:
    """Chen et al. 2021: at every tick of every agent all agents reply. Expected counts."""
    loss, asked = BitwiseRandomizedResponse(epsilon).loss(), round(rate * until)
    everybody, one = ledger_of([(loss, num_agents * asked, None)]), ledger_of([(loss, asked, None)])
    setting = f"gossip (Chen et al. 2021): N = {num_agents}, ε = {epsilon:g} a reply, t = {until:g}"
    yield spent(setting, "replies, all requesters together", "user", everybody, unit="user")
    yield spent(setting, "replies, one requester alone", "user", one, unit="user")


def social(rounds: int = 10_000) -> Iterator[Row]:
    """Tao et al. 2023: an adopter perturbs its option once a round."""
    for epsilon in (0.5, 1.0, 2.0):
        ledger = ledger_of([(BitwiseRandomizedResponse(epsilon).loss(), rounds, None)])
        setting = f"social learning (Tao et al. 2023): ε = {epsilon:g}, {rounds:,} rounds"
        yield spent(setting, "preferences, neighbours", "user", ledger, unit="user")


def pulls(num_agents: int, epsilon: float, num_arms: int, horizon: int) -> list[int]:
    """Li & Song 2022: pulls of an arm in each epoch that fits before the horizon, while no arm is eliminated."""
    ends = [0]
    while num_arms * ends[-1] <= horizon:
        r, gap = len(ends), 2.0 ** -len(ends)
        statistical = 8 * math.log(8 * num_arms * r**2 * horizon) / (num_agents * gap**2)
        private = 8 * r * math.sqrt(2 * math.log(8 * num_arms * r**2 * horizon)) / (num_agents**1.5 * epsilon * gap)
        ends.append(max(math.ceil(max(statistical, private)), ends[-1] + 1))
    return np.diff(ends[:-1]).tolist()


def elimination(num_agents: int = 50, epsilon: float = 1.0, num_arms: int = 2, horizon: int = 100_000) -> Iterator[Row]:
    """Li & Song 2022: an upload has means of n rewards per arm and noise Lap(1 / (N epsilon n)), so it costs N epsilon, not epsilon."""
    epochs = pulls(num_agents, epsilon, num_arms, horizon)
    ledger = ledger_of([(Laplace(num_agents * epsilon).loss(), 1, num_arms * n) for n in epochs], disjoint=True)
    setting = (
        f"arm elimination (Li & Song 2022): M = N = {num_agents}, ε = {epsilon:g}, {num_arms} arms, T = {horizon:,}"
    )
    yield spent(setting, "means, server", "event: one reward", ledger, unit="event")
    yield spent(setting, "means, server", "one reward of every epoch", ledger)
    yield spent(setting, "means, server", "user: all rewards", ledger, unit="user")


def recommender(epsilon: float = 2.0, rounds: int = 70_000) -> Iterator[Row]:
    """Zhou et al.: the sums of a cluster are one stream, charged once; counts are not perturbed; a cluster is selected each round."""
    setting = f"recommender (Zhou et al.): ε = {epsilon:g}, {rounds:,} rounds"
    stream = TreeAggregation(epsilon, horizon=rounds).loss()
    yield spent(setting, "sums of rewards, neighbours", "event: one feedback", ledger_of([(stream, 1, 1)]))
    counts = ledger_of([(NoPrivacy().loss(), rounds, 1)])
    yield spent(setting, "counts of rewards, neighbours", "event: one feedback", counts)
    selections = ledger_of([(Exponential(epsilon).loss(), rounds, 1)])
    yield spent(setting, "selections, public", "event: one feedback", selections)


def elicitation(level: float = 1.0, num_values: int = 4) -> Iterator[Row]:
    """Jiang 2020, chapter 2: one report at the level log(1 + e)."""
    ledger = ledger_of([(KaryRandomizedResponse(level, num_values=num_values).loss(), 1, None)])
    setting = f"elicitation (Jiang 2020, ch. 2): budget e = {level:g}, one campaign"
    yield spent(setting, "report, platform", "user", ledger, unit="user")


def training(updates: int = 10, until: float = 345.0, seed: int = 0) -> Iterator[Row]:
    """Jiang 2020, chapter 3: as published, and with a private channel."""
    env = federated_training_v0.population(num_envs=1, clip_norm=0.1, horizon=until)
    setting = f"federated training (Jiang 2020, ch. 3): {updates} of 100 updates a round, {until:g} s"
    for title, mechanism in (("as published", NoPrivacy()), ("ours: ε = 4 at 1e-6", Gaussian(epsilon=4.0, delta=1e-6))):
        run = taciturn.simulate(env, FixedCount(updates), seed=seed, privacy={"update": mechanism})
        yield spent(f"{setting}, {title}", "updates, server", "user", run.ledger, "update")


@cache
def rows() -> list[Row]:
    return [*gossip(), *social(), *elimination(), *recommender(), *elicitation(), *training()]


def table() -> str:
    heads = (
        "setting (paper)",
        "who reads what",
        "what changes",
        "ε of one message",
        "messages",
        "ε of the run: basic sum",
        "least bound",
    )
    return "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads) + "\n" + "".join(map(str, rows()))


def test_the_page_says_what_the_ledger_computes(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    fresh = before + BEGIN + table() + END + after
    if request.config.getoption("--regenerate-golden"):
        PAGE.write_text(fresh, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == fresh, "pytest tests/test_leaks.py --regenerate-golden writes the table"


def test_the_table_by_hand() -> None:
    everybody, one = gossip()
    assert (everybody.messages, everybody.basic) == (20_000, 60_000.0)
    assert (one.messages, one.basic) == (50, 150.0)
    assert 20_000 * 3 * math.tanh(3 / 4) < everybody.best < everybody.basic, "above its mean loss"
    assert [row.basic for row in social()] == [5_000.0, 10_000.0, 20_000.0]
    event, epochs, user = elimination()
    assert event.basic == 50.0
    assert epochs.basic == 50.0 * epochs.messages
    assert user.basic == 50.0 * 2 * sum(pulls(50, 1.0, 2, 100_000)) > 1e6
    sums, counts, selections = recommender()
    assert (sums.basic, counts.basic, selections.basic) == (2.0, math.inf, 140_000.0)
    assert next(elicitation()).basic == pytest.approx(math.log(2))
    published, ours = rows()[-2:]
    assert published.basic == published.best == math.inf
    assert ours.messages == published.messages
    assert ours.best < ours.basic < math.inf


# The totals once more, computed here from the laws of the mechanisms.

Curve = Callable[[float], float]  # the Renyi divergence of order alpha


def of_bits(epsilon: float, bits: int = 2) -> Curve:
    """`bits` answers that are honest with probability e^(epsilon/bits) / (1 + e^(epsilon/bits))."""
    honest = 1 / (1 + math.exp(-epsilon / bits))
    log_p, log_q = math.log(honest), math.log1p(-honest)

    def divergence(alpha: float) -> float:
        terms = alpha * log_p + (1 - alpha) * log_q, alpha * log_q + (1 - alpha) * log_p
        return bits * float(np.logaddexp(*terms)) / (alpha - 1)

    return divergence


def of_laplace(epsilon: float, times: int = 1) -> Curve:
    """Laplace noise of scale `times`/epsilon, `times` times: Mironov 2017, Proposition 6."""
    one = epsilon / times

    def divergence(alpha: float) -> float:
        first = math.log(alpha / (2 * alpha - 1)) + (alpha - 1) * one
        second = math.log((alpha - 1) / (2 * alpha - 1)) - alpha * one
        return times * float(np.logaddexp(first, second)) / (alpha - 1)

    return divergence


def least(epsilon: float, curve: Curve, count: int, delta: float = DELTA) -> float:
    """The least of the basic sum, Kairouz, Oh & Viswanath (2015), and Renyi composition with the conversion of Canonne et al. (2020)."""

    def of_order(log_gap: float) -> float:
        alpha = 1 + math.exp(log_gap)
        return count * curve(alpha) + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)

    found: list[float] = [minimize_scalar(of_order, bounds=(a, a + 4), method="bounded").fun for a in range(-8, 10, 2)]
    if math.isfinite(epsilon):
        drift, squares = count * epsilon * math.tanh(epsilon / 2), count * epsilon**2
        inner = min(math.e + math.sqrt(squares) / delta, 1 / delta)
        found += [count * epsilon, drift + math.sqrt(2 * squares * math.log(inner))]
    return float(min(found))


def calibrated_rho(epsilon: float, delta: float) -> float:
    """1 / (2 z^2) for the least noise multiplier z of a Gaussian: Balle & Wang 2018, Theorem 8, solved by a library."""

    def excess(z: float) -> float:
        first, second = norm.cdf(1 / (2 * z) - epsilon * z), norm.cdf(-1 / (2 * z) - epsilon * z)
        return float(first - math.exp(epsilon) * second) - delta

    return float(1 / (2 * brentq(excess, 0.01, 100, xtol=1e-13) ** 2))


def test_every_row_against_its_law() -> None:
    """(epsilon of a message, messages, basic sum, least bound) of every row that is finite; our grid of orders costs at most 0.2%."""
    epochs = len(pulls(50, 1.0, 2, 100_000))
    rho = calibrated_rho(4.0, 1e-6)
    expected: dict[tuple[str, str], tuple[float, Curve, int]] = {
        ("gossip", "replies, all requesters together"): (3.0, of_bits(3.0), 400 * 50),
        ("gossip", "replies, one requester alone"): (3.0, of_bits(3.0), 50),
        ("social learning (Tao et al. 2023): ε = 0.5", "preferences, neighbours"): (0.5, of_bits(0.5), 10_000),
        ("social learning (Tao et al. 2023): ε = 1", "preferences, neighbours"): (1.0, of_bits(1.0), 10_000),
        ("social learning (Tao et al. 2023): ε = 2", "preferences, neighbours"): (2.0, of_bits(2.0), 10_000),
        ("recommender", "sums of rewards, neighbours"): (2.0, of_laplace(2.0, 17), 1),
        ("recommender", "selections, public"): (2.0, lambda alpha: min(alpha * 2.0**2 / 8, 2.0), 70_000),
        ("elicitation", "report, platform"): (math.log(2), lambda alpha: math.log(2), 1),
    }
    assert 2**16 < 70_000 < 2**17, "levels of the tree"
    found = rows()
    for (setting, read), (epsilon, curve, count) in expected.items():
        (row,) = (row for row in found if row.setting.startswith(setting) and row.read == read)
        assert row.messages == count
        assert row.basic == pytest.approx(count * epsilon, rel=1e-12)
        assert row.best == pytest.approx(least(epsilon, curve, count), rel=2e-3)
    event, across, user = (row for row in found if row.setting.startswith("arm elimination"))
    assert (event.messages, across.messages, user.messages) == (epochs,) * 3
    for row, total in ((event, 50.0), (across, 50.0 * epochs), (user, 50.0 * 2 * sum(pulls(50, 1.0, 2, 100_000)))):
        assert row.basic == total
        assert row.best == pytest.approx(total, rel=1e-6)
    private = found[-1]
    assert private.message == f"ρ = {rho:.3g}"
    assert private.best == pytest.approx(least(math.inf, lambda alpha: alpha * rho, private.messages), rel=2e-3)
    each = DELTA / private.messages
    mu = math.sqrt(2 * rho)
    single = brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - each, 0.1, 50)
    assert private.basic == pytest.approx(private.messages * single, rel=1e-6)
    counted = [row for row in found if math.isinf(row.basic)]
    assert [row.read for row in counted] == ["counts of rewards, neighbours", "updates, server"]
    assert len(found) == len(expected) + 3 + 1 + len(counted), "every row of the page"
