"""Gossip: the model of Chen et al. 2021, its closed law against messages, its fast form against steps, and common
mistakes.

Statistical tests are seeded and reject the truth with probability at most 1e-4 each, by a chi-square or z statistic, or
a bound of 4 or more standard errors. That they have power is shown on the mistaken versions.
"""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from distributions import fits, same_distribution
from scipy import stats

import taciturn
from taciturn.channels.replies import AliasTable, ReplySums, sum_distribution
from taciturn.compiling import compiled
from taciturn.compiling.counter_streams import sources_of
from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core import Array, loops, picture
from taciturn.envs.gossip_bandit.rule import Behaviour, GossipRule, add_reply_noise, choose, reply_noise
from taciturn.envs.gossip_bandit.ticks import nobody_counts, play
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies import (
    CBL,
    PPCL,
    CopyOnReward,
    FollowMajority,
    IsolatedEpsilonGreedy,
    IsolatedThompson,
    IsolatedUCB,
    OracleOption,
    PrivateSocialLearning,
    Random,
    Uniform,
    Voter,
)
from taciturn.policies.families.social import option_to_pull
from taciturn.policies.reference.ppcl import clipped_estimate
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Faulty,
    LossyChannel,
    Memoized,
    Privatize,
    Stragglers,
    UnaryEncoding,
)

FALSE_ALARM = 1e-4
RR = BitwiseRandomizedResponse


def two_sample_p(first: Array, second: Array) -> float:
    """Of `same_distribution`, for numbers that take many values, in up to 20 cells."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, 21)[1:-1]))
    return same_distribution(*(np.searchsorted(edges, x, side="left") for x in (first, second)))


def population(num_envs: int = 1, mechanism: Any = None, **params: Any) -> Any:
    env = gossip_bandit_v0.population(num_envs=num_envs, **{"qualities": "chen2021"} | params)
    return env if mechanism is None else Privatize(env, "preference", mechanism)


def started(policy: Any, num_envs: int = 1, mechanism: Any = None, *, seed: int = 0, **params: Any) -> Any:
    env = population(num_envs, mechanism, **params)
    env.reset(seed=seed)
    policy.reset(env, env.stream("policy/agent"))
    return env


def no_leap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GossipBandit, "fast_forward", lambda self, policies, until: False)


# The spec's example.


def test_what_the_paper_prescribes() -> None:
    assert PPCL().prescribes(population().view()) == {"preference": RR(3.0)}
    run = taciturn.simulate(population(2, num_agents=8), PPCL(epsilon=1.5), seed=0, until=2.0, privacy="paper")
    assert run.accountant.per_message["preference"].epsilon == 1.5


# Equations.


def test_the_estimate_is_equation_7() -> None:
    epsilon = 3.0
    e = np.exp(epsilon / 2)
    distribution = RR(epsilon)
    counts = np.arange(41.0)
    h = counts / 40
    expected = np.clip((e + 1) / (e - 1) * h - 1 / (e - 1), 0, 1)
    np.testing.assert_allclose(
        clipped_estimate(counts[:, None], np.full(41, 40.0), distribution.p, distribution.q)[:, 0], expected, atol=1e-12
    )
    assert clipped_estimate(np.zeros((1, 3)), np.zeros(1), distribution.p, distribution.q).tolist() == [[0, 0, 0]]


def test_the_threshold_is_on_ones_own_share() -> None:
    """K = 2: alpha = 3/4, and at 3/4 an agent keeps."""
    policy = PPCL()
    for holders, pulls in (((2, 2), True), ((3, 1), False), ((1, 3), True)):
        env = started(
            policy, num_agents=4, qualities=(0.9, 0.1), initial_preferences=[0] * holders[0] + [1] * holders[1]
        )
        while env.state.preference[0, env.state.ticker[0, 0]] != 0:
            env.step([[[2, 0, 0]]])
        option = policy.act(env.observe())[0, 0, 0]
        assert bool(option < 2) is pulls


def test_options_are_drawn_in_proportion() -> None:
    rng = np.random.default_rng(0)
    weights = np.broadcast_to([0.5, 0.0, 0.25, 1.25], (40_000, 4))
    drawn = option_to_pull(weights, np.zeros(40_000, np.int64), rng.random(40_000))
    assert fits(np.bincount(drawn, minlength=5), 40_000 * np.array([0.25, 0, 0.125, 0.625, 0])) > FALSE_ALARM
    none = option_to_pull(np.zeros((3, 4)), np.array([-1, 0, 2]), np.array([0.1, 0.5, 0.9]))
    assert none.tolist() == [4, 4, 4]
    kept = option_to_pull(weights[:2], np.array([3, 2]), np.array([0.1, 0.1]), threshold=0.6)
    assert kept.tolist() == [4, 0]


def test_cbl_explores_without_a_preference() -> None:
    rng = np.random.default_rng(1)
    size, tau = 40_000, 0.3
    heard = np.zeros((size, 2))
    heard[:, 1] = 1.0
    drawn = option_to_pull(heard, np.full(size, -1), rng.random(size), explore=tau)
    assert fits(np.bincount(drawn, minlength=3), size * np.array([tau / 2, 1 - tau / 2, 0])) > FALSE_ALARM
    silent = option_to_pull(np.zeros((size, 2)), np.full(size, -1), rng.random(size), explore=tau)
    assert fits(np.bincount(silent, minlength=3), size * np.array([tau / 2, tau / 2, 1 - tau])) > FALSE_ALARM
    assert set(option_to_pull(heard[:50], np.zeros(50, np.int64), rng.random(50), explore=1.0)) == {1}
    assert set(option_to_pull(heard[:50], np.full(50, -1), rng.random(50), explore=1.0)) == {0, 1}


# What replies add up to.


def bruteforce(ones: int, zeros: int, p: float, q: float) -> Array:
    return np.convolve(stats.binom.pmf(np.arange(ones + 1), ones, p), stats.binom.pmf(np.arange(zeros + 1), zeros, q))


@pytest.mark.parametrize(
    ("ones", "zeros", "p", "q"), [(3, 5, 0.8, 0.2), (0, 7, 0.9, 0.3), (400, 0, 0.82, 0.18), (6, 6, 1.0, 0.0)]
)
def test_the_law_of_a_sum(ones: int, zeros: int, p: float, q: float) -> None:
    first, distribution = sum_distribution(ones, zeros, p, q)
    expected = bruteforce(ones, zeros, p, q)
    np.testing.assert_allclose(distribution, expected[first : first + distribution.size], rtol=1e-9)
    assert expected.sum() - expected[first : first + distribution.size].sum() < 1e-15


def alias_distribution(table: AliasTable, row: int, size: int) -> Array:
    """The law that a row draws from, exactly, on 0 .. size - 1."""
    width = table.cells.shape[1]
    distribution = np.zeros(size + width)
    for cell in range(width):
        stays, other = np.modf(table.cells[row, cell])
        distribution[table.first[row] + cell] += stays / width
        distribution[table.first[row] + int(other)] += (1 - stays) / width
    assert distribution[size:].sum() < 1e-15
    return distribution[:size]


@pytest.mark.parametrize("gap", [0, 3])
def test_tables_draw_the_law(gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where anchors share the table: N = 30 as if it were large."""
    n, p, q = 30, 0.8, 0.15
    sums = ReplySums(n, p, q)
    assert sums.levels == 1
    if gap:
        sums.gap, sums.levels = gap, 2
        sums.anchors = np.append(np.arange(0, n - gap, gap + 1), n - gap)
        sums.outer = AliasTable([sum_distribution(a, n - gap - a, p, q) for a in sums.anchors.tolist()])
        sums.inner = AliasTable([sum_distribution(r, gap - r, p, q) for r in range(gap + 1)])
    for x in range(n + 1):
        row = x // (gap + 1)
        distribution = alias_distribution(sums.outer, row, n + 1)
        if gap:
            distribution = np.convolve(
                distribution, alias_distribution(sums.inner, x - int(sums.anchors[row]), gap + 1)
            )[: n + 1]
        np.testing.assert_allclose(distribution, bruteforce(x, n - x, p, q), atol=1e-14)


def test_shared_tables_as_made_have_the_law() -> None:
    """For every count of ones among 700, whose tables are made for anchors, with unlike bits: against two binomial laws
    convolved."""
    n, p, q = 700, 0.5, 0.1
    sums = ReplySums(n, p, q)
    assert (sums.levels, len(sums.anchors) < n / 10) == (2, True)
    outer = [alias_distribution(sums.outer, row, n + 1) for row in range(len(sums.anchors))]
    inner = [alias_distribution(sums.inner, row, sums.gap + 1) for row in range(sums.gap + 1)]
    for x in (*range(0, n + 1, 7), n - 1, n):
        row = x // (sums.gap + 1)
        distribution = np.convolve(outer[row], inner[x - int(sums.anchors[row])])[: n + 1]
        np.testing.assert_allclose(distribution, bruteforce(x, n - x, p, q), atol=1e-13)


@pytest.mark.parametrize(("n", "x"), [(12, 0), (12, 5), (40, 40), (40, 13)])
def test_tables_turn_uniform_numbers_into_the_law(n: int, x: int) -> None:
    """Midpoints of 2^16 cells through `draw`: each table cell has two parts, so a frequency errs by at most 2 width /
    2^16."""
    sums, cells = ReplySums(n, 0.5, 0.1), 2**16
    uniform = (np.arange(cells) + 0.5) / cells
    drawn = sums.draw(np.full(cells, x), uniform[:, None])
    width = sums.outer.cells.shape[1]
    frequency = np.bincount(drawn, minlength=n + 1) / cells
    np.testing.assert_allclose(frequency, bruteforce(x, n - x, 0.5, 0.1), atol=2 * width / cells)


@pytest.mark.parametrize("n", [700, 10_000, 100_000, 100_003])
def test_anchors_reach_every_count(n: int) -> None:
    sums = ReplySums(n, 0.82, 0.18)
    ones = np.unique(np.concatenate([np.arange(700), n - np.arange(700), np.linspace(0, n, 999).astype(int)]))
    rest = ones - sums.anchors[ones // (sums.gap + 1)]
    assert sums.levels == 2
    assert rest.min() >= 0
    assert rest.max() <= sums.gap
    drawn = sums.draw(np.full(20_000, n // 3), np.random.default_rng(n).random((20_000, 2)))
    mean, variance = n // 3 * 0.82 + (n - n // 3) * 0.18, n * 0.82 * 0.18
    assert abs(drawn.mean() - mean) < 4 * np.sqrt(variance / 20_000)
    assert abs(drawn.var() / variance - 1) < 4 * np.sqrt(2 / 20_000)


def first_counts(mechanism: Any, size: int, *, by_message: bool, seed: int, **params: Any) -> Array:
    """What the first agent to tick hears, int64[size, K], by the closed law or message by message."""
    env = population(size, mechanism, **params)
    if by_message:
        env = Faulty(env, "preference", Stragglers((1.0,)))  # on time, but needs single messages
    env.reset(seed=seed)
    counts: Array = env.state.counts
    return counts


def joint(counts: Array, n: int) -> Array:
    """How often each vector of counts was met."""
    return np.bincount(
        np.ravel_multi_index(tuple(counts.T), (n + 1,) * counts.shape[1]), minlength=(n + 1) ** counts.shape[1]
    )


SMALL: dict[str, Any] = {"num_agents": 5, "qualities": (0.9, 0.5, 0.1)}


def joint_distribution(mechanism: Any, holders: tuple[int, ...], n: int) -> Array:
    distribution = np.ones(())
    for x in holders:
        distribution = np.multiply.outer(distribution, bruteforce(x, n - x, mechanism.p, mechanism.q))
    return distribution.ravel()


def test_a_tick_hears_the_law_of_single_messages() -> None:
    """Equations 5 and 6: joint over the options, the closed law and the messages both."""
    size, distribution = 15_000, joint_distribution(RR(2.0), (2, 2, 1), 5) * 15_000
    for by_message in (False, True):
        for mechanism in (RR(2.0), UnaryEncoding(2.0, "symmetric")):
            counts = first_counts(mechanism, size, by_message=by_message, seed=3, **SMALL)
            assert fits(joint(counts, 5), distribution) > FALSE_ALARM


def test_replies_are_fresh_at_every_request() -> None:
    """What is heard at consecutive ticks is independent given the population; memoised answers are not."""

    def correlation(mechanism: Any) -> float:
        env = population(4000, mechanism, num_agents=20, qualities=(0.5, 0.5), horizon=100.0)
        env.reset(seed=5)
        heard = []
        for _ in range(2):
            heard.append(env.state.counts[:, 0].copy())
            env.step(np.full((4000, 1, 3), [2, 0, 0]))
        return float(np.corrcoef(*heard)[0, 1])

    assert abs(correlation(RR(1.0))) < 4 / np.sqrt(4000)
    assert correlation(Memoized(RR(1.0))) > 0.9


def test_clocks_are_independent() -> None:
    """Ticks of the agents are Poisson and so is their sum; gaps are exponential."""
    n, size = 8, 400
    run = started(Random(), size, num_agents=n, rate=2.0, horizon=10.0, seed=8)
    gaps = []
    while not run.done.all():
        live, before = ~run.done, run.clock()
        run.step(np.full((size, 1, 3), [4, 0, 0]))
        gaps.append((run.clock() - before)[live])
    requests = run.state.requests
    dispersion = stats.chi2(requests.size)
    chi2 = ((requests - 20.0) ** 2 / 20.0).sum()
    assert 2 * min(dispersion.cdf(chi2), dispersion.sf(chi2)) > FALSE_ALARM
    # Past the first, which is no gap yet; beyond the horizon gaps are cut off, for 1 in 160.
    first = gaps[0][gaps[0] > 0]
    assert stats.kstest(first, "expon", args=(0, 1 / (n * 2.0))).pvalue > FALSE_ALARM
    assert (run.clock() <= 10.0).all()
    assert run.truncated.all()


# Leaps.


def outcome(run: Any, name: str) -> Array:
    values: Array = run.metrics[name]
    return np.where(np.isfinite(values), values, -1.0)


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "ppcl": (PPCL(), RR(3.0), {"num_agents": 20, "horizon": 8.0}),
    "ppcl, weak": (PPCL(), RR(0.5), {"num_agents": 12, "qualities": (0.7, 0.4, 0.2), "horizon": 6.0}),
    "ppcl, agreed": (PPCL(), RR(2.0), {"num_agents": 8, "initial_preferences": [0] * 8, "horizon": 20.0}),
    "ppcl, no noise": (PPCL(), None, {"num_agents": 12, "horizon": 8.0}),
    "ppcl, unary": (PPCL(), UnaryEncoding(1.5), {"num_agents": 12, "horizon": 6.0}),
    "cbl": (CBL(0.2), None, {"num_agents": 15, "asks": "one", "initial_preferences": "none", "horizon": 10.0}),
    "cbl, noisy": (CBL(0.5), RR(2.0), {"num_agents": 15, "asks": "one", "initial_preferences": "none", "horizon": 8.0}),
    "voter": (Voter(), RR(3.0), {"num_agents": 12, "qualities": (0.7, 0.4), "horizon": 8.0}),
    "imitate": (CopyOnReward(), RR(3.0), {"num_agents": 12, "horizon": 6.0}),
}


@pytest.mark.parametrize("name", CASES)
def test_leaps_have_the_law_of_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples of whole runs: of everything that runs are judged by."""
    policy, mechanism, params = CASES[name]
    size, privacy = 3000, None if mechanism is None else {"preference": mechanism}
    until = [params["horizon"] / 3, params["horizon"]]
    fast = taciturn.simulate(population(size, **params), policy, seed=11, until=until, record=["best"], privacy=privacy)
    no_leap(monkeypatch)
    steps = taciturn.simulate(
        population(size, **params), policy, seed=12, until=until, record=["best"], privacy=privacy
    )
    names: tuple[str, ...] = (
        "best",
        "agreed_at",
        "departed_at",
        "departures",
        "regret",
        "popularity_regret",
        "reward",
        "ticks",
        "pulls",
    )
    names += ("all_zero", "replies", "epsilon_per_requester")
    for metric in names:
        first, second = outcome(fast, metric), outcome(steps, metric)
        if len({*first.tolist(), *second.tolist()}) > 1:
            assert two_sample_p(first, second) > FALSE_ALARM, metric
    assert two_sample_p(fast.trace["best"][0], steps.trace["best"][0]) > FALSE_ALARM


@pytest.mark.parametrize("name", CASES)
def test_leaps_give_the_same_bits_compiled_or_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompiled, compiled, and compiled in three threads."""
    pytest.importorskip("numba")
    policy, mechanism, params = CASES[name]
    privacy = None if mechanism is None else {"preference": mechanism}
    results = []
    for compile_from, threads in ((math.inf, 1), (0, 1), (0, 3)):
        monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
        monkeypatch.setattr(loops, "num_threads", lambda threads=threads: threads)
        monkeypatch.setattr(loops, "PART", 1)
        env, until = population(40, **params), [1.0, 1.5]
        run = taciturn.simulate(env, policy, seed=4, until=until, record=["preference"], privacy=privacy)
        results.append((run.trace["preference"], run.metrics))
    np.testing.assert_equal(results[1], results[0])
    np.testing.assert_equal(results[2], results[0])


def test_large_populations_give_the_same_bits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two tables for a count."""
    pytest.importorskip("numba")
    results = []
    for compile_from in (0, math.inf):
        monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
        run = taciturn.simulate(
            population(3, num_agents=1000), PPCL(), seed=4, until=[0.5, 1.0], record=["preference"], privacy="paper"
        )
        results.append((run.trace["preference"], run.metrics))
    np.testing.assert_equal(results[0], results[1])


def test_a_run_that_is_recorded_often_is_compiled_once_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its leaps is short: those after half of the ticks are compiled."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "COMPILE_FROM", 5000)
    monkeypatch.setattr(compiled, "LOADS_AT", 1.0)
    policy, seen = PPCL(), []
    env = started(policy, 10, RR(3.0), num_agents=100)
    for until in range(1, 11):
        env.advance(policy, until=float(until))
        seen.append(not hasattr(env._loops[play], "__code__"))
    assert seen == sorted(seen)
    assert 3 <= sum(seen) <= 8


@pytest.mark.parametrize(
    "rule",
    [
        GossipRule(np.maximum(np.arange(10.0) - 2, 0), 0.6),
        GossipRule(np.arange(10.0), explore=0.3),
        GossipRule(np.arange(10.0) ** 2, 0.5, explore=1.0),
    ],
)
def test_one_agent_chooses_as_many_do(rule: GossipRule) -> None:
    """What leaps choose is what `act` chooses, for the same number."""
    rng = np.random.default_rng(0)
    counts, own, drawn = rng.integers(0, 5, (3000, 4)), rng.integers(-1, 4, 3000), rng.random(3000)
    expected = option_to_pull(rule.weights.take(counts), own, drawn, rule.threshold, rule.explore)
    behaviour = Behaviour(rule.weights, rule.threshold, rule.explore, *rule.adopts)
    found = [
        choose(heard, mine, behaviour, u) for heard, mine, u in zip(counts, own.tolist(), drawn.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(found, expected)
    assert len(set(found)) == 5


@pytest.mark.parametrize("n", [1, 40, 3000])
def test_a_leap_hears_the_law_of_a_sum(n: int) -> None:
    """The noise of leaps beside the exact law, at a count; noise that is used for two options is found."""
    distribution, size, ones = (0.8, 0.3), 4000, (2 * n) // 3
    noise, rng = (
        reply_noise(distribution, None if n == 1 else ReplySums(n, *distribution)),
        sources_of(5, "", ("noise",), np.arange(1))[0],
    )
    heard = np.full((size, 2), ones)
    for counts in heard:
        add_reply_noise(counts, n, noise, rng, 0)
    first, exact = sum_distribution(ones, n - ones, *distribution)
    expected = np.zeros(n + 1)
    expected[first : first + exact.size] = exact
    for option in (0, 1):
        assert fits(np.bincount(heard[:, option], minlength=n + 1), size * expected) > FALSE_ALARM
    assert abs(np.corrcoef(heard.T)[0, 1]) < 4 / np.sqrt(size)
    silent = np.array([ones, ones])
    add_reply_noise(silent, 0, noise, rng, 0)
    assert silent.tolist() == [ones, ones]


def test_leaps_count_what_steps_count() -> None:
    """Jumps to the end, and jumps in between: replies, ticks and charges add up."""
    env = started(PPCL(), 6, RR(2.0), num_agents=10, horizon=5.0)
    policy = PPCL()
    policy.reset(env, env.stream("policy/agent"))
    for until in (0.001, 1.0, 2.5, 5.0):
        env.advance(policy, until=until)
        s = env.state
        assert (s.time <= until).all()
        assert (s.due > until).all()
        np.testing.assert_array_equal(s.requests.sum(1), s.ticks)
        pending = ~env.done
        np.testing.assert_array_equal(
            env.measure("agent_messages"), np.broadcast_to((s.ticks + pending)[:, None], (6, 10))
        )
        np.testing.assert_array_equal(env.accountant.messages("preference"), env.measure("agent_messages"))
        np.testing.assert_array_equal(s.holders, [[(row == k).sum() for k in range(4)] for row in s.preference])
    assert env.truncated.all()
    np.testing.assert_allclose(env.accountant.epsilon(by="max", method="basic"), 2.0 * s.ticks)


def test_leaps_leave_finished_runs_alone() -> None:
    """Steps, jumps, ends and resets of some, in any order."""
    policy = PPCL()
    env = started(policy, 6, RR(2.0), num_agents=10, horizon=3.0)
    for _ in range(5):
        env.step(policy.act(env.observe()))
    env.advance(policy)
    assert env.done.all()
    ended, paid = env.state, env.accountant.messages("preference").copy()
    again = np.array([True, False] * 3)
    env.reset(where=again)
    env.advance(policy, until=1.0)
    env.step(policy.act(env.observe()))
    env.advance(policy)
    for field in dataclasses.fields(ended):
        np.testing.assert_array_equal(getattr(env.state, field.name)[~again], getattr(ended, field.name)[~again])
    np.testing.assert_array_equal(env.accountant.messages("preference")[~again], paid[~again])
    np.testing.assert_array_equal(env.accountant.messages("preference")[:, 0], env.state.ticks)
    assert (env.state.ticks[again] != ended.ticks[again]).any()


def test_leaps_refuse_what_they_have_no_law_for() -> None:
    refused: list[tuple[Any, Any]] = [
        (population(2, Memoized(RR(2.0)), num_agents=5), PPCL()),
        (Faulty(population(2, RR(2.0), num_agents=5), "preference", LossyChannel(0.2)), PPCL()),
        (Privatize(population(2, num_agents=5), "preference", RR(2.0), Budget(50.0)), PPCL()),
        (population(2, num_agents=5, initial_preferences="none"), PPCL()),
        (population(2, num_agents=5), FollowMajority()),
    ]
    for env, policy in refused:
        env.reset(seed=0)
        policy.reset(env, env.stream("policy"))
        before = env.state
        assert env.fast_forward({"agent": policy}, 1.0) is False
        assert env.state is before
        env.advance(policy, until=0.5)


# K = 2: a birth-death chain.


def holder_chain(n: int, qualities: tuple[float, float], mechanism: Any, alpha: float = 0.75) -> Array:
    """P(x, y) that a tick takes the number of agents who prefer the first of two options from x to y; float64[n + 1, n
    + 1]."""
    p, q = (1.0, 0.0) if mechanism is None else (mechanism.p, mechanism.q)
    estimate = np.clip((np.arange(n + 1) / n - q) / (p - q), 0, 1)
    chain = np.zeros((n + 1, n + 1))
    for x in range(n + 1):
        distribution = np.outer(bruteforce(x, n - x, p, q), bruteforce(n - x, x, p, q))
        total = estimate[:, None] + estimate[None]
        first = np.divide(estimate[:, None], total, out=np.full(total.shape, 0.0), where=total > 0)
        second = np.divide(estimate[None], total, out=np.full(total.shape, 0.0), where=total > 0)
        up = (n - x) / n * qualities[0] * (distribution * first * (second < alpha)).sum()
        down = x / n * qualities[1] * (distribution * second * (first < alpha)).sum()
        if x < n:
            chain[x, x + 1] = up
        if x > 0:
            chain[x, x - 1] = down
        chain[x, x] = 1 - up - down
    return chain


def after(chain: Array, start: int, mean_ticks: float) -> Array:
    """The law of the number of holders after a Poisson number of ticks."""
    distribution, total = np.eye(len(chain))[start], np.zeros(len(chain))
    for ticks in range(int(mean_ticks + 12 * np.sqrt(mean_ticks)) + 20):
        total += stats.poisson.pmf(ticks, mean_ticks) * distribution
        distribution = distribution @ chain
    return total


@pytest.mark.parametrize("epsilon", [None, 1.0, 3.0])
@pytest.mark.parametrize("way", ["fast_forward", "step"])
def test_two_options_are_an_exact_birth_death_chain(
    epsilon: float | None, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, qualities, until, size = 16, (0.8, 0.5), 6.0, 3000
    mechanism = None if epsilon is None else RR(epsilon)
    distribution = after(holder_chain(n, qualities, mechanism), n // 2, n * until) * size
    if way == "step":
        no_leap(monkeypatch)

    env = population(size, num_agents=n, qualities=qualities)
    privacy = None if mechanism is None else {"preference": mechanism}
    run = taciturn.simulate(env, PPCL(), seed=21, until=until, privacy=privacy)
    assert fits(np.bincount(np.rint(run.metrics["best"] * n).astype(int), minlength=n + 1), distribution) > FALSE_ALARM


def test_consensus_is_not_absorbing() -> None:
    """With finite epsilon all agents agree, and stop agreeing; without noise they never do."""
    params: dict[str, Any] = {"num_agents": 20, "qualities": (0.9, 0.5)}
    noisy = taciturn.simulate(population(200, **params), PPCL(), seed=0, until=60.0, privacy={"preference": RR(2.0)})
    clear = taciturn.simulate(population(200, **params), PPCL(), seed=0, until=60.0)
    assert np.isfinite(noisy.metrics["agreed_at"]).all()
    assert (noisy.metrics["departures"] > 1).all()
    assert (noisy.metrics["departed_at"] > noisy.metrics["agreed_at"]).all()
    assert np.isfinite(clear.metrics["agreed_at"]).mean() > 0.95
    assert not clear.metrics["departures"].any()
    assert np.isinf(clear.metrics["departed_at"]).all()


def test_theorem_1_as_a_first_passage() -> None:
    """Equation 36, noiseless: P(all prefer the best) >= 1 - (1 - mu / 2)^(N / 2K); tested at 4 standard errors."""
    qualities, n, mu = (0.9, 0.5), 24, 0.4
    run = taciturn.simulate(population(2000, num_agents=n, qualities=qualities), PPCL(), seed=3, until=200.0)
    rate = run.metrics["agreed_on_best"].mean()
    bound = 1 - (1 - mu / 2) ** (n / 4)
    assert rate >= bound - 4 * np.sqrt(bound * (1 - bound) / 2000)
    assert run.metrics["consensus"].mean() > 0.95


# Privacy and faults.


def test_one_peer_pays_where_one_is_asked() -> None:
    for policy in (CBL(), Random()):
        run = taciturn.simulate(
            population(50, asks="one", num_agents=10), policy, seed=0, until=5.0, privacy={"preference": RR(1.0)}
        )
        np.testing.assert_array_equal(run.accountant.messages("preference").sum(1), run.metrics["ticks"])


def test_agents_without_preference_are_silent() -> None:
    env = started(Random(), 1, RR(1.0), num_agents=6, initial_preferences=[0, 1, 4, 4, 4, 4])
    assert env.state.received.tolist() == [2]
    assert env.accountant.messages("preference").tolist() == [[1, 1, 0, 0, 0, 0]]
    assert (
        taciturn.simulate(
            population(1, asks="one", num_agents=4, initial_preferences="none"), OracleOption(), seed=0
        ).metrics["best"]
        == 1
    )


def test_losses_thin_what_is_heard() -> None:
    env = Faulty(population(2000, None, num_agents=10), "preference", LossyChannel(0.4))
    env.reset(seed=0)
    received = env.state.received
    assert abs(received.mean() - 6.0) < 4 * np.sqrt(10 * 0.4 * 0.6 / 2000)
    heard = env.roles["agent"].layout.unpack(env.observe())
    np.testing.assert_allclose(heard["received"][:, 0], received / 10, rtol=1e-6)


def test_budgets() -> None:
    for when_spent, ends in (("silent", False), ("truncate", True)):
        budget = Budget(20.0, when_spent=when_spent)  # type: ignore[arg-type]
        run = taciturn.simulate(
            Privatize(population(3, num_agents=6), "preference", RR(1.0), budget), PPCL(), seed=0, until=50.0
        )
        assert (run.accountant.messages("preference") == 20).all()
        assert (run.metrics["ticks"] <= 20).all() == ends


# The world.


@pytest.mark.parametrize(
    ("counts", "received", "q", "nobody"),
    [([0, 0], 4, 0.0, True), ([1, 0], 4, 0.0, False), ([1, 2], 4, 0.5, True), ([1, 3], 4, 0.5, False)],
)
def test_all_estimates_are_zero(counts: list[int], received: int, q: float, nobody: bool) -> None:
    """An option that as many name as noise makes name it counts for nothing."""
    assert nobody_counts(counts, received, q) == nobody


def test_all_zero_replies_are_kept_through() -> None:
    env = population(3000, RR(0.2), num_agents=2, qualities=(0.9, 0.1), horizon=1000.0)
    run = taciturn.simulate(env, PPCL(), seed=0, until=3.0)
    policy, env = PPCL(), env
    env.reset(seed=1)
    policy.reset(env, env.stream("policy/agent"))
    nothing = (env.state.counts == 0).all(1)
    action = policy.act(env.observe())[:, 0]
    assert nothing.any()
    assert (action[nothing, 0] == 2).all()
    np.testing.assert_array_equal(env.step(action[:, None]).info["all_zero"][nothing], True)
    assert run.metrics["all_zero"].mean() > 0.1


def test_rewards_for_preferences() -> None:
    run = started(
        OracleOption(), 2000, num_agents=5, qualities=(0.7, 0.1), reward="preference", initial_preferences=[1] * 5
    )
    kept = run.step(np.full((2000, 1, 3), [2, 0, 0])).reward.mean()
    taken = run.step(np.full((2000, 1, 3), [0, 1, 1])).reward.mean()
    assert abs(kept - 0.1) < 4 * np.sqrt(0.09 / 2000)
    assert abs(taken - 0.7) < 4 * np.sqrt(0.21 / 2000)


def test_a_run_without_a_tick() -> None:
    """Its first step does nothing and ends it; nobody is asked anything."""
    env = population(400, RR(1.0), num_agents=2, horizon=0.1)
    run = taciturn.simulate(env, PPCL(), seed=0, until=0.1)
    none = run.metrics["ticks"] == 0
    assert abs(none.mean() - np.exp(-0.2)) < 4 * np.sqrt(0.15 / 400)
    assert not run.accountant.messages("preference")[none].any()
    env.reset(seed=0)
    step = env.step(np.full((400, 1, 3), [0, 1, 1]))
    assert step.truncated[step.info["time"] == 0].all()
    assert not env.accountant.messages("preference")[env.state.ticks == 0].any()


def test_initial_preferences() -> None:
    def first(**params: Any) -> Any:
        env = population(3, num_agents=7, qualities=(0.5, 0.4, 0.3), **params)
        env.reset(seed=0)
        return env.state.preference

    assert first()[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert (first(initial_preferences="none") == -1).all()
    assert set(first(initial_preferences="random").ravel()) == {0, 1, 2}
    assert first(initial_preferences=[3, 2, 2, 1, 0, 0, 3])[1].tolist() == [-1, 2, 2, 1, 0, 0, -1]
    run = taciturn.simulate(population(3, num_agents=4, initial_preferences=[1] * 4), PPCL(), seed=0, until=1.0)
    assert run.metrics["agreed_at"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("num_agents", [2, 1000, 10_000])
def test_sizes(num_agents: int) -> None:
    for asks, policy in (("all", PPCL()), ("one", CBL())):
        env = population(1, RR(3.0), num_agents=num_agents, asks=asks)
        run = taciturn.simulate(env, policy, seed=0, until=1.0)
        assert abs(run.metrics["ticks"] - num_agents) <= 5 * np.sqrt(num_agents)
        assert env.measure("popularity").sum() == pytest.approx(1.0)
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.array([[[0, 1, 1]]]))


# Policies.


def test_policies_in_order() -> None:
    """The paper's rule beats those that hear nobody, learn nothing or follow; 40 runs each, at 4 standard errors."""

    def regret(policy: Any) -> tuple[float, float]:
        env = population(40, num_agents=60, horizon=30.0)
        values = taciturn.simulate(env, policy, seed=0, until=30.0, privacy={"preference": RR(3.0)}).metrics[
            "popularity_regret"
        ]
        return float(values.mean()), float(values.std() / np.sqrt(40))

    best, error = regret(PPCL())
    oracle, _ = regret(OracleOption())
    assert oracle < best
    for policy in (Uniform(), Voter(), FollowMajority(), IsolatedUCB(), IsolatedThompson(), IsolatedEpsilonGreedy()):
        mean, other = regret(policy)
        assert best < mean - 4 * np.hypot(error, other), type(policy)
    assert regret(PrivateSocialLearning(beta=0.95))[0] < 0.2


def test_cbl_learns_without_noise() -> None:
    env = population(40, num_agents=60, asks="one", initial_preferences="none", horizon=40.0)
    run = taciturn.simulate(env, CBL(0.5), seed=0, until=40.0)
    assert run.metrics["best"].mean() > 0.9


def test_estimates_divide_by_the_replies_received() -> None:
    """With one reply among nine agents, `PrivateSocialLearning` tries the option that the reply names."""
    policy = PrivateSocialLearning(beta=0.9, mu=0.0)
    env = started(policy, 500, RR(4.0), num_agents=9, asks="one")
    counts = env.state.counts
    named = counts.sum(1) == 1
    assert named.sum() > 100
    np.testing.assert_array_equal(policy.act(env.observe())[named, 0, 0], counts[named].argmax(1))


# Pictures and text.


def test_pictures() -> None:
    for params in ({"num_agents": 30}, {"num_agents": 3000, "qualities": tuple(np.linspace(1, 0, 12))}):
        policy, env = PPCL(), population(2, RR(3.0), horizon=2.0, **params)
        env.reset(seed=0)
        blank = picture(env)
        policy.reset(env, env.stream("policy"))
        env.advance(policy, until=1.0)
        assert (picture(env) != blank).any()
        env.reset(where=np.array([True, False]))
        times, shares = env.history.run(0, env.clock(), env.measure("popularity"))
        assert times.max() == 0
        assert (np.diff(env.history.run(1, env.clock(), env.measure("popularity"))[0]) >= 0).all()
        assert shares.shape == (times.size, env.params.num_options)


def test_a_history_stays_short() -> None:
    env = started(PPCL(), 1, num_agents=50, horizon=40.0)
    while not env.done.all():
        env.step(np.array([[[4, 0, 0]]]))
    times, _ = env.history.run(0, env.clock(), env.measure("popularity"))
    assert 150 < times.size <= 401
    steps = [b - a for a, b in pairwise(times.tolist())]
    assert max(steps) < 1.0


def test_a_run_that_ends_before_the_first_tick_tells_nothing_and_costs_nothing() -> None:
    """Without a mechanism, too, where a reply would cost infinitely much."""
    for given in ({}, {"preference": RR(1.0)}):
        env = gossip_bandit_v0.population(2, num_agents=5, horizon=1e-12)
        run = taciturn.simulate(env, PPCL(), seed=0, privacy=given)
        assert (run.metrics["epsilon_per_requester"] == 0).all()
        env.reset(seed=0)
        info = env.step(np.zeros((2, 1, 3), np.int64)).info
        assert (info["epsilon_per_requester"] == 0).all()
