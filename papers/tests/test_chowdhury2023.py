"""The study of Chowdhury & Zhou 2023: its instances, what a cell gives, and the numbers that are computed exactly."""

import numpy as np
import pytest
from scipy import special, stats

from taciturn.bench.results import Cell
from taciturn_papers.azize2022.indices import regret_lower_bound
from taciturn_papers.chowdhury2023.claims import USERS, published_variance, renyi_share, skellam_tail_share
from taciturn_papers.chowdhury2023.figures import RegretByTrust
from taciturn_papers.chowdhury2023.indices import local_lower_bound, skellam_renyi
from taciturn_papers.chowdhury2023.settings import EASY, HARD, LOCAL, bandit, means_of


def test_instances_are_those_of_the_paper_and_differ_by_seed() -> None:
    for instance, low, high in ((EASY, 0.25, 0.75), (HARD, 0.45, 0.55)):
        drawn = np.array([means_of(instance, seed) for seed in range(200)])
        assert low <= drawn.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < drawn.max() <= high
        assert len(np.unique(drawn)) == drawn.size == 2000
    np.testing.assert_allclose((means_of(EASY, 3) - 0.5) / 5, means_of(HARD, 3) - 0.5)


@pytest.mark.parametrize("policy", [LOCAL, "DistDPSE"])
def test_a_cell_gives_regret_at_three_times(policy: str) -> None:
    """Pulls in equal shares cost their share of regret in any time, so the regret up to T/100 is at most that of random
    play; and it never falls."""
    config = bandit(policy, EASY, 0.5, quick=True) | {"runs": 2}
    found = RegretByTrust().run(Cell("chowdhury2023-1", config, 7))
    horizon = 10_000 if policy == LOCAL else 100_000
    means = means_of(EASY, 7)
    assert config["env_params"]["horizon"] == horizon
    times, average = (np.asarray(x) for x in found.curves["average_regret"])
    regret = times * average
    assert times[-1] == horizon
    assert (np.diff(regret) >= 0).all()
    at = {round(t): x for t, x in zip(times, regret, strict=True)}
    assert found.metrics["early"] == pytest.approx(at[horizon // 100])
    assert found.metrics["late"] == pytest.approx(at[10_000])
    assert found.metrics["regret"] == pytest.approx(at[horizon])
    assert 0 < found.metrics["early"] < 1.5 * horizon / 100 * (means.max() - means.mean())
    bound = (local_lower_bound if policy == LOCAL else regret_lower_bound)(means, 0.5) * np.log(horizon)
    assert found.metrics["times_bound"] == pytest.approx(at[horizon] / bound)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_variance_of_the_published_noise_is_that_of_its_shares(epsilon: float) -> None:
    step = epsilon / np.ceil(epsilon * np.sqrt(USERS))
    shares = 2 * USERS * stats.nbinom(1 / USERS, np.exp(-step)).var()
    assert published_variance(epsilon) == pytest.approx(shares / stats.dlaplace(step).var())


def test_divergences_and_tails_by_another_way() -> None:
    """By the laws of two Poisson numbers, convolved."""
    epsilon, scale = 1.0, 10.0
    step = int(np.ceil(scale * epsilon * np.sqrt(USERS)))
    mean = (step / epsilon) ** 2 / 2
    some = np.arange(round(mean - 12 * np.sqrt(mean)), round(mean + 12 * np.sqrt(mean)))
    poisson = stats.poisson.pmf(some, mean)
    distribution = np.convolve(poisson, poisson[::-1])
    far = np.pad(np.log(distribution), step, constant_values=-np.inf)
    first, second = far[step:], far[:-step]
    seen = np.isfinite(first) & np.isfinite(second)
    shares = [
        special.logsumexp(a * first[seen] + (1 - a) * second[seen]) / (a - 1) / skellam_renyi(a, epsilon, scale)
        for a in (2, 4, 8)
    ]
    assert renyi_share(epsilon, scale) == pytest.approx(max(shares), rel=1e-6)
    beyond = []
    for variance in (0.5, 4.0, 64.0, 1024.0):
        k = np.arange(4000)
        for p in (0.5, 0.1, 1e-3, 1e-6):
            bound = 2 * np.sqrt(variance * np.log(2 / p)) + np.sqrt(2) * np.log(2 / p)
            beyond.append(2 * special.ive(k[k > bound], variance).sum() / p)
    assert skellam_tail_share() == pytest.approx(max(beyond), rel=1e-6)
