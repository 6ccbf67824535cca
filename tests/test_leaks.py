"""The table of docs/privacy.md: what the papers' settings leak, by the accountant. `--regenerate-golden` writes it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Channel
from taciturn.policies import FixedCount
from taciturn.privacy.channels import Unit
from taciturn.privacy.composition import Method
from taciturn.wrappers import (
    Accountant,
    BitwiseRandomizedResponse,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    NoPrivacy,
    PrivacyLoss,
    TreeAggregation,
)

PAGE = Path(__file__).parent.parent / "docs" / "privacy.md"
BEGIN, END = "<!-- what is leaked: written by tests/test_leaks.py -->\n", "<!-- end -->\n"
DELTA = 1e-6
GIVEN = "event: the value of one feedback, given what was shown"
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


def spent(
    setting: str, read: str, changes: str, accountant: Accountant, channel: str = "c", unit: Unit | None = None
) -> Row:
    """What the agent who sent most on `channel` has spent: the basic sum, and the least of all bounds."""
    loss, messages = accountant.per_message[channel], int(accountant.messages(channel).max())
    methods: tuple[Method, ...] = ("basic", "advanced", "rdp")
    budget = [float(accountant.epsilon(DELTA, "max", method, channel=channel, unit=unit)[0]) for method in methods]
    message = said(loss.epsilon) if loss.kind != "gaussian" else f"ρ = {loss.rho:.3g}"
    return Row(setting, read, changes, message, messages, budget[0], min(budget))


def accountant_of(sent: Sent, disjoint: bool = False) -> Accountant:
    accountant = Accountant(1, 1, [Channel("c", "vector", observer="server", unit="event", disjoint=disjoint)])
    for loss, count, events in sent:
        accountant.charge("c", loss, everyone=np.array([count]), events=events)
    return accountant


def gossip(num_agents: int = 400, rate: float = 1.0, until: float = 50.0, epsilon: float = 3.0) -> Iterator[Row]:
    """Chen et al. 2021: at every tick of every agent all agents reply. Expected counts."""
    loss, asked = BitwiseRandomizedResponse(epsilon).loss(), round(rate * until)
    everybody, one = accountant_of([(loss, num_agents * asked, None)]), accountant_of([(loss, asked, None)])
    setting = f"gossip (Chen et al. 2021): N = {num_agents}, ε = {epsilon:g} a reply, t = {until:g}"
    yield spent(setting, "replies, all requesters together", "user", everybody, unit="user")
    yield spent(setting, "replies, one requester alone", "user", one, unit="user")


def social(rounds: int = 10_000) -> Iterator[Row]:
    """Tao et al. 2023: an adopter perturbs its option once a round, and who sends is seen; with zeros everyone
    sends."""
    for form in ("as published", "with zeros"):
        for epsilon in (1.0,) if form == "as published" else (0.5, 1.0, 2.0):
            accountant = accountant_of([(BitwiseRandomizedResponse(epsilon).loss(), rounds, None)])
            accountant.channels["c"].silence_leaks = form == "as published"
            setting = f"social learning (Tao et al. 2023), {form}: ε = {epsilon:g}, {rounds:,} rounds"
            yield spent(setting, "preferences, neighbours", "user", accountant, unit="user")


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
    """Li & Song 2022: an upload has means of n rewards per arm and noise Lap(1 / (N epsilon n)), so it costs N epsilon,
    not epsilon."""
    epochs = pulls(num_agents, epsilon, num_arms, horizon)
    accountant = accountant_of([(Laplace(num_agents * epsilon).loss(), 1, num_arms * n) for n in epochs], disjoint=True)
    setting = (
        f"arm elimination (Li & Song 2022): M = N = {num_agents}, ε = {epsilon:g}, {num_arms} arms, T = {horizon:,}"
    )
    yield spent(setting, "means, server", "event: one reward", accountant, unit="event")
    yield spent(setting, "means, server", "one reward of every epoch", accountant)
    yield spent(setting, "means, server", "user: all rewards", accountant, unit="user")


def recommender(epsilon: float = 2.0, rounds: int = 70_000) -> Iterator[Row]:
    """Zhou et al.: the sums of a cluster are one stream, charged once; counts are not perturbed; a cluster is selected
    each round."""
    setting = f"recommender (Zhou et al.): ε = {epsilon:g}, {rounds:,} rounds"
    stream = TreeAggregation(epsilon, horizon=rounds).loss()
    yield spent(setting, "sums of rewards, neighbours", GIVEN, accountant_of([(stream, 1, 1)]))
    counts = accountant_of([(NoPrivacy().loss(), rounds, 1)])
    yield spent(setting, "counts of rewards, neighbours", GIVEN, counts)
    selections = accountant_of([(Exponential(epsilon).loss(), rounds, 1)])
    yield spent(setting, "selections, public", "event: the value of one feedback", selections)


def elicitation(level: float = 1.0, num_values: int = 4) -> Iterator[Row]:
    """Jiang 2020, chapter 2: one report at the level log(1 + e)."""
    accountant = accountant_of([(KaryRandomizedResponse(level, num_values=num_values).loss(), 1, None)])
    setting = f"elicitation (Jiang 2020, ch. 2): budget e = {level:g}, one campaign"
    yield spent(setting, "report, platform", "user", accountant, unit="user")


@cache
def training(updates: int = 10, until: float = 345.0, seed: int = 0) -> list[Row]:
    """Jiang 2020, chapter 3: as published, and with a private channel."""
    env = federated_training_v0.population(num_envs=1, clip_norm=0.1, horizon=until)
    setting = f"federated training (Jiang 2020, ch. 3): {updates} of 100 updates a round, {until:g} s"
    rows = []
    for title, mechanism in (("as published", NoPrivacy()), ("ours: ε = 4 at 1e-6", Gaussian(epsilon=4.0, delta=1e-6))):
        run = taciturn.simulate(env, FixedCount(updates), seed=seed, privacy={"update": mechanism})
        rows.append(spent(f"{setting}, {title}", "updates, server", "user", run.accountant, "update"))
    return rows


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


def test_the_page_says_what_the_accountant_computes(request: pytest.FixtureRequest) -> None:
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
    assert [row.basic for row in social()] == [math.inf, 5_000.0, 10_000.0, 20_000.0]
    event, epochs, user = elimination()
    assert event.basic == 50.0
    assert epochs.basic == 50.0 * epochs.messages
    assert user.basic == 50.0 * 2 * sum(pulls(50, 1.0, 2, 100_000)) > 1e6
    sums, counts, selections = recommender()
    assert (sums.basic, counts.basic, selections.basic) == (2.0, math.inf, 140_000.0)
    assert next(elicitation()).basic == pytest.approx(math.log(2))
    published, ours = training()
    assert published.basic == published.best == math.inf
    assert ours.messages == published.messages
    assert ours.best < ours.basic < math.inf


def bits_at(epsilon: float, messages: int, level: float) -> float:
    """delta at `level` of so many messages under bitwise randomised response, exactly, from its definition.

    Every message has two bits that differ, each of which is answered truly with probability p = 1 / (1 + e^(-epsilon /
    2)), so if n of the 2 m bits are answered truly the loss is (2 n - 2 m) epsilon / 2.
    """
    n = np.arange(2 * messages + 1)
    loss = (2 * n - 2 * messages) * epsilon / 2
    chance = stats.binom.pmf(n, 2 * messages, 1 / (1 + math.exp(-epsilon / 2)))
    return float((chance * -np.expm1(np.minimum(level - loss, 0))).sum())


def smallest(delta_at: Callable[[float], float], top: float) -> float:
    """The level at which delta is `DELTA`."""
    return float(optimize.brentq(lambda level: delta_at(level) - DELTA, 0.0, top))


def gauss_at(rho: float, level: float) -> float:
    """delta at `level` of Gaussian messages of zCDP `rho` in all (Balle & Wang 2018, theorem 5)."""
    mu = math.sqrt(2 * rho)
    return float(stats.norm.cdf(mu / 2 - level / mu) - math.exp(level) * stats.norm.cdf(-mu / 2 - level / mu))


def test_the_bounds_against_exact_values() -> None:
    """Least bounds are above the exact epsilon, computed from the definition of the mechanisms, and not far above."""
    everybody, one = gossip()
    _, *zeros = social()
    for row, epsilon in [(everybody, 3.0), (one, 3.0), *zip(zeros, (0.5, 1.0, 2.0), strict=True)]:
        count, level = row.messages, epsilon
        exact = smallest(partial(bits_at, level, count), row.basic)
        assert exact <= row.best <= 1.02 * exact, row.setting
    _, ours = training()
    rho = Gaussian(epsilon=4.0, delta=1e-6).loss().rho
    assert smallest(lambda x: gauss_at(rho, x), 50.0) == pytest.approx(4.0, rel=1e-3), "the message itself"
    exact = smallest(lambda x: gauss_at(rho * ours.messages, x), 100.0)
    assert exact <= ours.best <= 1.1 * exact
    _, _, selections = recommender()
    rho = 70_000 * 2.0**2 / 8  # bounded range: Cesar & Rogers 2021
    assert rho < selections.best <= rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert next(elicitation()).best == pytest.approx(math.log(2), rel=1e-5)
