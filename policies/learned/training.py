"""How learners are trained: what they see of options to choose among, how they are paid, and on how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Layout, Population, PublicView
from taciturn.envs.social_bandit.world import SocialBandit, State

__all__ = ["Ranking", "ToldAtOnce", "names_agents", "one_thread", "practice"]


class Ranking:
    """Options by rank, so that what is learned cannot be which number the best one has.

    Each agent's options are put in the order of the first of `fields`, from the largest down, ties at random.

    Args:
        layout: of the observations.
        fields: those of its fields that list the options.

    An action is a plan whose first number is the option, or, flat, 4 option + (0 to 3); K, none, stays K.
    """

    def __init__(self, layout: Layout, fields: tuple[str, ...]) -> None:
        for name in fields:
            if name not in layout.slices:
                raise ValueError(
                    f"options must be fields of the observation ({', '.join(layout.slices)}), not {name!r}"
                )
        self._parts = [layout.slices[name] for name in fields]
        self._order = np.zeros((0, 0), np.int64)

    def observation(self, obs: Array, rng: np.random.Generator) -> Array:
        """[rows, D], the options in order."""
        first = obs[:, self._parts[0]]
        order = np.lexsort((rng.random(first.shape), -first), axis=-1)
        ranked = obs.copy()
        for part in self._parts:
            ranked[:, part] = np.take_along_axis(obs[:, part], order, 1)
        self._order = np.concatenate([order, np.full((len(obs), 1), order.shape[1])], 1)
        return ranked

    def action(self, action: Array) -> Array:
        """[rows, ...], with the numbers that options have in the world, by the order of the last observation."""
        if action.ndim == 1:
            rank, rest = np.divmod(action, 4)
            return 4 * np.take_along_axis(self._order, rank[:, None], 1)[:, 0] + rest
        return np.concatenate([np.take_along_axis(self._order, action[:, :1], 1), action[:, 1:]], 1)


class ToldAtOnce(SocialBandit):
    """Agents are paid as a round ends, by a fresh signal of the option that they now hold; who holds none, by the mean of those who do.

    So what a decision is worth is told at once, and the mean over agents is that of Q . eta, which equation 1 counts. Paid as the world
    pays, for holding, agents learn to take up whatever they try, and popularity then says nothing.
    """

    def transition(self, state: State, actions: dict[str, Array]) -> Any:
        new, _, terminated, truncated, info = super().transition(state, actions)
        holds = new.preference < self.num_options
        chances = np.append(self.params.eta, 0.0)[new.preference]
        pay = (self.stream("pay").random(holds.shape) < chances).astype(np.float64)
        mean = pay.sum(1, keepdims=True) / np.maximum(holds.sum(1, keepdims=True), 1)
        return new, {"agent": np.where(holds, pay, mean)}, terminated, truncated, info


def practice(view: PublicView, num_envs: int, overrides: dict[str, Any]) -> Population[Any]:
    """`PublicView.practice`; in place of `SocialBandit`, `ToldAtOnce`."""
    return view.practice(num_envs, ToldAtOnce if view.world is SocialBandit else None, **overrides)


def names_agents(params: Any) -> bool:
    """Whether parameters speak of single agents, so that there must be as many."""
    return getattr(params, "graph", "complete") != "complete" or not isinstance(
        getattr(params, "initial_preferences", ""), str
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread meanwhile: on more, networks this small take longer, and what they learn would depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
