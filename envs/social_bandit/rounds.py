"""The fast form of the social bandit: rounds of agents that follow a `SocialRule`, drawn for all agents at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core.preferences import count_holders
from taciturn.envs.core.public import Fast
from taciturn.envs.core.states import updated
from taciturn.envs.social_bandit.dissemination import pick_tokens
from taciturn.validation import Bools, Floats, Ints


@dataclass(frozen=True)
class SocialRule(Fast):
    """The behaviour of agents without memory in stages 3 and 4.

    Args:
        p: probability, assumed by the estimate (equation 7 of Tao et al.), that a bit is read as 1 if it is 1.
        q: the same if it is 0.
        beta: probability of adopting an option whose signal is 1 (equation 9).
        alpha: the same if it is 0.
        mu: probability of a uniformly random option (equation 13).
        uniform: whether an agent whose estimate is 0 everywhere tries a random option; otherwise it tries none.
    """

    p: float
    q: float
    beta: float
    alpha: float
    mu: float
    uniform: bool


def cumulative_weights(drawn: Floats, q: float) -> Floats:
    """Running sums over options of max(B / V - q, 0), [K, N], from V and B in `drawn` [1 + K, N], which is overwritten.

    In proportion, these are the cumulative distributions of equation 8 of Tao et al.
    """
    edges = drawn[1:]
    edges /= np.maximum(drawn[0], 1)
    edges -= q
    np.maximum(edges, 0, out=edges)
    for k in range(1, len(edges)):
        edges[k] += edges[k - 1]
    return edges


def play_round(world: Any, state: Any, rule: SocialRule, live: Bools, sent: Ints) -> Any:
    """The state after all four stages in the replicas `live` [B]; adds the messages to `sent` [B, N]."""
    p, size, options, rng = world.params, world.num_envs, world.num_options, world.stream("rounds")
    holders = count_holders(state.preference, options)
    phi = world.stream("signals").random((size, options)) < state.qualities
    adoption = np.concatenate([np.where(phi, rule.beta, rule.alpha), np.zeros((size, 1))], axis=1)
    preference = np.full_like(state.preference, options)
    speaks = (state.preference < options) | world.zeros
    for b in np.flatnonzero(live):
        sent[b] += (p.copies if p.perturbation == "per_token" else 1) * speaks[b]
        option = options_to_try(world, state.preference[b], holders[b], rule, rng)
        adopts = rng.random(p.num_agents) < adoption[b, option]
        preference[b, adopts] = option[adopts]
    share = holders / np.maximum(holders.sum(1, keepdims=True), 1)
    return updated(
        state,
        preference=preference,
        signals=phi.astype(np.float64),
        total_reward=state.total_reward + (share * phi).sum(1),
        expected_reward=state.expected_reward + np.vecdot(share, state.qualities),
        hops=state.hops + speaks.sum(1).astype(np.float64) * p.copies * p.walk_length * world.mobility,
        time=state.time + 1,
    )


def options_to_try(world: Any, preference: Ints, holders: Ints, rule: SocialRule, rng: np.random.Generator) -> Ints:
    """Stages 1 to 3 of one society: the options that its agents try, [N] (K: none), given their preferences [N] and D_j
    [K].

    Without noise, an agent tries the option of a random received copy that names one; `pick_tokens` draws these exactly
    for all agents at once.
    """
    p, channel, options = world.params, world.channels["preference"], world.num_options
    if rule.p == 1 and rule.q == 0 and world.noiseless:
        option = pick_tokens(holders * p.copies, p.num_agents, rng)
    else:
        senders = preference if world.zeros else preference[preference < options]
        vectors = senders[:, None] == np.arange(options)
        if p.perturbation == "per_round" and not world.noiseless:
            vectors = channel.config.mechanism.perturb(vectors, channel.rng)
        edges = cumulative_weights(world.spread_uniformly(vectors), rule.q)
        point = rng.random(p.num_agents) * edges[-1]
        option = np.minimum((edges <= point).sum(0), options - 1)
        option[edges[-1] <= 0] = options
    explores = rng.random(p.num_agents) < rule.mu
    if rule.uniform:
        explores |= option == options
    option[explores] = rng.integers(0, options, int(explores.sum()))
    return option
