"""Fast forms of elicitation: campaigns in which all individuals choose the same budget are played by their tallies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Acts, Fast
from taciturn.validation import Floats

__all__ = ["CommonBudget", "StandingAnnouncement", "play_tallies"]


@dataclass(frozen=True)
class CommonBudget(Fast):
    """All individuals take part with one budget, which `budget` computes, float64[B] >= 0, from the announced targets float64[B]."""

    budget: Callable[[Floats], Floats]


class StandingAnnouncement(Fast):
    """The platform makes the same announcement in every campaign, so that it acts only once."""


def play_tallies(population: Any, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
    """Play whole campaigns of an `Elicitation` by drawing tallies: multinomial, since all individuals have one budget."""
    platform, channel = policies["platform"], population.channels["report"]
    common, standing = forms["individual"].budget, isinstance(forms["platform"], StandingAnnouncement)
    n, everyone = population.params.num_individuals, np.ones(population.num_envs, np.int64)
    cost, action = population.state.factor.sum(1), None
    while population.state.campaign[0] + 1 <= until and not population.done.all():
        if action is None or not standing:
            observed = population.observe_role(population.state, "platform")
            action = population.roles["platform"].check(platform.act(observed), (population.num_envs, 1))
        state = population.announced(population.state, action[:, 0])
        budget = np.asarray(common(state.target), np.float32).astype(np.float64)
        counts = population.stream("tallies").multinomial(n, population.reporting.law(state.theta, budget))
        prizes = population.judge(state, counts)
        paid = counts if (prizes.chance == 1).all() else population.stream("peers").binomial(counts, prizes.chance)
        level = np.log1p(budget)
        totals = {
            "paid": (paid * prizes.amount).sum(-1),
            "cost": cost * population.cost(budget),
            "shortfall": n * np.maximum(state.desired - budget, 0),
            "levels": n * level,
            "joined": n * everyone,
        }
        answers = np.broadcast_to(budget[:, None], state.budget.shape)
        population._state, reward, _ = population.settle(state, counts, prizes, totals, answers)
        channel.record(everyone)
        if population.ledger is not None:
            population.ledger.charge_levels(
                channel.name, np.broadcast_to(level[:, None], answers.shape), kind=channel.chosen
            )
        population.truncated = population._state.campaign >= population.params.horizon
        if not standing:
            platform.update(observed, action, reward[:, None], population.done)
