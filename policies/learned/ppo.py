"""Proximal policy optimisation on a population's arrays, written to be read from top to bottom.

A rollout holds whole runs of all parallel environments as arrays [T, B, rows]. One network acts for all agents
(`NetworkAgent`). Each agent's decisions are evaluated along its own turns, whatever the other agents do between them,
and by the practice instance's lesson to the trainer (`Hooks.lesson`), which the acting network never sees. The update
follows Schulman et al. 2017, with a critic that sees the truth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, Streams, integer, number
from taciturn.policies.learned.agents import NetworkAgent
from taciturn.policies.learned.networks import Decisions, forward, new_weights
from taciturn.policies.learned.training import FadingMean, learning, one_thread
from taciturn.validation import Bools, Floats, Ints, missing_extra

FIRST = 50
"""Most rollouts used to estimate the variance of features."""
CHUNK = 65_536
"""Number of decisions evaluated together."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training.

    Attributes:
        num_envs: parallel environments, B.
        turns: turns of a rollout; the environments then play on; None: whole runs, as agents with memory need.
        width: units of both hidden layers.
        epochs: passes over a rollout.
        batch: decisions in a step of the optimiser.
        learning_rate: initial learning rate of the actor; it falls linearly.
        critic_rate: learning rate of the critic.
        gamma: discount per turn of the agent.
        lam: lambda of the advantages.
        entropy: initial weight of the entropy; it is 0 in the last tenth of the training.
        clip: largest deviation of a probability ratio from 1.
        keep: share of the decisions used for learning.
        kl_stop: the divergence from the acting policy at which the actor's epochs end.
        memory: memory of the mean of the last weights, which is the result (`FadingMean`).
    """

    num_envs: int = 300
    turns: int | None = None
    width: int = 16
    epochs: int = 3
    batch: int = 4096
    learning_rate: float = 4e-3
    critic_rate: float = 2e-3
    gamma: float = 1.0
    lam: float = 0.9
    entropy: float = 0.01
    clip: float = 0.2
    keep: float = 0.5
    kl_stop: float = 0.03
    memory: float = 0.05

    def __post_init__(self) -> None:
        for name in ("num_envs", "width", "epochs", "batch"):
            integer(name, getattr(self, name), at_least=1)
        if self.turns is not None:
            integer("turns", self.turns, at_least=1)
        for name in ("learning_rate", "critic_rate", "clip", "keep", "kl_stop", "memory"):
            number(name, getattr(self, name), above=0)
        for name in ("gamma", "lam"):
            number(name, getattr(self, name), at_least=0, at_most=1)
        number("entropy", self.entropy, at_least=0)


class Rollout(NamedTuple):
    """Decisions of T turns in B environments; R = T B rows."""

    seen: Decisions  # decisions of all turns, [R, ...]; agents [T, B, rows]
    gaps: Array | None  # float32[R, K]: how much worse than the best each option is
    reward: Floats  # [T, B, rows]
    live: Bools  # [T, B]: environments not ended before the turn
    ends: Bools  # [T, B]: environments ended after it


def own_turn_advantages(
    values: Floats, rewards: Floats, live: Bools, ends: Bools, agents: Ints, after: Floats, gamma: float, lam: float
) -> Floats:
    """Generalised advantages (Schulman et al. 2016) along each agent's own turns, [T, B, rows].

    An agent's next value is the value of its own next decision in the run, whatever the other agents do in between.

    Args:
        values, rewards: values and rewards of the decisions, [T, B, rows].
        live: the environments that played the turn, [T, B]; decisions of the others have advantage 0.
        ends: the environments that ended their run with it, [T, B].
        agents: the deciding agents, int[T, B, rows].
        after: the value of each agent's state after the last turn, [B, N].
        gamma, lam: see `Settings`.
    """
    found = np.zeros_like(rewards)
    next_value, next_gain = after.copy(), np.zeros_like(after)
    b = np.arange(rewards.shape[1])[:, None]
    for t in range(len(rewards) - 1, -1, -1):
        next_value[ends[t]], next_gain[ends[t]] = 0.0, 0.0
        i, plays = agents[t], live[t][:, None]
        gain = rewards[t] + gamma * next_value[b, i] - values[t] + gamma * lam * next_gain[b, i]
        found[t] = np.where(plays, gain, 0.0)
        next_value[b, i] = np.where(plays, values[t], next_value[b, i])
        next_gain[b, i] = np.where(plays, gain, next_gain[b, i])
    return found


class PPO:
    """A training; `iterate` plays a rollout and learns from it. It can be pickled at any time, and then continues with
    the same numbers.

    Attributes:
        agent: acts with the newest weights.
        weights: the resulting weights, the mean of the newest ones.
        decisions: number of decisions learned from, or left out of a rollout by `keep`.
    """

    def __init__(self, view: PublicView, role: str, agent: NetworkAgent, settings: Settings, seed: int) -> None:
        try:
            import torch
        except ImportError as error:
            raise missing_extra("training a network needs torch", "rl") from error
        self.settings, self.agent, self.decisions = settings, agent, 0
        self._rng = Streams(seed, "training")["ppo"]
        self.world: Population[Any] = view.practice(settings.num_envs)
        self.world.reset(seed=int(self._rng.integers(2**31)))
        if len(self.world.roles) > 1:
            raise ValueError(f"env must have one role to be learned, not {list(self.world.roles)}")
        self._role = role
        agent.record = None
        agent.reset(self.world, self.world.stream("policy"), role)
        sizes, lesson = (agent.features.size, agent.features.common), self.world.lesson()
        told, width = 0 if lesson is None else 2, settings.width
        actor = new_weights(self._rng, *sizes, agent.head.outputs, width) | agent.head.extra
        critic = new_weights(self._rng, sizes[0] + told, sizes[1], 1, width, last=0.1)
        self._actor, self._critic = (
            {name: torch.from_numpy(np.array(x)).requires_grad_() for name, x in made.items()}
            for made in (actor, critic)
        )
        self._optimisers = [torch.optim.Adam(w.values(), eps=1e-6) for w in (self._actor, self._critic)]
        self._mean = FadingMean(settings.memory)
        self._scale = 0.0  # scale of values, after the first rollout
        self._share()
        self._observed = self.world.observe()
        if not agent.features.scaled:
            self._standardise()
        self.weights: dict[str, Array] = agent.weights

    def _share(self) -> None:
        """Let the agent act with the same arrays that the optimiser changes."""
        constants = {name: one for name, one in self.agent.weights.items() if name in ("shift", "scale", "wide")}
        self.agent.weights = {name: one.detach().numpy() for name, one in self._actor.items()} | constants

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._share()

    def _standardise(self) -> None:
        """Shift and scale features to mean 0 and variance 1, as measured in play with the first weights, over whole
        runs if these are not too long."""
        seen, over = list[Array](), False
        while not over and len(seen) < FIRST:
            rollout = self.play()
            seen.append(rollout.seen.option[:: max(1, len(rollout.seen.option) // 2000)])
            over = bool(rollout.ends.any())
        option = np.concatenate(seen)
        scale = 1 / np.maximum(option.std((0, 1)), self.agent.features.least)
        self.agent.weights |= {"shift": option.mean((0, 1)), "scale": scale.astype(np.float32)}
        self.agent.weights["wide"] = self.agent.features.wide.astype(np.float32)

    def iterate(self, done: float) -> dict[str, float]:
        """Play a rollout and learn from it, when a share `done` of the training is over; returns the mean reward, the
        divergence and the entropy."""
        with one_thread(), learning("PPO", lambda: self._actor):
            rollout = self.play()
            told = self._learn(rollout, done)
            weights = dict(self.agent.weights)
            fields = {name: weights.pop(name) for name in ("wide",) if name in weights}  # a mean of indices is none
            mean = self._mean.add(weights, done)
            self.weights = {name: one.astype(np.float32) for name, one in mean.items()} | fields
            return {"reward": float(rollout.reward[rollout.live].mean())} | told

    # A rollout.

    def play(self) -> Rollout:
        """Play whole runs from fresh instances, or `turns` more turns."""
        world, agent, turns = self.world, self.agent, self.settings.turns
        if turns is None:
            world.reset(seed=int(self._rng.integers(2**31)))
            agent.reset(world, world.stream("policy"), self._role)
            self._observed = world.observe()
        agent.record = []
        rewards, lives, ends = list[Floats](), list[Bools](), list[Bools]()
        lesson = world.lesson()
        gaps = None if lesson is None else lesson[0].astype(np.float32)
        while not world.done.all() if turns is None else len(rewards) < turns:
            live, seen = ~world.done, self._observed
            action = agent.act(seen, world.action_mask(self._role))
            step = world.step(action)
            ended = world.done
            rewards.append(self._reward(step.reward, gaps, agent.record[-1].agents))
            agent.update(seen, action, step.reward, ended | ~live)
            self._observed = step.observation
            if turns is not None and ended.any():
                world.reset(where=ended)
                agent.restart(ended)
                self._observed = world.observe()
            lives.append(live)
            ends.append(ended & live)
        record, agent.record = agent.record, None
        reward = np.stack(rewards)
        agents = np.stack([one.agents for one in record])
        option, common, choice = (
            np.concatenate([getattr(one, name) for one in record]) for name in ("option", "common", "choice")
        )
        mask = None if record[0].mask is None else np.concatenate([one.mask for one in record])
        if gaps is not None:
            gaps = np.broadcast_to(gaps[:, None, :-1], (*reward.shape, gaps.shape[1] - 1)).reshape(
                -1, gaps.shape[1] - 1
            )
        return Rollout(Decisions(option, common, choice, mask, agents), gaps, reward, np.stack(lives), np.stack(ends))

    def _reward(self, reward: Array, gaps: Array | None, agents: Ints) -> Floats:
        """Minus the gap of the option that each agent now has; without a lesson, the environment's reward."""
        if gaps is None:
            return np.asarray(reward, np.float64)
        lesson = self.world.lesson()
        assert lesson is not None
        b = np.arange(len(agents))[:, None]
        return -gaps[b, lesson[1][b, agents]].astype(np.float64)

    # Learning from it.

    def _value(self, data: Mapping[str, Any]) -> Any:
        """The critic's values [R] of decisions, divided by `_scale`; it sees the gaps, too."""
        import torch

        option = data["option"]
        if "gaps" in data:
            gaps = data["gaps"][..., None]
            option = torch.cat([option, gaps, gaps.sqrt()], -1)
        return forward(self._critic, option, data["common"])[..., 0].mean(1)

    def _judged(self, data: Mapping[str, Any]) -> tuple[Any, Any]:
        out = forward(self._actor, data["option"], data["common"])
        return self.agent.head.evaluated(out, self._actor, data["choice"], data.get("mask"))

    def _after(self, rollout: Rollout) -> Floats:
        """The value of each agent's state after the rollout, [B, N]: 0 after whole runs."""
        import torch

        shape = (self.settings.num_envs, self.world.roles[self._role].num_agents)
        if self.settings.turns is None or rollout.gaps is not None:
            return np.zeros(shape)
        agents = np.broadcast_to(np.arange(shape[1]), shape)
        option, common = self.agent.features.see(self._observed, agents)
        if "shift" in self.agent.weights:
            option = (option - self.agent.weights["shift"]) * self.agent.weights["scale"]
        given = {"option": torch.from_numpy(option), "common": torch.from_numpy(common)}
        return np.asarray(self._value(given).numpy().reshape(shape) * self._scale, np.float64)

    def _learn(self, rollout: Rollout, done: float) -> dict[str, float]:
        import torch

        s, seen = self.settings, rollout.seen
        given = {"option": seen.option, "common": seen.common, "choice": seen.choice, "mask": seen.mask}
        given |= {"gaps": rollout.gaps}
        data = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in given.items() if x is not None}
        rows = len(seen.option)
        with torch.no_grad():
            chunks = [{n: x[i : i + CHUNK] for n, x in data.items()} for i in range(0, rows, CHUNK)]
            values = torch.cat([self._value(one) for one in chunks]).numpy().reshape(rollout.reward.shape)
            old = torch.cat([self._judged(one)[0] for one in chunks])
            after = self._after(rollout)
        run = rollout.reward, rollout.live, rollout.ends, seen.agents, after, s.gamma
        if self._scale == 0:
            returns = own_turn_advantages(np.zeros_like(rollout.reward), *run, 1.0)
            self._scale = max(float(returns.std()), 1e-6)
        values = values.astype(np.float64) * self._scale
        gain = own_turn_advantages(values, *run, s.lam)
        target = torch.from_numpy(((gain + values) / self._scale).reshape(-1).astype(np.float32))
        chosen = np.flatnonzero(np.broadcast_to(rollout.live[..., None], gain.shape))
        self.decisions += chosen.size
        chosen = self._rng.permutation(chosen)[: max(1, int(s.keep * chosen.size))]
        gain = gain.reshape(-1)
        gain = (gain - gain[chosen].mean()) / (gain[chosen].std() + 1e-8)
        gains = torch.from_numpy(gain.astype(np.float32))
        for optimiser, rate in zip(self._optimisers, (s.learning_rate, s.critic_rate), strict=True):
            optimiser.param_groups[0]["lr"] = rate * max(1 - done, 0.02)
        return self._steps(data, gains, target, old, chosen, s.entropy * max(0.0, 1 - done / 0.9))

    def _steps(self, data: Any, gains: Any, target: Any, old: Any, chosen: Ints, weight: float) -> dict[str, float]:
        """The optimisers' steps: the clipped objective with an entropy term of that `weight`, and the critic's squared
        error."""
        import torch

        s, divergence, entropy = self.settings, 0.0, 0.0
        pieces = max(1, round(chosen.size / s.batch))
        stopped = False
        for _ in range(s.epochs):
            measured = []
            for part in np.array_split(self._rng.permutation(chosen), pieces):
                at = torch.from_numpy(part)
                batch = {name: x[at] for name, x in data.items()}
                if not stopped:
                    log, spread = self._judged(batch)
                    moved, gain = log - old[at], gains[at]
                    ratio = moved.exp()
                    clipped = ratio.clip(1 - s.clip, 1 + s.clip)
                    objective = torch.minimum(ratio * gain, clipped * gain).mean() + weight * spread.mean()
                    self._descend(0, -objective)
                    measured.append(float((ratio - 1 - moved).mean().detach()))
                    entropy = float(spread.mean().detach())
                self._descend(1, ((self._value(batch) - target[at]) ** 2).mean())
            if measured:
                divergence = float(np.mean(measured))
            stopped = stopped or divergence > s.kl_stop
        return {"divergence": divergence, "entropy": entropy}

    def _descend(self, which: int, loss: Any) -> None:
        """A step of the actor's (0) or the critic's (1) optimiser, with gradient norms clipped to 1."""
        import torch

        optimiser = self._optimisers[which]
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], 1.0)
        optimiser.step()
