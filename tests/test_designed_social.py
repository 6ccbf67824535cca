"""Agents designed to listen: their memory, their posterior, their simulation of others, their privacy, and what it is
worth."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.channels.replies import distinct
from taciturn.envs import gossip_bandit_v0, social_bandit_v0
from taciturn.policies import CentralisedHoldTheBest, HoldTheBest, IsolatedThompson, Listener, OneAnswerOracle
from taciturn.policies.designed.listener import tables
from taciturn.policies.designed.social import (
    Belief,
    beta_belief,
    holds,
    improves,
    most_hopeful,
)
from taciturn.testing.policies import Play, a_second_run_owes_nothing_to_the_first
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize, audit

TASK: dict[str, Any] = {"num_agents": 20, "horizon": 20.0}
ROUNDS: dict[str, Any] = {"num_agents": 20, "horizon": 50, "signals": "per_agent", "without_preference": "zeros"}


def test_what_is_adopted_has_the_largest_posterior_mean() -> None:
    ones, zeros = np.array([[2, 0, 1], [0, 0, 0]]), np.array([[1, 0, 1], [0, 0, 0]])
    # Means 3/5, 1/2, 1/2; the second would have 1/3 after a 0 and 2/3 after a 1. Ties are not enough.
    np.testing.assert_array_equal(holds(ones, zeros, np.array([1, 0])), [[False, False], [True, True]])
    np.testing.assert_array_equal(holds(ones, zeros, np.array([0, 0])), [[False, False], [True, True]])
    np.testing.assert_array_equal(holds(ones[:1], zeros[:1], np.array([2]))[1], [False])


def test_the_most_hopeful_option() -> None:
    """By the posterior's moments; and where an agent holds a worse one than the best, the best."""
    ones, zeros = np.array([6, 0, 1]), np.array([2, 0, 3])
    belief = beta_belief(ones, zeros)
    for moment, values in zip(("mean", "std"), belief, strict=True):
        np.testing.assert_allclose(values, getattr(stats.beta(1 + ones, 1 + zeros), moment)())
    # Means .7, .5, .33 and spreads .14, .29, .18: 1.42 (.29 - .14) is where the second overtakes the first.
    rng = np.random.default_rng(0)
    assert [int(most_hopeful(belief, a, rng)) for a in (0.0, 1.2, 1.5, 9.0)] == [0, 0, 1, 1]
    tied = Belief(np.full((2000, 2), 0.5), np.full((2000, 2), 0.1))
    assert 850 < most_hopeful(tied, 1.0, rng).sum() < 1150
    many = Belief(*(np.broadcast_to(x, (4, 3)) for x in belief))
    np.testing.assert_array_equal(improves(many, np.array([0, 1, 2, -1]), np.full(4, 2)), [2, 0, 0, 0])


@pytest.mark.parametrize("policy", [HoldTheBest(), CentralisedHoldTheBest(), Listener(None)], ids=repr)
def test_each_agent_counts_its_own_signals(policy: Any) -> None:
    """In gossip one for each of its ticks; in rounds one of what it holds. Of options that always or never succeed, and
    so known which."""
    env: Any = gossip_bandit_v0.population(3, num_agents=6, qualities=[1.0, 0.0, 1.0], horizon=15.0)
    obs, _ = env.reset(seed=1)
    policy.reset(env, np.random.default_rng(0))
    while not env.done.any():
        before = env.measure("requests").copy()
        np.testing.assert_array_equal(policy._counted.sum((2, 3)), before)
        actions = policy.act(obs)
        step = env.step(actions)
        policy.update(obs, actions, step.reward, env.done)
        obs = step.observation
    np.testing.assert_array_equal(policy._counted[..., [0, 1, 2], [1, 0, 1]], 0)

    env = social_bandit_v0.population(3, num_agents=6, qualities=[1.0, 0.0, 1.0], horizon=15, signals="per_agent")
    obs, _ = env.reset(seed=1)
    policy.reset(env, np.random.default_rng(0))
    expected = np.zeros((3, 6), np.int64)
    while not env.done.any():
        actions = policy.act(obs)
        np.testing.assert_array_equal(policy._counted.sum((2, 3)), expected)
        assert (actions[..., 1:] == 1).all()
        expected += policy.read_messages(obs).own >= 0
        step = env.step(actions)
        policy.update(obs, actions, step.reward, env.done)
        obs = step.observation
    assert env.done.all()


def test_in_rounds_the_counts_are_the_signals() -> None:
    env = social_bandit_v0.population(2, num_agents=8, qualities=[1.0, 0.0, 1.0], horizon=20, signals="per_agent")
    policy = HoldTheBest()
    obs, _ = env.reset(seed=1)
    policy.reset(env, np.random.default_rng(0))
    for _ in range(19):
        actions = policy.act(obs)
        step = env.step(actions)
        policy.update(obs, actions, step.reward, env.done)
        obs = step.observation
    assert policy._counted[..., [0, 1, 2], [1, 0, 1]].sum() == 0
    assert (policy._counted[..., [0, 1, 2], [0, 1, 0]].sum((0, 1)) > 0).all()


@cache
def optimum(horizon: float, ticks: int) -> float:
    """The smallest popularity regret of an agent on its own with two options of uniform quality, which begins with a
    random one, by dynamic programming over its counts.

    An agent knows its ticks and not the time. What it holds after tick j counts as long as the interval to tick j + 1
    lasts, P(Poisson(horizon) > j) on average. After `ticks` it is told the qualities, which makes this a lower bound.
    """
    lasts = stats.poisson.sf(np.arange(400), horizon)

    @cache
    def value(a: int, b: int, c: int, d: int, held: int) -> float:
        """Of what comes from the tick after a + b + c + d on."""
        done = a + b + c + d
        if done == ticks:
            top = 1 - stats.beta.cdf(GRID, 1 + a, 1 + b) * stats.beta.cdf(GRID, 1 + c, 1 + d)
            return float(lasts[done + 1 :].sum() * top.mean())
        best = 0.0
        for option, (hits, misses) in enumerate(((a, b), (c, d))):
            mean, total = (1 + hits) / (2 + hits + misses), 0.0
            for signal, chance in ((1, mean), (0, 1 - mean)):
                counts = [a, b, c, d]
                counts[2 * option + 1 - signal] += 1
                means = [(1 + counts[2 * k]) / (2 + counts[2 * k] + counts[2 * k + 1]) for k in (0, 1)]
                total += chance * max(lasts[done + 1] * means[new] + value(*counts, new) for new in {held, option})
            best = max(best, total)
        return best

    return float(2 / 3 - (lasts[0] / 2 + value(0, 0, 0, 0, 0)) / horizon)


GRID = (np.arange(200) + 0.5) / 200


def test_on_its_own_it_is_near_the_optimum_and_never_beyond() -> None:
    """An agent that sees more than its own signals would be; 4 standard errors, false alarm below 1e-4."""
    env = gossip_bandit_v0.population(1000, num_agents=2, num_options=2, horizon=6.0)
    regret = taciturn.simulate(env, HoldTheBest(), seed=11).metrics["popularity_regret"]
    error, least = regret.std() / math.sqrt(regret.size), optimum(6.0, 10)
    assert least - 4 * error < regret.mean() < 1.1 * least + 4 * error, (regret.mean(), error, least)


@pytest.mark.parametrize(
    ("read_messages", "total", "share", "expected"),
    [(20, 20, 1.0, 20), (10, 20, 0.5, 10), (1000, 20, 0.5, 20 * 2000 / 2020), (1, 20, 0.05, 1), (0, 20, 0.05, 0)],
)
def test_as_how_many_answers_copies_count(read_messages: int, total: int, share: float, expected: float) -> None:
    assert distinct(np.array(read_messages), total, share) == pytest.approx(expected)


@pytest.mark.parametrize("requests", [1, 5])
@pytest.mark.parametrize("random", [True, False])
def test_copies_vary_as_that_many_answers_do(random: bool, requests: int) -> None:
    """8 answers, of which each request brings 6 copies, of random agents or of 6 different ones. The variance of 20,000
    means within 5%: its standard error is 1%."""
    rng, chance = np.random.default_rng(0), 0.3
    answers = rng.random((20_000, 8)) < chance
    if random:
        chosen = rng.integers(0, 8, (20_000, 6 * requests))
    else:
        chosen = np.concatenate(
            [rng.permuted(np.tile(np.arange(8), (20_000, 1)), axis=1)[:, :6] for _ in range(requests)], 1
        )
    means = np.take_along_axis(answers, chosen, 1).mean(1)
    n = float(distinct(np.array(6 * requests), 8, 0.125 if random else 0.75))
    assert means.var() == pytest.approx(chance * (1 - chance) / n, rel=0.05)


@pytest.mark.parametrize("world", [12, 19])
def test_the_simulation_is_the_world_with_agents_on_their_own(world: int) -> None:
    """Shares of 256 simulated agents against 2,000 of the world, within 5 standard errors: false alarm below 1e-5."""
    known = tables(4, 3.0)
    env = gossip_bandit_v0.population(1, num_agents=2000, qualities=tuple(known.qualities[world]), horizon=3.0)
    trace = taciturn.simulate(env, HoldTheBest(), seed=1, record=["popularity"], until=[3.0]).trace
    shares = trace["popularity"][-1, 0]
    error = np.sqrt(shares * (1 - shares) * (1 / 256 + 1 / 2000)) + 1 / 256
    assert (np.abs(shares - known.shares[world]) < 5 * error).all(), (shares, known.shares[world])
    assert np.abs(shares - 0.25).max() > 0.1, "they have learned"


@pytest.mark.parametrize("world", [12, 19])
def test_the_simulation_is_the_world_of_rounds(world: int) -> None:
    """Of agents that begin with a random option; as above."""
    known = tables(4, 5.0, rounds=True, optimism=1.5, fading=0.5, ends=9.0)
    env = social_bandit_v0.population(
        1,
        num_agents=2000,
        qualities=tuple(known.qualities[world]),
        horizon=9,
        signals="per_agent",
        copies=1,
        initial_preferences="random",
    )
    policy = HoldTheBest(optimism=1.5, fading=0.5)
    trace = taciturn.simulate(env, policy, seed=1, record=["popularity", "adopters"], until=[5.0]).trace
    shares = trace["popularity"][-1, 0] * trace["adopters"][-1, 0]
    error = np.sqrt(shares * (1 - shares) * (1 / 256 + 1 / 2000)) + 1 / 256
    assert (np.abs(shares - known.shares[world]) < 5 * error).all(), (shares, known.shares[world])
    assert np.ptp(shares) > 0.1, "they have learned"


def test_the_weights_are_those_of_bayes() -> None:
    """Against products of Bernoulli probabilities, one by one."""
    env = gossip_bandit_v0.population(1, num_agents=5, num_options=2, horizon=4.0)
    policy, distribution = Listener(2.0, moment=2.0, doubt=0.2), BitwiseRandomizedResponse(2.0)
    private = Privatize(env, "preference", policy.prescribes(env.view(policy))["preference"])
    private.reset(seed=0)
    policy.reset(private, np.random.default_rng(0))
    ones, zeros, counts = (
        np.array([[[2, 0]]]),
        np.array([[[1, 3]]]),
        np.array([[[3.0, 1.0, 4.0]]]),
    )  # one answer was lost
    found = policy.log_weights(ones, zeros, counts)[0, 0]
    theta, shares = tables(2, 2.0, ends=4.0)
    for world in (0, 17, 300):
        expected = 0.0
        for k in range(2):
            bit = distribution.q + (distribution.p - distribution.q) * (0.8 * shares[world, k] + 0.2 / 2)
            chances = [theta[world, k]] * int(ones[0, 0, k]) + [1 - theta[world, k]] * int(zeros[0, 0, k])
            chances += [bit] * int(counts[0, 0, k]) + [1 - bit] * int(4 - counts[0, 0, k])
            expected += sum(map(math.log, chances))
        assert found[world] == pytest.approx(expected, rel=1e-5)
    silent = policy.log_weights(ones, zeros, np.zeros((1, 1, 3)))[0, 0]
    assert silent[17] == pytest.approx(
        sum(ones[0, 0] * np.log(theta[17]) + zeros[0, 0] * np.log(1 - theta[17])), rel=1e-5
    )


@pytest.fixture(scope="module", params=["gossip", "rounds"])
def regrets(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of 50 or 100 runs, on seeds that the settings were not chosen on."""
    env: Any
    own: dict[str, Any]
    fresh: dict[str, Any]
    if request.param == "gossip":
        env, measure = gossip_bandit_v0.population(50, without_preference="zeros", **TASK), "popularity_regret"
        own, moments, fresh = {}, {10.0: 3.0, 3.0: 4.0}, {"moment": 2.5, "temper": 0.35}
        mark = CentralisedHoldTheBest()
    else:
        env, measure = social_bandit_v0.population(100, **ROUNDS), "popularity_regret"
        own, moments, fresh = {"optimism": 1.5, "fading": 0.6}, {10.0: 4.0, 3.0: 7.0}, {"moment": 5.0}
        mark = CentralisedHoldTheBest(2.0, 1.0)
    policies = {"copying": IsolatedThompson(), "alone": HoldTheBest(**own), "together": mark}
    policies |= {f"at {e:g}": Listener(e, moment, **own) for e, moment in moments.items()}
    policies |= {"exact": Listener(None, 3.0, temper=0.4, **own), "fresh": Listener(**fresh, **own)}
    once = {name for name in policies if name.startswith(("at", "exact"))}
    found = {
        name: taciturn.simulate(env, policy, seed=5, privacy="paper" if name in once else None)
        for name, policy in policies.items()
    }
    return {name: (run.metrics[measure], run.accountant) for name, run in found.items()}


def test_listening_pays_under_a_total(regrets: dict[str, Any]) -> None:
    """Pairs of runs of the same seeds; 4 standard errors, false alarm below 1e-4 each."""
    pairs = [("alone", "copying"), ("together", "at 10"), ("together", "fresh"), ("together", "exact")]
    for better, worse in (*pairs, *((name, "alone") for name in ("at 3", "at 10", "exact", "fresh"))):
        gain = regrets[worse][0] - regrets[better][0]
        assert gain.mean() > 4 * gain.std() / math.sqrt(gain.size), (better, worse, gain.mean())
    for name, total in (("at 10", 10.0), ("at 3", 3.0)):
        for unit in ("event", "user"):
            np.testing.assert_array_equal(regrets[name][1].epsilon(0.0, method="basic", unit=unit), total)
    assert np.isinf(regrets["exact"][1].epsilon(0.0, method="basic")).all()


@pytest.mark.parametrize("world", [gossip_bandit_v0, social_bandit_v0])
def test_a_total_is_spent_on_one_answer(world: Any) -> None:
    """At a moment of the same length in both worlds, whatever the policy's own epsilon."""
    env = world.population(2, num_agents=6, without_preference="zeros", horizon=8)
    policy = Listener(3.0, moment=2.0)
    distribution: Any = policy.within(env.view(policy), 0.7)["preference"]
    assert distribution.mechanism == BitwiseRandomizedResponse(0.7)
    assert distribution.at == (12 if world is gossip_bandit_v0 else 3)
    run = taciturn.simulate(env, policy, seed=0, privacy={"preference": distribution})
    np.testing.assert_array_equal(run.accountant.epsilon(0.0, method="basic", unit="user"), 0.7)


def test_listeners_reveal_no_more_than_their_answer() -> None:
    env = gossip_bandit_v0.population(1, num_agents=4, num_options=2, horizon=6.0, without_preference="zeros")
    policy = Listener(3.0, moment=2.0)
    private = Privatize(env, "preference", policy.prescribes(env.view(policy))["preference"])
    found = audit(private, policy=policy, change=(0, 1), trials=1000, confidence=0.9999)
    assert found.claimed == 3.0
    assert 0 < found.certified <= 3.0


@pytest.mark.parametrize("kind", [HoldTheBest, Listener])
def test_a_run_of_rounds_that_is_broken_off_is_forgotten(kind: Any) -> None:
    """As tests/test_centralisation.py checks it of runs of ticks that are over."""
    a_second_run_owes_nothing_to_the_first(Play(kind, "social_bandit_v0", {"num_agents": 5, "horizon": 8}), steps=2)


def test_signals_that_all_see_count_once() -> None:
    """With shared signals, agents that share a mind learn at most one signal of each option in a round, and know each
    option's Phi of each round in which anybody held it."""
    env: Any = social_bandit_v0.population(40, num_agents=6, qualities=[0.7, 0.4, 0.5], horizon=12, signals="shared")
    policy = CentralisedHoldTheBest()
    obs, _ = env.reset(seed=1)
    policy.reset(env, np.random.default_rng(0))
    expected = np.zeros((40, 3, 2), np.int64)
    while not env.done.any():
        actions = policy.act(obs)
        np.testing.assert_array_equal(policy._counted[:, 0], expected)
        np.testing.assert_array_equal(policy._counted[:, 1:], 0)
        held = policy.read_messages(obs).own
        seen = (held[..., None] == np.arange(3)).any(1)
        step = env.step(actions)
        phi = env.measure("signals")
        expected += np.stack([seen & (phi == 1), seen & (phi == 0)], -1)
        policy.update(obs, actions, step.reward, env.done)
        obs = step.observation


@pytest.mark.parametrize(
    ("world", "params", "moment", "distribution"),
    [
        (gossip_bandit_v0, {"num_agents": 6, "horizon": 9.0}, 3.0, None),
        (gossip_bandit_v0, {"num_agents": 6, "horizon": 9.0, "without_preference": "zeros"}, 3.0, 2.0),
        (social_bandit_v0, {**ROUNDS, "num_agents": 6, "horizon": 8}, 4.0, None),
        (social_bandit_v0, {**ROUNDS, "num_agents": 6, "horizon": 8, "without_preference": "silent"}, 4.0, None),
        (social_bandit_v0, {**ROUNDS, "num_agents": 6, "horizon": 8}, 4.0, 2.0),
    ],
)
def test_the_oracle_gets_one_answer_of_each_agent(
    world: Any, params: Any, moment: float, distribution: float | None
) -> None:
    """What every agent holds at the moment, exactly without noise, and flipped bit by bit as the law says, of all
    agents together within four standard deviations (false alarms below 1e-3). Before it gets nothing, and later nothing
    else."""
    policy, size = OneAnswerOracle(distribution, moment=moment), 1000
    env: Any = world.population(size, qualities=[0.8, 0.5, 0.2], **params)
    if distribution is not None:
        env = Privatize(env, channel="preference", mechanism=BitwiseRandomizedResponse(distribution))
    obs, _ = env.reset(seed=3)
    policy.reset(env, np.random.default_rng(0))
    ticks, drawn, truth = 0, np.zeros((size, 4)), np.zeros((size, 6), np.int64)
    known: Any = np.zeros(size, np.bool_)
    due = round(moment) if world is social_bandit_v0 else round(moment * 6) - 1
    while ticks < due + 5 and not env.done.any():
        if ticks == due:
            truth, known = env.state.preference.copy(), (policy._ticks > 0).all(1)
        actions = policy.act(obs)
        read_messages = policy._drawn
        if ticks < due:
            assert not read_messages.any()
            np.testing.assert_array_equal(read_messages, drawn)
        elif ticks == due:
            drawn = read_messages.copy()
        np.testing.assert_array_equal(read_messages, drawn)
        step = env.step(actions)
        policy.update(obs, actions, step.reward, env.done)
        obs, ticks = step.observation, ticks + 1
    assert ticks > due
    silent = params.get("without_preference") == "silent"
    counts = (truth[..., None] == np.arange(3)).sum(1)
    np.testing.assert_array_equal(drawn[:, 3], counts.sum(1) if silent else 6)
    assert known.mean() > 0.5  # who has not acted yet may hold anything
    if distribution is None:
        np.testing.assert_array_equal(drawn[known, :3], counts[known])
        return
    p = math.exp(distribution / 2) / (1 + math.exp(distribution / 2))
    expected = counts * p + (6 - counts) * (1 - p)
    error = math.sqrt(6 * known.sum() * p * (1 - p))
    assert (np.abs((drawn[:, :3] - expected)[known].sum(0)) < 4 * error).all()


def test_the_order_in_which_worlds_are_added_decides_nothing() -> None:
    """It depends on the processor. In single precision the spreads of options differ by some 1e-5."""
    env: Any = gossip_bandit_v0.population(1, num_agents=40, num_options=3)
    env.reset(seed=0)
    policy = Listener(None)
    policy.reset(env, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    ones, zeros = rng.integers(0, 30, (2, 1, 40, 3))
    answers = np.concatenate([rng.integers(0, 20, (1, 40, 3)), np.full((1, 40, 1), 20.0)], -1)

    def spreads() -> Any:
        mean, products = policy.moments(policy.log_weights(ones, zeros, answers))
        return np.sqrt(np.diagonal(products, axis1=-2, axis2=-1) - mean**2)

    before, order = spreads(), rng.permutation(policy._features.shape[0])
    policy._logs, policy._features = policy._logs[:, order], policy._features[order]
    np.testing.assert_allclose(spreads(), before, rtol=1e-8)
