"""Fast forms of elicitation: campaigns in which all individuals choose the same budget are played by their tallies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Acts, Fast
from taciturn.envs.elicitation import campaign
from taciturn.validation import Floats


@dataclass(frozen=True)
class CommonBudget(Fast):
    """All individuals take part with the same budget: `budget` maps the announced targets float64[B] to budgets
    float64[B] >= 0."""

    budget: Callable[[Floats], Floats]


class StandingAnnouncement(Fast):
    """The platform makes the same announcement in every campaign, so that it acts only once."""


def play_tallies(population: Any, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
    """Play whole campaigns of an `Elicitation` by drawing tallies: multinomial, since all individuals have one
    budget."""
    platform, channel = policies["platform"], population.channels["report"]
    common, standing = forms["individual"].budget, isinstance(forms["platform"], StandingAnnouncement)
    n, everywhere, constants = (
        population.params.num_individuals,
        np.ones(population.num_envs, np.bool_),
        population.constants(),
    )
    column, factors, action = population.column, population.column("factor").sum(1), None
    while column("campaign")[0] + 1 <= until and not population.done.all():
        if action is None or not standing:
            observed = population.look("platform")
            action = population.roles["platform"].check(platform.act(observed), (population.num_envs, 1))
        population.announce_all(action)
        budget = np.asarray(common(column("target")), np.float32).astype(np.float64)
        level, short = np.log1p(budget), np.maximum(column("desired") - budget, 0)
        column("budget")[...], column("level")[...] = budget[:, None], level[:, None]
        column("law")[...] = population.reporting.law(column("theta"), budget)
        population.apply(campaign.draw_tally, everywhere, constants, 1)
        if not constants.k_ary:
            population.judge(everywhere)
        sums = {
            "paid": 0.0,
            "cost": factors * population.cost(budget),
            "shortfall": n * short,
            "level": n * level,
            "joined": n,
        }
        for kind, name in enumerate(campaign.TOTALS):
            column("totals")[:, kind] = sums[name]
        population.apply(campaign.pay_tally, everywhere, constants, 1)
        channel.record(everywhere.astype(np.int64))
        if population.ledger is not None:
            population.ledger.charge_levels(channel.name, column("level"), kind=channel.chosen)
        population.truncated = column("campaign") >= population.params.horizon
        if not standing:
            platform.update(observed, action, column("reward")[:, :1].copy(), population.done)
