"""The solver and the exact evaluation, against the Bellman and renewal equations written here from section 3.1, with no
code shared."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Array
from taciturn.envs.round_stopping.model import Model
from taciturn.policies import FixedCount, OneStepLookAhead, OptimalStopping, WaitForAll

INSTANCES = 64  # for each M = 1..8


def draw_instance(clients: int, rng: np.random.Generator, kind: int) -> dict[str, Any]:
    """A concave table and clocks of any kind, certain ones, near-hopeless ones and ties among them."""
    gains = [
        rng.exponential(size=clients),
        rng.integers(0, 4, clients).astype(float),
        np.full(clients, rng.random()),
        rng.random() / np.arange(1, clients + 1) ** rng.uniform(0.5, 4),
    ][kind % 4]
    start = [0.0, rng.random(), -rng.random(), -2 * gains.sum() - 0.1][rng.choice(4, p=[0.4, 0.4, 0.1, 0.1])]
    return {
        "num_clients": clients,
        "broadcast_time": 10 ** rng.uniform(-2, 3),
        "slot_time": 10 ** rng.uniform(-2, 1),
        "upload_probability": [1.0, rng.uniform(0.05, 1), 10 ** rng.uniform(-6, 0)][rng.integers(3)],
        "compute_probability": [1.0, rng.uniform(0, 1), 10 ** rng.uniform(-8, 0)][rng.integers(3)],
        "reward": start + np.append(0.0, np.cumsum(-np.sort(-gains))),
    }


def states(clients: int) -> list[tuple[int, int]]:
    return [(k, beta) for k in range(clients + 1) for beta in range(clients + 1 - k)]


def chain(model: dict[str, Any]) -> Array:
    """I - P over the full grid, self-loops left in: row (k, beta) waits a slot, and rows k = M have nothing to wait
    for.

    The diagonal is the sum of the probabilities of going elsewhere, which keeps it exact where a slot changes next to
    nothing.
    """
    clients, mu = model["num_clients"], model["upload_probability"]
    computing = np.arange(clients + 1)
    finish = np.asarray(binom.pmf(computing[None, :], computing[:, None], model["compute_probability"]))
    index = {state: i for i, state in enumerate(states(clients))}
    system = np.zeros((len(index), len(index)))
    for (k, beta), i in index.items():
        if k == clients:
            continue
        for uploaded, chance in ((0, 1 - mu), (1, mu)) if beta else ((0, 1.0),):
            for finished in range(clients - k - beta + 1):
                j = index[k + uploaded, beta - uploaded + finished]
                system[i, j] -= chance * finish[clients - k - beta, finished]
        system[i, i] = 0.0
        system[i, i] = -system[i].sum()
    return system


def follow(system: Array, wait: Array, each_slot: Array, at_stop: Array) -> Array:
    """The value of rules in chains, [n, S, c]: `each_slot` [n, c] for every slot of waiting, `at_stop` [n, S, c] at the
    end."""
    identity = np.eye(system.shape[-1])
    return np.linalg.solve(
        np.where(wait[:, :, None], system, identity), np.where(wait[:, :, None], each_slot[:, None], at_stop)
    )


def howard(system: Array, rewards: Array, cost: Array, wait: Array) -> tuple[Array, Array]:
    """Policy iteration over all stationary rules: (values [n, S], rules bool[n, S]) of max E[R(K) - cost N]."""
    live = system.diagonal(axis1=1, axis2=2) > 0
    leave = np.where(live, system.diagonal(axis1=1, axis2=2), 1.0)
    scale = np.abs(rewards).max(1, keepdims=True)
    while True:
        values = follow(system, wait, -cost[:, None], rewards[:, :, None])[:, :, 0]
        waiting = values + (-cost[:, None] - np.einsum("nij,nj->ni", system, values)) / leave
        better = live & np.where(np.abs(waiting - rewards) <= 1e-13 * scale, wait, waiting > rewards)
        if (better == wait).all():
            return values, wait
        wait = better


def bisect(system: Array, rewards: Array, slot: Array, broadcast: Array) -> Array:
    """lambda*, where the best value of a round net of time is zero; [n]."""
    low = np.minimum(rewards[:, 0] / broadcast, 0.0)
    high = np.maximum(rewards.max(1) / broadcast, 0.0)
    wait = np.zeros(rewards.shape, np.bool_)
    while ((high - low) > 1e-13 * np.abs(low + high)).any():
        middle = (low + high) / 2
        if ((middle == low) | (middle == high)).all():
            break
        values, wait = howard(system, rewards, middle * slot, wait)
        up = values[:, 0] > middle * broadcast
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return (low + high) / 2


@pytest.fixture(scope="module", params=range(1, 9))
def instances(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], Array, Array]:
    """(models, chains [n, S, S], R(k) in each state [n, S]) for one M."""
    clients: int = request.param
    rng = np.random.default_rng(clients)
    models = [draw_instance(clients, rng, kind) for kind in range(INSTANCES)]
    received = [k for k, _ in states(clients)]
    return models, np.array([chain(m) for m in models]), np.array([m["reward"][received] for m in models])


def column(models: list[dict[str, Any]], name: str) -> Array:
    return np.array([m[name] for m in models])


class TestSolver:
    def test_against_policy_iteration_on_the_full_grid(
        self, instances: tuple[list[dict[str, Any]], Array, Array]
    ) -> None:
        models, system, rewards = instances
        slot, broadcast = column(models, "slot_time"), column(models, "broadcast_time")
        solutions = [OptimalStopping.solve(**m) for m in models]
        rates = np.array([s.rate for s in solutions])
        np.testing.assert_allclose(rates, bisect(system, rewards, slot, broadcast), rtol=1e-9, atol=1e-300)

        scale = np.abs(rewards).max(1)
        for share in (0.3, 1.0, 2.5):
            prices = np.abs(rates) * share + (1e-6 if share != 1 else 1e-300)
            values, _ = howard(system, rewards, prices * slot, np.zeros(rewards.shape, np.bool_))
            expected = values[:, 0] - prices * broadcast
            found = np.array([s.value(price) for s, price in zip(solutions, prices, strict=True)])
            assert (np.abs(found - expected) <= 1e-9 * (scale + np.abs(expected))).all()

    def test_its_table_solves_the_bellman_equation_everywhere(
        self, instances: tuple[list[dict[str, Any]], Array, Array]
    ) -> None:
        """Also where the rule itself never comes."""
        models, system, rewards = instances
        solutions = [OptimalStopping.solve(**m) for m in models]
        grid = tuple(np.array(states(models[0]["num_clients"])).T)
        wait = np.array([s.table[grid] for s in solutions])
        cost = np.array([s.rate for s in solutions]) * column(models, "slot_time")
        values = follow(system, wait, -cost[:, None], rewards[:, :, None])[:, :, 0]
        leave = system.diagonal(axis1=1, axis2=2)
        live = leave > 0
        waiting = values + (-cost[:, None] - np.einsum("nij,nj->ni", system, values)) / np.where(live, leave, 1.0)
        residual = np.maximum(rewards, np.where(live, waiting, -np.inf)) - values
        assert (np.abs(residual) <= 1e-9 * np.abs(rewards).max(1, keepdims=True)).all()
        assert not wait[~live].any()

    def test_bounds_and_monotone_value(self, instances: tuple[list[dict[str, Any]], Array, Array]) -> None:
        """Corollaries 1 and 2, where R(M) >= 0; V falls in lambda and crosses zero at the rate."""
        for model in instances[0]:
            s = OptimalStopping.solve(**model)
            slack = 1e-12 * max(map(abs, s.bounds))
            if model["reward"][-1] >= 0:
                assert s.bounds[0] - slack <= s.rate <= s.bounds[1] + slack
            prices = np.geomspace(1e-3, 1e3, 13) * max(abs(s.rate), 1e-9)
            values = np.array([s.value(price) for price in prices])
            assert (np.diff(values) < 0).all()
            if s.rate > 0:
                assert abs(s.value(s.rate)) <= 1e-12 * np.abs(model["reward"]).max()
                assert s.evaluate(s.table).rate == pytest.approx(s.rate, rel=1e-9)

    def test_the_papers_setting_against_backward_induction(self) -> None:
        """M = 100: one sweep over all 5,151 states, each with its self-loop solved, gives V; none of them is a tie."""
        model, solution = Model(), OptimalStopping.solve()
        clients, mu = 100, model.upload_probability
        finish = np.asarray(binom.pmf(np.arange(101)[None], np.arange(101)[:, None], model.compute_probability))
        some = np.asarray(binom.sf(0, np.arange(101), model.compute_probability))
        table = np.zeros((clients + 1, clients + 1), np.bool_)

        def value(price: float) -> float:
            cost = price * model.slot_time
            v = np.zeros((clients + 1, clients + 1))
            v[clients, 0] = model.rewards[clients]
            for k in range(clients - 1, -1, -1):
                for beta in range(clients - k, -1, -1):
                    u = clients - k - beta
                    ahead = v[k, beta + 1 : beta + u + 1] @ finish[u, 1 : u + 1]
                    if beta == 0:
                        waiting = (-cost + ahead) / some[u]
                    else:
                        sent = v[k + 1, beta - 1 : beta + u] @ finish[u, : u + 1]
                        waiting = (-cost + mu * sent + (1 - mu) * ahead) / (mu + (1 - mu) * some[u])
                    table[k, beta] = waiting > model.rewards[k]
                    v[k, beta] = max(waiting, model.rewards[k])
            return float(v[0, 0] - price * model.broadcast_time)

        assert value(solution.rate * (1 + 1e-9)) < 0 < value(solution.rate * (1 - 1e-9))
        assert abs(value(solution.rate)) < 1e-15
        reachable = np.add.outer(np.arange(101), np.arange(101)) <= clients
        np.testing.assert_array_equal(solution.table[reachable], table[reachable])
        assert solution.thresholds == (9, 4)
        assert solution.rate == pytest.approx(0.0113396, rel=1e-5)

    @pytest.mark.parametrize("p", [1e-6, 1e-9, 1e-12, 1e-15])
    def test_clients_that_hardly_ever_finish(self, p: float) -> None:
        """Waiting for one update: E[N_1] = 1 / (1 - (1-p)^M) + 1/mu to full precision; nothing can do better by more
        than p."""
        model: dict[str, Any] = {"num_clients": 3, "compute_probability": p, "reward": [0, 1, 1.5, 1.6]}
        slots = -1 / np.expm1(3 * np.log1p(-p)) + 1.6
        assert round_stopping_v0.evaluate(FixedCount(1).table(3), **model).expected_slots == pytest.approx(
            slots, rel=1e-12
        )
        solution = OptimalStopping.solve(**model)
        assert solution.rate == pytest.approx(1 / (slots * 0.01 + 3), rel=100 * p + 1e-12)
        assert solution.thresholds[1] == 1

    def test_any_unit_of_time(self) -> None:
        hours = OptimalStopping.solve(broadcast_time=3 / 3600, slot_time=0.01 / 3600)
        assert hours.rate == pytest.approx(3600 * OptimalStopping.solve().rate, rel=1e-12)
        assert hours.thresholds == (9, 4)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"reward": [0, 1, 3]}, r"reward must be concave .* but it is not at R\(0\)=0, R\(1\)=1, R\(2\)=3"),
            ({"reward": [0, 1, 0.5]}, r"reward must be increasing .* but it is not at R\(1\)=1, R\(2\)=0.5"),
            ({"reward": [0, float("nan"), 1]}, r"reward must hold finite numbers only, but reward\[1\] is nan"),
            ({"reward": [0, 1]}, "reward must be a flat sequence of 3 numbers, not an array of shape"),
            ({"reward": "high"}, "reward must be a sequence of numbers, not 'high'"),
            ({"num_clients": 0}, "num_clients must be an integer >= 1 and <= 1000000, not 0"),
        ],
    )
    def test_errors(self, changed: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message) as error:
            OptimalStopping.solve(**{"num_clients": 2, "reward": [0.0, 1.0, 1.5], **changed})
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("price", [0, -1, float("nan"), "dear"])
    def test_value_needs_a_price(self, price: Any) -> None:
        with pytest.raises(ValueError, match="lambda_ must be a finite number > 0, not"):
            OptimalStopping.solve(num_clients=2).value(price)

    def test_the_world_takes_what_the_solver_refuses(self) -> None:
        population = round_stopping_v0.population(num_clients=2, reward=[0.0, 1.0, 3.0])
        with pytest.raises(ValueError, match="reward must be concave"):
            OptimalStopping().reset(population, np.random.default_rng(0))


class TestEvaluate:
    def test_random_tables_against_linear_solves(self, instances: tuple[list[dict[str, Any]], Array, Array]) -> None:
        """Rules without thresholds: E[R(K)], E[K] and E[N] of the absorbing chain over all states."""
        models, system, rewards = instances
        clients = models[0]["num_clients"]
        rng = np.random.default_rng(clients)
        grid = np.array(states(clients))
        tables = rng.random((len(models), clients + 1, clients + 1)) < rng.uniform(0.3, 1, (len(models), 1, 1))
        wait = tables[:, grid[:, 0], grid[:, 1]] & (grid[:, 0] < clients)
        ends = np.stack([rewards, np.broadcast_to(grid[:, 0], rewards.shape), np.zeros(rewards.shape)], axis=2)
        each_slot = np.broadcast_to([0.0, 0.0, 1.0], (len(models), 3))
        # A state with k = M has no equation but that it stops there.
        expected = follow(system, wait, each_slot, ends)[:, 0]
        for model, table, (reward, updates, slots) in zip(models, tables, expected, strict=True):
            found = round_stopping_v0.evaluate(table, **model)
            duration = slots * model["slot_time"] + model["broadcast_time"]
            np.testing.assert_allclose(
                found,
                (reward / duration, reward, slots, duration, updates),
                rtol=1e-10,
                atol=1e-12 * np.abs(model["reward"]).max(),
            )

    @pytest.mark.parametrize("clients", [1, 7, 100])
    @pytest.mark.parametrize(("mu", "p"), [(0.625, 0.002), (1.0, 0.3), (0.05, 1.0), (0.3, 0.9)])
    def test_first_update(self, clients: int, mu: float, p: float) -> None:
        model: dict[str, Any] = {"num_clients": clients, "upload_probability": mu, "compute_probability": p}
        e = round_stopping_v0.evaluate(FixedCount(1).table(clients), **model)
        assert e.expected_slots == pytest.approx(1 / (1 - (1 - p) ** clients) + 1 / mu, rel=1e-12)
        assert e.expected_updates == pytest.approx(1, rel=1e-12)
        assert e.expected_reward == pytest.approx(0.031, rel=1e-12)

    @pytest.mark.parametrize("k", [0, 1, 5, 20])
    def test_certain_clocks(self, k: int) -> None:
        """p = 1: E[N_k] = 1 + k/mu."""
        e = round_stopping_v0.evaluate(FixedCount(k).table(20), num_clients=20, compute_probability=1)
        assert e.expected_slots == pytest.approx(1 + k / 0.625 if k else 0, rel=1e-12)

    def test_what_it_does_not_look_at(self) -> None:
        """Entries with k + beta > M or k = M."""
        wait = WaitForAll().table(5)
        k, beta = np.indices(wait.shape)
        spoilt = np.where((k + beta > 5) | (k == 5), False, wait)
        assert round_stopping_v0.evaluate(wait, num_clients=5) == round_stopping_v0.evaluate(spoilt, num_clients=5)

    @pytest.mark.parametrize(
        "wait",
        [np.ones((3, 3)), np.ones((3, 4), np.bool_), True, [[1, 0], [0, 1]]],
        ids=["float", "shape", "0d", "list"],
    )
    def test_errors(self, wait: Any) -> None:
        with pytest.raises(ValueError, match=r"wait must be bool\[3, 3\] over \(k, beta\), not"):
            round_stopping_v0.evaluate(wait, num_clients=2)


positive = st.floats(1e-2, 1e2)
chance = st.floats(1e-3, 1)


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    gains = sorted(draw(st.lists(st.floats(0, 1), min_size=1, max_size=12)), reverse=True)
    return {
        "num_clients": len(gains),
        "broadcast_time": draw(positive),
        "slot_time": draw(positive),
        "upload_probability": draw(chance),
        "compute_probability": draw(chance),
        "reward": np.cumsum([draw(st.floats(0, 1)), *gains]),
    }


@given(models())
def test_no_rule_beats_the_optimal_one(model: dict[str, Any]) -> None:
    clients = model["num_clients"]
    solution = OptimalStopping.solve(**model)
    assert solution.evaluate(solution.table).rate == pytest.approx(solution.rate, rel=1e-9)
    one_step = OneStepLookAhead()
    one_step.prepare(Model(**model))
    rates = [solution.evaluate(FixedCount(k).table(clients)).rate for k in range(clients + 1)]
    assert solution.evaluate(WaitForAll().table(clients)).rate == pytest.approx(rates[-1])
    myopic = solution.evaluate(one_step.table(clients)).rate
    assert max(*rates, myopic) <= solution.rate * (1 + 1e-9)
    assert myopic >= rates[0] * (1 - 1e-9)
