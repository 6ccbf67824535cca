"""The social bandit: what is spread in a round, what agents do with what they hear, what comes of it, and what it costs
them.

Every statistical check has a fixed seed and a false-alarm rate of at most 1e-4 by itself (ALARM).
"""

import itertools
from typing import Any

import numpy as np
import pytest
from distributions import fits, same_moments
from scipy import stats

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import social_bandit_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.social_bandit.paper import multiplicative_weights
from taciturn.graph import random_graph
from taciturn.policies import GosInE, IsolatedUCB, OracleOption, PrivateSocialLearning, Random, Replicator, Uniform
from taciturn.testing import Case
from taciturn.testing.populations import a_replica_is_the_same_run_in_every_population
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Faulty,
    LossyChannel,
    Memoized,
    Privatize,
)

ALARM = 1e-4
FIVE = (0.9, 0.7, 0.5, 0.3, 0.1)


# Rounds.


def population(num_envs: int = 1, **params: Any) -> Any:
    usual: dict[str, Any] = {"num_agents": 30, "copies": 20, "walk_length": 5, "horizon": 40, "qualities": FIVE}
    return social_bandit_v0.population(num_envs, **usual | params)


def plans(option: Any, zero: Any, one: Any, shape: tuple[int, int]) -> Array:
    return np.stack([np.broadcast_to(x, shape) for x in (option, zero, one)], axis=-1)


def test_signals_are_shared_or_each_agents_own() -> None:
    for signals in ("shared", "per_agent"):
        env = population(50, signals=signals, qualities=(0.5, 0.5))
        env.reset(seed=0)
        step = env.step(plans(0, 0, 1, (50, 30)))
        held = (env.state.preference == 0).mean(1)
        np.testing.assert_allclose(step.info["signals"][:, 0], held)
        assert set(held) <= {0.0, 1.0} if signals == "shared" else ((held > 0) & (held < 1)).all()
    assert abs(held.mean() - 0.5) < 4 * 0.5 / np.sqrt(50 * 30)


@pytest.mark.parametrize("dissemination", ["walk", "stationary", "aggregated"])
def test_all_copies_of_an_agent_carry_the_same_bits(dissemination: str) -> None:
    held = np.full(30, 5)
    held[4] = 2
    flips = []
    for perturbation in ("per_round", "per_token"):
        env = population(
            200, dissemination=dissemination, perturbation=perturbation, initial_preferences=held, graph="complete"
        )
        env = Privatize(env, channel="preference", mechanism=BitwiseRandomizedResponse(1.0))
        env.reset(seed=0)
        s = env.state
        assert (s.received.sum(1) == 20).all()
        alike = ((s.counts == 0) | (s.counts == s.received[:, :, None])).all()
        assert alike == (perturbation == "per_round")
        flips.append(s.counts.sum((0, 1)) / (200 * 20))
    q = 1 / (np.exp(0.5) + 1)
    for share, error in zip(flips, (0.5 / np.sqrt(200), 0.5 / np.sqrt(200 * 20)), strict=True):
        np.testing.assert_array_less(np.abs(share - np.where(np.arange(5) == 2, 1 - q, q)), 4.5 * error)


def test_per_token_noise_of_each_copy_is_its_own() -> None:
    """Given what an agent received, option j is Binomial(copies for j, 1 - q) + Binomial(other copies, q); options are
    independent."""
    mechanism = BitwiseRandomizedResponse(1.0)
    env = population(
        1, num_agents=3, copies=1000, perturbation="per_token", qualities=(0.5, 0.5), initial_preferences=[0, 0, 1]
    )
    drawn = []
    env = Privatize(env, channel="preference", mechanism=mechanism)
    for seed in range(400):
        env.reset(seed=seed)
        s = env.state
        drawn.append((s.counts[0] - s.received[0, :, None] * mechanism.q) / 1000 / mechanism.gap)
    scaled = np.array(drawn)
    expected = np.array([2 / 3, 1 / 3])
    # Variance of debiased noise, and of how many copies come.
    error = np.sqrt((mechanism.q * (1 - mechanism.q) / mechanism.gap**2 + 1) / 1000 / 400)
    np.testing.assert_array_less(np.abs(scaled.mean(0) - expected), 5 * error)
    assert np.abs(np.corrcoef(scaled[:, 0, 0], scaled[:, 1, 1])[0, 1]) < 0.25


# Privacy and faults.


def test_a_message_costs_epsilon_whatever_its_copies() -> None:
    policy = PrivateSocialLearning(beta=0.6, mu=0.1, epsilon=0.7)
    for perturbation, each in (("per_round", 1), ("per_token", 20)):
        env = population(2, perturbation=perturbation)
        run = taciturn.simulate(env, policy, seed=0, until=10, privacy="paper")
        assert env.channels["preference"].config.mechanism == BitwiseRandomizedResponse(0.7)
        sent = env.channels["preference"].messages()
        assert each < sent.max() <= 10 * each
        assert (sent % each == 0).all()
        assert run.accountant.per_message["preference"].epsilon == pytest.approx(0.7)
        np.testing.assert_array_equal(run.accountant.messages("preference"), sent)
        assert np.isinf(run.metrics["epsilon_basic"]).all(), "who speaks tells who holds an option"
        env = population(2, perturbation=perturbation, without_preference="zeros")
        run = taciturn.simulate(env, policy, seed=0, until=10, privacy="paper")
        np.testing.assert_allclose(run.accountant.epsilon(by="agent", method="basic", unit=None), 0.7 * 10 * each)
        np.testing.assert_allclose(run.metrics["epsilon_basic"], 0.7 * 10 * each)
    assert np.isinf(taciturn.simulate(population(), policy, seed=0, until=2).metrics["epsilon_basic"])
    memoised = {"preference": Memoized(BitwiseRandomizedResponse(0.7))}
    env = population(2, initial_preferences=np.zeros(30, int))
    run = taciturn.simulate(env, OracleOption(), seed=0, until=10, privacy=memoised)
    np.testing.assert_array_equal(run.accountant.messages("preference"), 1)  # who never changes answers once
    np.testing.assert_array_equal(run.metrics["messages"], 300)


def test_a_lost_message_is_lost_with_its_copies() -> None:
    env = Faulty(population(20), channel="preference", fault=LossyChannel(0.5))
    env.reset(seed=0)
    received = env.state.received.sum(1)
    assert (received % 20 == 0).all()
    assert stats.binomtest(int(received.sum()) // 20, 20 * 30, 0.5).pvalue > ALARM
    env = Faulty(population(1), channel="preference", fault=LossyChannel(1.0))
    env.reset(seed=0)
    assert env.state.received.sum() == 0
    assert env.channels["preference"].messages().sum() == 30


def test_a_budget_ends_a_society() -> None:
    mechanism = BitwiseRandomizedResponse(1.0)
    env = Privatize(
        population(2, without_preference="zeros"),
        channel="preference",
        mechanism=mechanism,
        budget=Budget(epsilon=3.0, when_spent="truncate"),
    )
    taciturn.simulate(env, PrivateSocialLearning(beta=0.9, mu=0.1), seed=0)
    assert (env.channels["preference"].messages() == 3).all()


# What agents do.


def heard(counts: Any, received: int, p: float, q: float, size: int = 40_000) -> Array:
    """An observation of many agents who received the same."""
    counts = np.asarray(counts, np.float32)
    row = np.concatenate([counts, [received], np.zeros(len(counts)), [p, q]]).astype(np.float32)
    return np.broadcast_to(row, (1, size, len(row)))


def acting(policy: Any, mechanism: Any = None, options: int = 4, **params: Any) -> Any:
    env = population(num_agents=3, qualities=np.linspace(0.9, 0.1, options), copies=100, **params)
    if mechanism is not None:
        env = Privatize(env, channel="preference", mechanism=mechanism)
    env.reset(seed=0)
    policy.reset(env, np.random.default_rng(4))
    return policy


def equation_8(counts: Array, received: int, epsilon: float, mu: float) -> Array:
    e = np.exp(epsilon / 2)
    raw = np.maximum((e + 1) / (e - 1) * counts / received - 1 / (e - 1), 0)
    return (1 - mu) * raw / raw.sum() + mu / len(raw)


CASES = {"clipped below": ([52, 41, 30, 45], 100), "above one": ([9, 8, 3, 1], 10)}


@pytest.mark.parametrize("case", CASES)
def test_options_are_drawn_by_equations_7_8_and_13(case: str) -> None:
    (counts, received), mechanism = CASES[case], BitwiseRandomizedResponse(1.0)
    policy = acting(PrivateSocialLearning(beta=0.6, mu=0.1), mechanism)
    option = policy.act(heard(counts, received, mechanism.p, mechanism.q))[0, :, 0]
    assert fits(np.bincount(option, minlength=4), equation_8(np.array(counts), received, 1.0, 0.1)) > ALARM


@pytest.mark.parametrize("beta", [0.505, 0.65, 0.9])
def test_options_are_taken_up_by_equation_9(beta: float) -> None:
    plan = acting(PrivateSocialLearning(beta=beta, mu=0.1)).act(heard([5, 5, 5, 5], 20, 1.0, 0.0))[0]
    zero, one = int(plan[:, 1].sum()), int(plan[:, 2].sum())
    assert stats.binomtest(one, 40_000, beta).pvalue > ALARM
    assert stats.binomtest(zero, 40_000, 1 - beta).pvalue > ALARM
    if beta > 0.6:
        assert stats.binomtest(zero, 40_000, beta).pvalue < ALARM  # beta swapped


@pytest.mark.parametrize("counts", [[0, 0, 0, 0], [30, 31, 20, 10]])
def test_an_empty_estimate_means_any_option_or_none(counts: list[int]) -> None:
    """Nothing received, or nothing above what noise alone would bring."""
    mechanism, received = BitwiseRandomizedResponse(1.0), 100 if any(counts) else 0
    uniform = acting(PrivateSocialLearning(beta=0.6, mu=0.0), mechanism).act(
        heard(counts, received, mechanism.p, mechanism.q)
    )
    assert fits(np.bincount(uniform[0, :, 0], minlength=4), np.full(4, 0.25)) > ALARM
    null = acting(PrivateSocialLearning(beta=0.6, mu=0.0, empty="null"), mechanism).act(
        heard(counts, received, mechanism.p, mechanism.q)
    )
    assert (null[:, :, 0] == 4).all()


def test_pooled_rounds_add_up() -> None:
    policy = acting(PrivateSocialLearning(beta=0.6, mu=0.0, pool=2))
    for counts, likely in (([10, 0, 0, 0], {0}), ([0, 10, 0, 0], {0, 1}), ([0, 0, 10, 0], {1, 2})):
        assert set(policy.act(heard(counts, 10, 1.0, 0.0))[0, :, 0].tolist()) == likely


# What comes of it.

FAST: dict[str, Any] = {
    "num_agents": 2000,
    "copies": 400,
    "walk_length": 20,
    "dissemination": "aggregated",
    "qualities": FIVE,
}


def test_agents_learn_in_the_fast_setting() -> None:
    """beta = .65, 2,000 agents, 5 options: far better than acting at random, with and without noise; noise taken at its
    word ruins it."""
    runs = {}
    for name, policy, epsilon in (
        ("private", PrivateSocialLearning(beta=0.65, mu=0.05), 2.0),
        ("open", PrivateSocialLearning(beta=0.65, mu=0.05), None),
        ("gullible", Replicator(0.65, 0.05), 2.0),
        ("random", Random(), None),
    ):
        privacy = None if epsilon is None else {"preference": BitwiseRandomizedResponse(epsilon)}
        env = social_bandit_v0.population(4, **FAST)
        runs[name] = taciturn.simulate(env, policy, seed=1, until=120, privacy=privacy).metrics["pseudo_regret"]
    assert runs["private"].max() < 0.2 < 0.35 < runs["random"].min()
    assert runs["open"].mean() < runs["private"].mean() + 0.03
    assert runs["gullible"].min() > 0.3


def test_gosine_learns_faster_than_alone_with_many_options() -> None:
    regrets = {}
    for policy in (GosInE(), IsolatedUCB(), Uniform()):
        env = social_bandit_v0.population(2, num_agents=100, qualities=np.linspace(0.9, 0.1, 20), signals="per_agent")
        noise = {"preference": BitwiseRandomizedResponse(3.0)}
        run = taciturn.simulate(env, policy, seed=0, until=300, privacy=noise)
        regrets[type(policy).__name__] = run.metrics["pseudo_regret"]
    assert regrets["GosInE"].max() < 0.8 * regrets["IsolatedUCB"].min()
    assert regrets["IsolatedUCB"].max() < 0.9 * regrets["Uniform"].min()


@pytest.mark.parametrize(("agents", "options"), [(3, 2), (3, 10), (30, 5)])
def test_gosine_keeps_a_few_options(agents: int, options: int) -> None:
    policy = GosInE(growth=0.5)
    env = population(2, num_agents=agents, qualities=np.linspace(0.9, 0.1, options))
    env.reset(seed=0)
    policy.reset(env, np.random.default_rng(0))
    sticky = -(-options // agents)
    for _ in range(40):
        active = policy.active()
        assert (active.sum(-1) <= sticky + 2).all()
        assert active.any(1).all()
        env.advance(policy, steps=1)
        held = env.state.preference[..., None]
        assert np.take_along_axis(policy.active(), held, -1).all()
    with pytest.raises(ValueError, match="growth must be a finite number > 0"):
        GosInE(growth=0)


def test_replicator_without_noise_is_the_papers_dynamics() -> None:
    env = population(2, num_agents=200)
    runs = [
        taciturn.simulate(env, p, seed=3, until=20) for p in (Replicator(0.65, 0.05), PrivateSocialLearning(0.65, 0.05))
    ]
    np.testing.assert_array_equal(runs[0].metrics["regret"], runs[1].metrics["regret"])


def test_multiplicative_weights_by_hand() -> None:
    weights, beta, mu = np.ones(3), 0.7, 0.1
    phi = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]])
    path = multiplicative_weights(phi, beta, mu)
    np.testing.assert_allclose(path[0], 1 / 3)
    for row, now in zip(phi, path[1:], strict=True):
        weights = ((1 - mu) * weights + mu / 3 * weights.sum()) * beta**row * (1 - beta) ** (1 - row)
        np.testing.assert_allclose(now, weights / weights.sum())


def distance_to_limit(num_agents: int, seed: int, rounds: int = 30) -> float:
    """sup over rounds and options of |Q - P|, without noise, given the same signals."""
    env = social_bandit_v0.population(1, num_agents=num_agents, copies=60, dissemination="aggregated")
    times = np.arange(1, rounds + 1)
    policy = PrivateSocialLearning(beta=0.6, mu=0.1)
    run = taciturn.simulate(env, policy, seed=seed, until=times, record=["popularity", "signals"])
    limit = multiplicative_weights(run.trace["signals"][:, 0], 0.6, 0.1)[1:]
    return float(np.abs(run.trace["popularity"][:, 0] - limit).max())


def test_many_agents_follow_multiplicative_weights() -> None:
    """Equation 34 is what N = infinity does: the distance shrinks as N^-1/2."""
    sizes = (100, 1600, 25_600)
    table = {n: float(np.mean([distance_to_limit(n, seed) for seed in range(3)])) for n in sizes}
    print("sup |Q - P|:", ", ".join(f"N={n}: {gap:.4f}" for n, gap in table.items()))
    for few, many in itertools.pairwise(sizes):
        assert 2 < table[few] / table[many] < 8
    assert table[25_600] < 0.03


@pytest.mark.parametrize("num_agents", [3, 4, 10_000, 10**6])
def test_any_number_of_agents_aggregated(num_agents: int) -> None:
    options = 20 if num_agents == 10_000 else 3
    copies = social_bandit_v0.copies_of_paper(num_agents)
    env = social_bandit_v0.population(
        1, num_agents=num_agents, qualities=np.linspace(1, 0, options), copies=copies, dissemination="aggregated"
    )
    noise = {"preference": BitwiseRandomizedResponse(1.0)}
    run = taciturn.simulate(env, PrivateSocialLearning(beta=0.9, mu=0.1), seed=0, until=2, privacy=noise)
    assert run.metrics["messages"] > 0


def test_copies_of_the_paper() -> None:
    assert social_bandit_v0.copies_of_paper(10_000) == int(485 * np.log(10_000) ** 2) == 41_142
    assert social_bandit_v0.copies_of_paper(10_000, "root") == 48_500
    with pytest.raises(ValueError, match="growth must be one of"):
        social_bandit_v0.copies_of_paper(100, "cube")


# Hostile input.


@pytest.mark.parametrize(
    "graph", ["complete", "star_triangle", random_graph("erdos_renyi", 30, 1), random_graph("barabasi_albert", 30, 1)]
)
@pytest.mark.parametrize("congestion", [False, True])
def test_walks_on_graphs(graph: Any, congestion: bool) -> None:
    env = population(2, graph=graph, dissemination="walk", congestion=congestion)
    run = taciturn.simulate(env, PrivateSocialLearning(beta=0.7, mu=0.1), seed=0, until=8)
    assert (run.metrics["hops"] > 0).all()
    assert (run.metrics["hops"] <= run.metrics["messages"] * 20 * 5).all()


# Many rounds.


def final(num_envs: int, seed: int, policy: Any, epsilon: float, rounds: int = 6, **params: Any) -> Array:
    """What B societies come to after some rounds, [B, K + 3]: popularity, adopters, regret, and how often agent 0
    spoke."""
    env = Privatize(population(num_envs, **params), channel="preference", mechanism=BitwiseRandomizedResponse(epsilon))
    env.reset(seed=seed)
    policy.reset(env, env.stream("policy"))
    env.advance(policy, steps=rounds)
    sent = env.channels["preference"].messages()
    return np.concatenate(
        [env.measure("popularity"), env.measure("adopters")[:, None], env.measure("regret")[:, None], sent[:, :1]],
        axis=1,
    )


EIGHT: dict[str, Any] = {"num_agents": 120, "copies": 60, "qualities": np.linspace(0.9, 0.2, 8)}


@pytest.mark.parametrize("perturbation", ["per_round", "per_token"])
def test_runs_of_the_normal_law_have_the_law_of_tokens(perturbation: str) -> None:
    """Six rounds of learning, society against society: what the aggregated form ignores cannot be seen."""
    policy, setting = PrivateSocialLearning(0.7, 0.1), EIGHT | {"perturbation": perturbation}
    tokens = final(500, 0, policy, 1.0, **setting | {"dissemination": "stationary"})
    normal = final(500, 1, policy, 1.0, **setting | {"dissemination": "aggregated", "exact_below": 0})
    assert same_moments(tokens, normal) > ALARM
    for column in (0, 1, -3, -2):
        assert stats.ks_2samp(tokens[:, column], normal[:, column], method="asymp").pvalue > ALARM
    other = PrivateSocialLearning(0.9, 0.1)
    assert same_moments(tokens, final(500, 1, other, 1.0, **setting | {"dissemination": "aggregated"})) < ALARM


@pytest.mark.parametrize("epsilon", [None, 1.0])
@pytest.mark.parametrize("perturbation", ["per_round", "per_token"])
@pytest.mark.parametrize("dissemination", ["stationary", "aggregated"])
def test_rounds_in_which_nobody_holds_anything(epsilon: float | None, perturbation: str, dissemination: str) -> None:
    """Three agents who try nothing when in doubt: sooner or later all are silent, and stay so."""
    env = population(40, num_agents=3, copies=2, dissemination=dissemination, perturbation=perturbation, exact_below=0)
    privacy = None if epsilon is None else {"preference": BitwiseRandomizedResponse(epsilon)}
    policy = PrivateSocialLearning(0.6, 0.0, empty="null")
    for until in (40, np.arange(1, 41)):
        run = taciturn.simulate(env, policy, seed=0, until=until, privacy=privacy, record=["adopters"])
        assert (run.trace["adopters"][-1] == 0).sum() > 20
        assert (run.metrics["regret"] <= 0.9).all()


# Same bits.

TWENTY: dict[str, Any] = {"num_agents": 20, "copies": 6, "walk_length": 3, "horizon": 6, "qualities": FIVE}
SPREADS: dict[str, dict[str, Any]] = {
    "thrown": {},
    "by table": {"num_agents": 120, "copies": 25},
    "by binomials": {"copies": 90},
    "aggregated": {"dissemination": "aggregated"},
    "walks on a complete graph": {"dissemination": "walk", "walk_length": 2},
    "walks": {"dissemination": "walk", "graph": "star_triangle"},
    "queues": {"dissemination": "walk", "congestion": True, "slots": 4, "graph": "star_triangle"},
    "own signals": {"signals": "per_agent", "flat_actions": True},
    "zeros": {"without_preference": "zeros", "initial_preferences": "random"},
}
NOISY: dict[str, dict[str, Any]] = {
    "per_token": {"perturbation": "per_token"},
    "normal": {"dissemination": "aggregated", "exact_below": 0},
}
FRESH: dict[str, dict[str, Any]] = {name: NOISY["per_token"] | SPREADS[name] for name in ("thrown", "queues")} | {
    "normal": NOISY["per_token"] | NOISY["normal"]
}


def told(num_envs: int, **params: Any) -> list[Array]:
    """All that a run of random plans shows under noise, by replica."""
    env = population(num_envs, **TWENTY | params)
    noise = ChannelConfig(BitwiseRandomizedResponse(1.0))
    found = [env.reset(seed=3, options={"channels": {"preference": noise}})[0]]
    rng = np.random.default_rng(0)
    while not env.done.all():
        plan: Any = rng.integers(0, [6, 2, 2], (env.params.num_agents, 3))
        plan = plan @ [4, 2, 1] if env.params.flat_actions else plan
        step = env.step(np.stack([plan] * num_envs))
        shown = (step.info[key] for key in ("regret", "signals", "hops", "slots", "messages"))
        found += [step.observation, step.reward, *shown]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SPREADS)
def test_a_society_is_the_same_alone_and_among_others_compiled_or_not(name: str) -> None:
    a_replica_is_the_same_run_in_every_population(Case("social_bandit_v0", TWENTY | SPREADS[name]))


@pytest.mark.parametrize("name", [*(f"fresh, {name}" for name in FRESH), "normal"])
def test_numba_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under noise."""
    pytest.importorskip("numba")
    params = FRESH.get(name.removeprefix("fresh, "), NOISY["normal"])
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    fast = told(2, **params)
    monkeypatch.setattr(compiled, "COMPILE_FROM", 10**18)
    for a, b in zip(fast, told(2, **params), strict=True):
        np.testing.assert_array_equal(a, b)
