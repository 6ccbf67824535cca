"""PyTorch networks as policies: plain ones, TensorDict actors (TorchRL, BenchMARL), and RLlib's RLModules."""

import sys
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.policies.external.rows import RowFunction, RowPolicy
from taciturn.policies.learned.training import one_thread


def is_network(agent: Any) -> bool:
    """Whether `agent` is a `torch.nn.Module`, checked without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(agent, torch.nn.Module)


def of_network(network: Any) -> RowPolicy:
    """The policy of a `torch.nn.Module`."""
    if hasattr(network, "forward_inference"):
        return Module(network)
    return Actor(network) if hasattr(network, "in_keys") else Network(network)


class Scores(RowFunction):
    """A function that may also return scores of discrete actions: the highest score that the mask allows wins.

    It returns actions [R, ...], or a score of each action, [R, n] for Discrete and [R, n1 + n2 + ...] for MultiDiscrete
    actions; Box actions are clipped to the space.
    """

    def choose(self, rows: Array, masks: Array | None) -> Array:
        return self.decided(np.asarray(super().choose(rows, masks)), masks)

    def decided(self, found: Array, masks: Array | None) -> Array:
        """Actions from scores; raises ValueError if one is NaN."""
        if np.isnan(found).any():
            raise ValueError("policy must give numbers, and its network gives NaN")
        space: Any = self._space
        if isinstance(space, gymnasium.spaces.Box):
            return found.clip(space.low, space.high)
        sizes = [int(space.n)] if isinstance(space, gymnasium.spaces.Discrete) else space.nvec.tolist()
        if found.ndim != 2 or found.shape[1] != sum(sizes) or sum(sizes) == 1:
            return found
        allowed = found if masks is None else np.where(masks > 0, found, -np.inf)
        best = [one.argmax(1) for one in np.split(allowed, np.cumsum(sizes)[:-1], axis=1)]
        return np.stack(best, axis=1) + np.asarray(space.start)


class Network(Scores):
    """A plain network, from observations float32[R, D] to actions or scores (`Scores`), or to a tuple that begins with
    them."""

    def __init__(self, network: Any) -> None:
        super().__init__(evaluated(network))
        self.network = network

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.network).__name__})"


def evaluated(network: Any) -> Any:
    """A network as a function of arrays."""
    import torch

    @one_thread()
    def function(rows: Array) -> Array:
        with torch.no_grad():
            found = network(torch.as_tensor(rows))
            return np.asarray((found[0] if isinstance(found, tuple) else found).cpu())

    return function


class Actor(Scores):
    """A TensorDict actor, from the key "observation" to "action"; both may be in a group of agents, as in
    ("agents", "action").

    It acts without exploration. With a group it sees all agents of a replica together, [B, N, D], and needs the number
    of agents that it was made for; with a key "action_mask" it gets the masks. Memory, such as a recurrent network's,
    is not kept between steps.
    """

    def __init__(self, actor: Any) -> None:
        super().__init__(self._best)
        self.actor = actor.eval()
        self._seen, self._done, self._mask = (
            next((key for key in keys if np.atleast_1d(key)[-1] == name), None)
            for keys, name in (
                (actor.in_keys, "observation"),
                (actor.out_keys, "action"),
                (actor.in_keys, "action_mask"),
            )
        )
        if self._seen is None or self._done is None:
            raise ValueError(
                f'policy must be an actor from "observation" to "action", not from {actor.in_keys} to {actor.out_keys}'
            )
        self._masked = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.actor).__name__})"

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._batch = obs.shape[:1] if isinstance(self._seen, tuple) else (obs.shape[0] * obs.shape[1],)
        return super().act(obs, mask)

    @one_thread()
    def _best(self, rows: Array, masks: Array | None) -> Array:
        import torch
        from tensordict import TensorDict
        from tensordict.nn import InteractionType, set_interaction_type

        def batched(values: Array) -> Any:
            shape = (*self._batch, -1) if isinstance(self._seen, tuple) else self._batch
            return torch.as_tensor(values).reshape(*shape, values.shape[-1])

        given = TensorDict({}, batch_size=self._batch)
        given[self._seen] = batched(rows)
        if self._mask is not None and masks is not None:
            given[self._mask] = batched(masks.astype(np.bool_))
        with torch.no_grad(), set_interaction_type(InteractionType.DETERMINISTIC):
            found = self.actor(given)[self._done]
        return np.asarray(found).reshape(len(rows), *found.shape[len(self._batch) + isinstance(self._seen, tuple) :])


class Module(RowPolicy):
    """An RLModule of RLlib's new API stack, acting without exploration; a recurrent one keeps a state for each row.

    Args:
        module: the RLModule.
        normalized: whether its Box actions are numbers between -1 and 1, to be scaled to the Box: RLlib's
            `normalize_actions`, true by default.
    """

    def __init__(self, module: Any, *, normalized: bool = True) -> None:
        super().__init__((module.observation_space, module.action_space))
        self.module, self.normalized = module.eval(), normalized

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.module).__name__})"

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._state: Any = None
        self._everyone = view.num_envs * self._agents

    @one_thread()
    def choose(self, rows: Array, masks: Array | None) -> Array:
        import torch

        module, seen, remembers = self.module, torch.as_tensor(rows), self.module.is_stateful()
        given: dict[str, Any] = {"obs": seen}
        places = self.places() if remembers else None
        if remembers:
            import tree  # RLlib's tool for nested states

            if self._state is None:
                agents = len(rows) if places is None else self._everyone

                def for_each_agent(one: Any) -> Any:
                    return torch.as_tensor(one).expand(agents, *one.shape).clone()

                self._state = tree.map_structure(for_each_agent, module.get_initial_state())
            state = self._state if places is None else tree.map_structure(lambda one: one[places], self._state)
            given = {"obs": seen[:, None], "state_in": state}
        with torch.no_grad():
            out = module.forward_inference(given)
        if places is None:
            self._state = out.get("state_out")
        else:
            for kept, new in zip(tree.flatten(self._state), tree.flatten(out["state_out"]), strict=True):
                kept[places] = new
        if "actions" in out:
            found = out["actions"]
        else:
            distribution = module.get_inference_action_dist_cls()
            found = distribution.from_logits(out["action_dist_inputs"]).to_deterministic().sample()
        return self._in_space(np.asarray(found[:, 0] if remembers else found))

    def _in_space(self, found: Array) -> Array:
        space = self._space
        if not isinstance(space, gymnasium.spaces.Box):
            return found
        scaled = space.low + (found + 1) * (space.high - space.low) / 2 if self.normalized else found
        return scaled.clip(space.low, space.high)
