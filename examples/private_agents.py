"""A PettingZoo loop with a privacy layer: what an agent hears, what its answers cost it, and whether the mechanism's claim holds."""

from typing import Any

import numpy as np

from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core import Array
from taciturn.wrappers import BitwiseRandomizedResponse, Budget, Privatize, audit

noise = BitwiseRandomizedResponse(epsilon=3.0)
env = gossip_bandit_v0.env(num_agents=20, qualities=(0.9, 0.5, 0.1), horizon=15.0)
env = Privatize(env, channel="preference", mechanism=noise, budget=Budget(600.0))
env.reset(seed=0)
population = env.unwrapped.population
layout = population.roles["agent"].layout

# Whoever's clock ticks hears everyone's noisy answers, and pulls the option that seems most popular, unless it is content with its own.
for _ in env.agent_iter():
    observation, _, terminated, truncated, _ = env.last()
    if terminated or truncated:
        env.step(None)
        continue
    heard = layout.unpack(observation)
    popularity = (heard["counts"] - heard["q"]) / (1 - 2 * heard["q"])
    content = (heard["own"] * popularity).sum() >= 5 / 6
    option = 3 if content else popularity.argmax()
    env.step(np.array([option, 0, 1]))  # take it up if its signal is 1, not if it is 0

print(f"{population.metrics()['best'].mean():.0%} of the agents prefer the best option")
spent = population.ledger.table(delta=1e-5)[0]
print(
    f"each answered {spent['messages_max']} times, until its budget was spent: epsilon {spent['epsilon_per_message']:g} an answer"
)
print(
    f"in all {spent['basic_max']:.0f} as a sum, {spent['zcdp_max']:.0f} by zCDP, {spent['rdp_max']:.0f} by Renyi composition"
)

messages = np.array([1, 0, 0]), np.array([0, 1, 0])
settings: dict[str, Any] = {"pair": messages, "trials": 50_000, "confidence": 0.999, "claimed": 3.0}
print(audit(noise, name="as claimed", **settings).table())


def half_forgotten(x: Array, rng: np.random.Generator, trials: int) -> Array:
    """Each bit kept with e^epsilon, where e^(epsilon/2) would be right: two bits of the vector differ."""
    return BitwiseRandomizedResponse(epsilon=6.0).perturb(np.tile(x, (trials, 1)), rng)


print(audit(half_forgotten, name="half of epsilon forgotten", **settings).table())
