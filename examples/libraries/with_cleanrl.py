"""PPO in one file, as CleanRL writes it, on `gymnasium.make_vec`: the script steps a vector environment of Gymnasium.

Copy this script and change it, as you would a script of CleanRL. After the end of a run, Gymnasium's autoreset takes
one step (mode NEXT_STEP), which the script skips.
"""

import gymnasium
import numpy as np
import torch
from torch import distributions, nn

import taciturn
from taciturn.envs import round_stopping_v0

torch.manual_seed(0)
setting = {"horizon": 20.0}
# What matters:
envs = gymnasium.make_vec("taciturn/RoundStopping-v0", num_envs=16, **setting)
# So far.
size = envs.single_observation_space.shape[0]
layers = lambda n: nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n))  # noqa: E731
actor, critic = layers(int(envs.single_action_space.n)), layers(1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
seen, over = envs.reset(seed=0)[0], np.zeros(16, bool)
for _ in range(8):
    steps = []
    for _ in range(64):
        with torch.no_grad():
            rows = torch.as_tensor(seen)
            distribution, value = distributions.Categorical(logits=actor(rows)), critic(rows)[:, 0]
        action = distribution.sample()
        seen, reward, terminated, truncated, _ = envs.step(action.numpy())
        done = terminated | truncated
        steps.append((rows, action, distribution.log_prob(action), value, *map(torch.as_tensor, (reward, done, ~over))))
        over = done
    rows, action, before, value, reward, done, valid = map(torch.stack, zip(*steps, strict=True))
    with torch.no_grad():
        later, gain = critic(torch.as_tensor(seen))[:, 0], torch.zeros(16)
    gains = torch.zeros_like(value)
    for t in reversed(range(64)):
        gain = reward[t] - value[t] + 0.99 * ~done[t] * (later + 0.95 * gain)
        gains[t], later = gain, value[t]
    targets, valid = gains + value, valid.flatten().nonzero()[:, 0]
    for _ in range(10):
        for part in valid[torch.randperm(len(valid))].split(64):
            of = lambda values: values.flatten(0, 1)[part]  # noqa: B023, E731
            distribution, better = distributions.Categorical(logits=actor(of(rows))), of(gains)
            better = (better - better.mean()) / (better.std(correction=0) + 1e-8)  # a last part may have one row
            ratio = (distribution.log_prob(of(action)) - of(before)).exp()
            policy_loss = -torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
            value_loss = (critic(of(rows))[:, 0] - of(targets)).square().mean()
            loss = policy_loss + 0.5 * value_loss - 0.01 * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

# What matters:
for name, agent in (("network", actor), ("OptimalStopping", "OptimalStopping"), ("Random", "Random")):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), agent, seed=1)
    print(f"{name}: rate {run.metrics['rate'].mean():.4f}")
# So far.
