"""Bring data of your own: play policies in a simulator fitted to ratings, and judge them on the log of a bandit."""

import tempfile
from pathlib import Path

import numpy as np

import taciturn
from taciturn.envs import recommender_v0
from taciturn.logged import evaluate, fit_ratings, read_bandit
from taciturn.policies import LinUCB, Random, TPriDO

# A few thousand ratings in the shape of MovieLens stand for a file of yours; users have tastes in two dimensions.
rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
tastes, kinds = rng.standard_normal((80, 2)), rng.standard_normal((30, 2))
rows = ["userId,movieId,rating,timestamp"]
for time in range(6000):
    user, item = rng.integers(80), rng.integers(30)
    likes = rng.random() < 1 / (1 + np.exp(-2 * tastes[user] @ kinds[item]))
    rows.append(f"{user},{item},{rng.integers(4, 6) if likes else rng.integers(1, 4)},{time}")
(folder / "ratings.csv").write_text("\n".join(rows), encoding="utf-8")

simulator = fit_ratings(folder / "ratings.csv")
print(simulator)
env = recommender_v0.population(4, family=simulator, num_agents=3, graph="complete")
for policy in (Random(), TPriDO(), LinUCB("shared")):
    run = taciturn.simulate(env, policy, seed=0, until=100)
    print(f"{type(policy).__name__:8} expected reward {run.metrics['expected_reward'].mean():.3f} in the simulator")

# And a log of a bandit that drew its actions with known propensities.
lines = ["item_id,click,propensity_score,context_0,context_1"]
for x in rng.random((1500, 2)):
    propensities = np.array([0.5, 0.3, 0.2])
    action = rng.choice(3, p=propensities)
    click = rng.random() < (0.3, x[0], x[1])[action]
    lines.append(f"{action},{int(click)},{propensities[action]},{x[0]},{x[1]}")
(folder / "log.csv").write_text("\n".join(lines), encoding="utf-8")
log = read_bandit(folder / "log.csv")
print(log)
for policy in (Random(), LinUCB("disjoint")):
    for value in evaluate(log, policy):
        print(
            f"{type(policy).__name__:8} {value.estimator:6} {value.value:.3f} [{value.low:.3f}, {value.high:.3f}], "
            f"effective sample size {value.effective:.0f} of {value.rows} rows"
        )
