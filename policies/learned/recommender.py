"""A small neural bandit for `recommender_v0`: a network of contexts and items with a last layer that is learned
online."""

from itertools import pairwise
from typing import Any

import numpy as np

from taciturn.envs.core import PublicView, integer, number
from taciturn.envs.recommender.rewards import ITEM_DIMS
from taciturn.policies.base import Learner, Random
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.policies.learned.training import learning, library_seed, one_thread
from taciturn.validation import Bools, Floats, Ints, missing_extra

WORLDS_FOR = 25  # training steps with the same practice environments


class NeuralBandit(ItemPolicy, Learner):
    """Thompson sampling on the last layer of a network, which is trained in practice environments.

    The network maps a context and an item to features phi, and the mean reward is modelled as w'phi. Each agent
    independently learns w online, from its own feedbacks, by Bayesian linear regression, draws one w from the posterior
    in every round, and shows the item with the highest w'phi ("neural linear", Riquelme et al.). Beforehand, gradient
    steps train phi and the prior of w: after any number of random feedbacks in a practice environment the posterior
    should predict the other feedbacks well (Harrison et al.). Practice environments do not show the instance of the
    run, and the network does not change during a run.

    Args:
        steps: gradient steps of training, each on a fresh part of `num_envs` practice environments; 0: the network
            keeps its initial weights, and all learning is online.
        hidden, features: units of the two hidden layers; the second gives phi.
        learning_rate: learning rate of Adam, falling linearly to 0.
        num_envs: number of parallel practice environments, each with one agent.
        rounds: random rounds played in each of them.
        explore: >= 0, a factor on the posterior's standard deviation; 0: show the item with the highest expected
            reward.
        seed: seed of all randomness in training.

    The defaults were chosen by hand, in runs outside all studies. `history` holds the mean squared error of
    predictions, in units of reward squared, averaged over the gradient steps with the same practice environments. With
    a mechanism on `selection`, scores are clipped to [0, 1], so their sensitivity is 1, and passed through it. The
    policy asks no neighbours.

    Source:
        Riquelme, Tucker and Snoek (2018), Deep Bayesian bandits showdown; Harrison, Sharma and Pavone (2018),
        Meta-learning priors for efficient online Bayesian regression (ALPaCA).
    """

    def __init__(
        self,
        steps: int = 500,
        *,
        hidden: int = 64,
        features: int = 64,
        learning_rate: float = 0.01,
        num_envs: int = 64,
        rounds: int = 256,
        explore: float = 0.3,
        seed: int = 0,
    ) -> None:
        self.steps, self.rounds = integer("steps", steps, at_least=0), integer("rounds", rounds, at_least=2)
        self.hidden, self.features = integer("hidden", hidden, at_least=1), integer("features", features, at_least=1)
        self.learning_rate = number("learning_rate", learning_rate, above=0)
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.explore = number("explore", explore, at_least=0)
        self.seed = integer("seed", seed, at_least=0)
        self.history: list[float] = []
        self._learned: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {"role", "_learned"}
        return {k: v for k, v in super().__getstate__().items() if not k.startswith("_") or k in kept}

    # Training.

    @one_thread()
    def fit(self, view: PublicView) -> None:
        """Train in practice environments like `view`."""
        import torch

        dims, steps = view.params.context_dim, self.steps
        rng = torch.Generator().manual_seed(library_seed(self.seed))
        sizes = [dims + ITEM_DIMS, self.hidden, self.features]
        p = {"prior": torch.zeros(sizes[-1]), "scale": torch.zeros(sizes[-1]), "noise": torch.tensor(0.4).log()}
        for k, (wide, out) in enumerate(pairwise(sizes)):
            p[f"weight{k}"] = torch.randn(wide, out, generator=rng) * (2 / wide) ** 0.5
            p[f"bias{k}"] = torch.randn(out, generator=rng) * 0.5
        for x in p.values():
            x.requires_grad_()
        optimiser = torch.optim.Adam(list(p.values()), lr=self.learning_rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(1 - step / max(steps, 1), 0.0))
        world = view.practice(self.num_envs, num_agents=1, graph="none", growth=(), horizon=self.rounds)
        self.history, errors = [], []
        with learning(type(self).__name__, lambda: p):
            for step in range(steps):
                if step % WORLDS_FOR == 0:
                    x, y = self._practice(world, self.seed if step == 0 else None)
                    order = torch.rand(y.shape, generator=rng).argsort(1)
                else:
                    order = order.roll(y.shape[1] // WORLDS_FOR + 1, 1)
                known = int(y.shape[1] ** torch.rand((), generator=rng)) - 1
                mixed = order[..., None].expand(x.shape)
                loss, error = _surprise(p, x.gather(1, mixed), y.gather(1, order), known)
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
                optimiser.step()
                plan.step()
                errors.append(error)
                if (step + 1) % WORLDS_FOR == 0 or step + 1 == steps:
                    self.history.append(float(np.mean(errors)))
                    errors = []
                    if self.progress is not None:
                        self.progress((step + 1) / steps)
        self._learned = {name: x.detach() for name, x in p.items()}

    def _practice(self, world: Any, seed: int | None) -> tuple[Any, Any]:
        """Contexts and items [B, n, d + 5] and feedbacks [B, n] of a run of random play in fresh environments."""
        import torch

        world.reset(seed=seed)
        player, inputs, likes = Random(), [], []
        player.reset(world, world.stream("policy"))
        where = world.roles[player.role].layout.slices["context"]
        items, replica = world.view().catalogue()[0], np.arange(world.num_envs)[:, None]
        while not world.done.any():
            obs = world.observe()
            action = player.act(obs, world.action_mask(player.role))
            shown = items[replica, action % items.shape[1]]
            inputs.append(np.concatenate([obs[..., where], shown], -1))
            likes.append(world.step(action).reward)
        x, y = np.concatenate(inputs, 1), np.concatenate(likes, 1)
        return torch.as_tensor(2 * x - 1, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32)

    # A run.

    public_schedule = True

    def begin(self, view: PublicView) -> None:
        if self._learned is None:
            try:
                self.fit(view)
            except ModuleNotFoundError as error:
                raise missing_extra("NeuralBandit needs torch", "rl") from error
        assert self._learned is not None
        if len(self._learned["weight0"]) != view.params.context_dim + ITEM_DIMS:
            trained = len(self._learned["weight0"]) - ITEM_DIMS
            raise ValueError(
                f"NeuralBandit was trained on contexts of {trained} dimensions, and {view.name} has "
                f"{view.params.context_dim}"
            )
        mechanism = view.channels["selection"].mechanism
        self._noisy_selection = mechanism is not None and mechanism.kind != "none"
        super().begin(view)

    @one_thread()
    def start(self, fresh: Bools) -> None:
        import torch

        p = self._learned
        assert p is not None
        precision, prior = np.exp(p["scale"].numpy().astype(np.float64)), p["prior"].numpy().astype(np.float64)
        if fresh.all():
            shape = (*self._shape[:2], len(prior))
            self._precision, self._weighted = np.zeros((*shape, len(prior))), np.zeros(shape)
        self._precision[fresh], self._weighted[fresh] = np.diag(precision), precision * prior
        items = torch.as_tensor(2 * self._items - 1, dtype=torch.float32)
        # The items' part of the first layer is the same in every round.
        self._of_items = items @ p["weight0"][-ITEM_DIMS:] + p["bias0"]

    @one_thread()
    def phi(self, contexts: Floats, of_items: Any) -> Floats:
        """Features [..., n, m] of items in contexts [..., d]; `of_items` [..., n, hidden] is the items' part of the
        first layer."""
        import torch

        p = self._learned
        assert p is not None
        ahead = torch.as_tensor(2 * contexts - 1, dtype=torch.float32) @ p["weight0"][:-ITEM_DIMS]
        hidden = torch.relu_(ahead[..., None, :] + of_items)
        found: Floats = torch.tanh_(hidden @ p["weight1"] + p["bias1"]).numpy()
        return found

    def choose(self, contexts: Floats) -> Ints:
        assert self._learned is not None
        mean = np.linalg.solve(self._precision, self._weighted[..., None])
        luck = self.rng.standard_normal(mean.shape)
        # If L L' is the precision, then L'^-1 luck has its inverse as covariance.
        spread = np.linalg.solve(np.swapaxes(np.linalg.cholesky(self._precision), -1, -2), luck)
        deviation = self.explore * float(self._learned["noise"].exp())
        w = (mean + deviation * spread).astype(np.float32)
        score = np.full(self._shape, -np.inf)
        for b in range(self._shape[0]):
            for agent in range(self._shape[1]):
                own = np.flatnonzero(self._have[b, agent])
                score[b, agent, own] = (self.phi(contexts[b, agent], self._of_items[b, own]) @ w[b, agent])[:, 0]
        if not self._noisy_selection:
            return self.best(score)
        chosen = self._view.select(np.clip(score, 0, 1), self._have, np.ones((1, 1, 1)))
        # If the selection was lost, show a random item.
        return np.where(chosen >= 0, chosen, self.best(np.zeros(self._shape)))

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        replica = np.arange(self._shape[0])[:, None]
        phi = self.phi(contexts, self._of_items[replica, items][:, :, None])[:, :, 0] * real[..., None]
        self._precision += phi[..., None] * phi[..., None, :]
        self._weighted += likes[..., None] * phi


def _surprise(p: dict[str, Any], x: Any, y: Any, known: int) -> tuple[Any, float]:
    """The loss of the posterior after the first `known` of the records x [B, n, d + 5], y [B, n] on the others.

    Returns:
        The mean of -ln p(y) (without its constant), with its gradient, and the mean squared error.
    """
    import torch

    phi = torch.tanh(torch.relu(x @ p["weight0"] + p["bias0"]) @ p["weight1"] + p["bias1"])
    before, after = phi[:, :known], phi[:, known:]
    precision = torch.diag(p["scale"].exp()) + before.mT @ before
    weighted = p["scale"].exp() * p["prior"] + (before.mT @ y[:, :known, None])[..., 0]
    factor = torch.linalg.cholesky(precision)
    mean = torch.cholesky_solve(weighted[..., None], factor)
    spread = torch.linalg.solve_triangular(factor, after.mT, upper=False).square().sum(1)
    variance = (2 * p["noise"]).exp() * (1 + spread)
    squared = (y[:, known:] - (after @ mean)[..., 0]).square()
    return (variance.log() + squared / variance).mean() / 2, float(squared.mean().detach())
