"""A PettingZoo loop with privacy: agents learn from noisy answers, the accountant adds up their cost, the auditor tests
the mechanism."""

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

# The agent whose clock ticks sees the sums of everyone's noisy answers. It pulls the option that seems most popular,
# unless it is content with its own.
for _ in env.agent_iter():
    observation, _, terminated, truncated, _ = env.last()
    if terminated or truncated:
        env.step(None)
        continue
    heard = layout.unpack(observation)
    popularity = (heard["counts"] - heard["q"]) / (1 - 2 * heard["q"])
    content = (heard["own"] * popularity).sum() >= 5 / 6
    option = 3 if content else popularity.argmax()
    env.step(np.array([option, 0, 1]))  # adopt it if its signal is 1, but not if it is 0

print(f"{population.metrics()['best'].mean():.0%} of the agents prefer the best option")
spent = population.accountant.table(delta=1e-5)[0]
print(
    f"up to {spent['messages_max']} answers each, until the budget was spent, with epsilon "
    f"{spent['epsilon_per_message']:g} per answer"
)
print(
    f"total epsilon: {spent['basic_max']:.0f} by basic composition, {spent['zcdp_max']:.0f} by zCDP, "
    f"{spent['rdp_max']:.0f} by Renyi"
)

messages = np.array([1, 0, 0]), np.array([0, 1, 0])
settings: dict[str, Any] = {"pair": messages, "trials": 50_000, "confidence": 0.999, "claimed": 3.0}
print(audit(noise, name="correct", **settings).table())


def half_the_noise(x: Array, rng: np.random.Generator, trials: int) -> Array:
    """A common mistake: each bit gets the whole epsilon, although two bits of a one-hot vector change."""
    return BitwiseRandomizedResponse(epsilon=6.0).perturb(np.tile(x, (trials, 1)), rng)


print(audit(half_the_noise, name="too little noise", **settings).table())
