"""UCB1 by 50 agents, 100 arms, 10,000 slots, here and in SMPyBandits, in turns within one process: `python
benchmarks/ucb_peer.py`.

The peer runs as leanly as it can be asked to: `loop` calls its policy and its arms for each agent and slot, and keeps
nothing else; `evaluator` is its own `Evaluator`, one environment, one policy, 50 repetitions, one job. Here, `simulate`
is `taciturn.simulate`, which plays slot by slot but packs no observations; `steps` is `Population.step` with what the
policy makes of the observation. All are timed from a made environment to the final regret.

The peer is optional: without it, only ours is timed. SMPyBandits 0.9.7 needs `scipy.special.btdtri`, which SciPy 1.14
dropped, so it lives in an environment of its own: `pip install . SMPyBandits "scipy<1.14" "numpy<2.3"`.
"""

import contextlib
import io
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from common import record

import taciturn
from taciturn.envs.federated_bandit.world import FederatedBandit, federated_bandit_v0
from taciturn.policies import UCB1

AGENTS, ARMS, SLOTS, REPEATS = 50, 100, 10_000, 5
MEANS = (np.arange(ARMS) + 0.5) / ARMS


def population() -> FederatedBandit:
    return federated_bandit_v0.population(num_agents=AGENTS, num_arms=ARMS, qualities="grid", horizon=SLOTS)


def simulate(seed: int) -> float:
    """Regret per agent."""
    return float(taciturn.simulate(population(), UCB1(), seed=seed).metrics["regret_per_agent"][0])


def steps(seed: int) -> float:
    env, policy = population(), UCB1()
    obs, _ = env.reset(seed=seed)
    policy.reset(env, np.random.default_rng(seed))
    for _ in range(SLOTS):
        obs = env.step(policy.act(obs)).observation
    return float(env.metrics()["regret_per_agent"][0])


def peers() -> dict[str, Callable[[int], float]]:
    """The ways to run the peer; none without it."""
    if find_spec("SMPyBandits") is None:
        print(__doc__.split("\n\n")[-1])
        return {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from SMPyBandits.Arms import Bernoulli
        from SMPyBandits.Environment import MAB, Evaluator
        from SMPyBandits.Policies import UCB

        bandit = MAB({"arm_type": Bernoulli, "params": MEANS.tolist()})
    settings = {
        "horizon": SLOTS,
        "repetitions": AGENTS,
        "n_jobs": 1,
        "verbosity": 0,
        "environment": [{"arm_type": Bernoulli, "params": MEANS.tolist()}],
        "policies": [{"archtype": UCB, "params": {}}],
    }

    def loop(seed: int) -> float:
        np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
        regret = 0.0
        for _ in range(AGENTS):
            policy = UCB(ARMS)
            policy.startGame()
            for slot in range(SLOTS):
                arm = policy.choice()
                policy.getReward(arm, bandit.draw(arm, slot))
            regret += float(policy.pulls @ (MEANS.max() - MEANS))
        return regret / AGENTS

    def evaluator(seed: int) -> float:
        np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            evaluation = Evaluator(settings, finalRanksOnAverage=False)
            evaluation.startOneEnv(0, evaluation.envs[0])
        return float(evaluation.getCumulatedRegret(0)[-1])

    return {"SMPyBandits loop": loop, "SMPyBandits evaluator": evaluator}


def main() -> None:
    theirs = peers()
    ways: dict[str, Callable[[int], float]] = {"taciturn simulate": simulate, "taciturn steps": steps} | theirs
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    regrets: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(REPEATS):
        for name, way in ways.items():
            begun = time.perf_counter()
            regrets[name].append(way(seed))
            seconds[name].append(time.perf_counter() - begun)
    times = {name: statistics.median(values) for name, values in seconds.items()}
    for name in ways:
        print(f"{name:22} {times[name]:7.3f} s   regret {statistics.mean(regrets[name]):.1f} per agent")
    ratios = {name: times[name] / times["taciturn simulate"] for name in theirs}
    for name, ratio in ratios.items():
        print(f"{name} takes {ratio:.1f} times as long as taciturn simulate")
    result = {
        "agents": AGENTS,
        "arms": ARMS,
        "slots": SLOTS,
        "seconds": times,
        "all_seconds": seconds,
        "mean_regret_per_agent": {name: statistics.mean(values) for name, values in regrets.items()},
        "ratio_to_simulate": ratios,
    }
    record("ucb_peer", result, ("taciturn", "numpy", "scipy", *(["SMPyBandits"] if theirs else [])))


if __name__ == "__main__":
    main()
