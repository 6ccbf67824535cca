"""The main kernels of two versions of the package, in turns: `python benchmarks/kernels.py OTHER_PYTHON OTHER_KERNELS`.

One process for each version holds its worlds ready. The parent asks them in turn (A B B A) for one timed call of a
kernel, so that whatever slows the machine slows both, and starts new processes a few times. `OTHER_KERNELS` is this
file as it stood in the other version, or one that serves the same names.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS, REPEATS = 5, 8


def kernels() -> dict[str, Callable[[], object]]:
    """A name, and a call of 10 to 200 ms."""
    import gymnasium
    import numpy as np

    import taciturn
    from taciturn import envs, policies
    from taciturn.privacy.randomized_response import BitwiseRandomizedResponse

    # Instances are named, since the work depends on them and a default may differ between versions.
    gossip, gossip_steps = (
        envs.gossip_bandit_v0.population(replicas, num_agents=400, qualities=(0.95, 0.65, 0.35, 0.05))
        for replicas in (300, 1)
    )

    def step_gossip() -> None:
        gossip_steps.reset(seed=0)
        policy = policies.PPCL()
        policy.reset(gossip_steps, gossip_steps.stream("policy"))
        for _ in range(200):
            gossip_steps.step(policy.act(gossip_steps.observe()))

    social = envs.social_bandit_v0.population(
        1,
        num_agents=10_000,
        copies=500,
        qualities=tuple(np.linspace(0.9, 0.1, 20)),
        dissemination="aggregated",
        horizon=100,
    )
    federated = envs.federated_bandit_v0.population(20, num_agents=50, num_arms=100, horizon=100_000, qualities="grid")
    ucb = envs.federated_bandit_v0.population(1, num_agents=50, num_arms=100, horizon=1000, qualities="grid")
    instance: dict[str, Any] = {"theta": (0.4, 0.3, 0.2, 0.1), "target": 1.0}
    campaign = envs.elicitation_v0.population(1, num_individuals=100_000, horizon=1000, **instance)
    players: dict[str, Any] = {"platform": policies.Wintall(), "individual": policies.TargetQuality()}

    def step_campaign() -> None:
        campaign.reset(seed=0)
        for _ in range(5):
            campaign.step({"platform": campaign.default_action("platform")})
            campaign.step({"individual": np.ones((1, 100_000, 1), np.float32)})

    stopping = envs.round_stopping_v0.population(10_000, horizon=1000.0, objective="rate")

    def step_arrays() -> None:
        stopping.reset(seed=0)
        for _ in range(60):
            stopping.step(np.ones((10_000, 1), np.int64))

    instance = {"qualities": (0.9, 0.7, 0.5, 0.3, 0.1)}
    crowd = envs.social_bandit_v0.parallel_env(num_agents=1000, dissemination="stationary", copies=5, **instance)
    few = envs.federated_bandit_v0.parallel_env(num_agents=10, num_arms=5, horizon=1000, qualities="grid")

    def step_parallel(env: Any, action: object, steps: int) -> None:
        env.reset(seed=0)
        actions = dict.fromkeys(env.possible_agents, action)
        for _ in range(steps):
            env.step(actions)

    single = gymnasium.make("taciturn/RoundStopping-v0", objective="rate")

    def step_single() -> None:
        single.reset(seed=0)
        for _ in range(200):
            single.step(1)

    def simulate(world: Any, policy: Any, **options: Any) -> Callable[[], object]:
        return lambda: taciturn.simulate(world, policy, seed=0, **options)

    flips = {"preference": BitwiseRandomizedResponse(3.0)}
    return {
        "gossip, jumps": simulate(gossip, policies.PPCL(), until=20.0, privacy=flips),
        "gossip, steps": step_gossip,
        "social round, 10,000 agents": simulate(social, policies.PrivateSocialLearning(), until=10, privacy="paper"),
        "CDPMAB": simulate(federated, policies.CDPMAB(), privacy="paper"),
        "UCB1, 1,000 steps": simulate(ucb, policies.UCB1()),
        "campaign of 100,000, by law": simulate(campaign, players, until=5),
        "campaign of 100,000, by messages": step_campaign,
        "array step, 10,000 replicas": step_arrays,
        "parallel view, 1,000 agents": lambda: step_parallel(crowd, np.array([0, 0, 1]), 20),
        "parallel view, 10 agents": lambda: step_parallel(few, 0, 100),
        "single step": step_single,
    }


def serve() -> None:
    """Time one call of each kernel whose name comes in, in seconds."""
    ready = kernels()
    for line in sys.stdin:
        started = time.process_time()
        ready[line.strip()]()
        print(time.process_time() - started, flush=True)


class Version:
    """A process that runs one version."""

    def __init__(self, python: str, kernels: str) -> None:
        self.process = subprocess.Popen(
            [python, kernels, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, name: str) -> float:
        assert self.process.stdin
        assert self.process.stdout
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    from common import record

    names = list(kernels())
    ratios: dict[str, list[float]] = {name: [] for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):  # a process may be slow for its whole life: where its arrays happen to lie
        other, this = Version(*sys.argv[1:3]), Version(sys.executable, __file__)
        for name in names:
            for version in (other, this):  # the first call compiles and fills caches
                version.seconds(name)
            pairs = [[version.seconds(name) for version in (other, this, this, other)] for _ in range(REPEATS)]
            ratios[name].append(statistics.median((b + c) / (a + d) for a, b, c, d in pairs))
            times[name] += [(b + c) / 2 for _, b, c, _ in pairs]
        for version in (other, this):
            version.process.terminate()
    rows = {
        name: {
            "ms": round(1e3 * statistics.median(times[name]), 2),
            "ratio": round(statistics.median(ratios[name]), 3),
            "range": [round(min(ratios[name]), 3), round(max(ratios[name]), 3)],
        }
        for name in names
    }
    for name, row in rows.items():
        print(f"{name:34s} {row['ms']:8.2f} ms, {row['ratio']:.3f} {row['range']} times the other version's")
    record("kernels", {"rounds": ROUNDS, "repeats": REPEATS, "kernels": rows})


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
