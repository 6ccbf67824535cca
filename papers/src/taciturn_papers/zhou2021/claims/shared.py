"""What the claims of Zhou et al. 2021 share: claims about every world, and the numbers that explain them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate
from taciturn_papers.claims import Claim, Range, along, group_of, steps_of
from taciturn_papers.zhou2021.settings import WORLDS, compared, named

REGRET, EARNED, SHARED = "regret", "expected_reward", "shared"
TITLES = {
    "one agent": "T-PriDO with one agent", "HCT": "Poo-Loc", "GaussLinUCB": "Gauss-LinUCB", "ItemUCB1": "UCB1",
    "TPriDO": "T-PriDO", "DTPriDO": "DT-PriDO",
}  # fmt: skip
OURS = ("TPriDO", "DTPriDO")


def title(policy: str) -> str:
    """The paper's name of a policy."""
    rival = policy.removesuffix(" without noise")
    return TITLES.get(rival, rival) + policy[len(rival) :]


def at(metric: str, part: int) -> str:
    """The name of an average metric until `part` sevenths of a run."""
    return f"{metric}_{part}" if part < 7 else {"reward": EARNED, "regret": REGRET}[metric]


def everywhere(
    statement: str,
    quote: str,
    stated: str,
    measure: Callable[[Results, Config], Sequence[Estimate]],
    ranges: Range | Sequence[Range],
    paper: float | Sequence[float],
    null: float,
    explanation: Callable[[Results], str] | str = "",
    labels: Sequence[str] = ("",),
    *,
    own: bool = False,
) -> Claim:
    """A claim that must hold in every world; `measure` gives the numbers of one world, and `labels` name them."""
    of_each = tuple(ranges) if isinstance(ranges, Sequence) else (ranges,) * len(labels)
    numbers = tuple(paper) if isinstance(paper, Sequence) else (paper,) * len(labels)
    return Claim(
        statement,
        quote,
        stated,
        lambda results: [x for world in WORLDS for x in measure(results, world)],
        of_each * len(WORLDS),
        numbers * len(WORLDS),
        null,
        explanation,
        tuple(named(world) + f": {label}" * bool(label) for world in WORLDS for label in labels),
        own,
    )


IN_ORDER = "(peak, bumps, linear, peak with d = 3, peak with d = 9)"  # `WORLDS`


def numbers(results: Results, config: Callable[[Config], Config], metric: str = EARNED) -> str:
    """Means in the order of the worlds: `0.51, 0.44, 0.93`."""
    return ", ".join(f"{group_of(results, config(world)).mean(metric):.3f}" for world in WORLDS)


def values(
    results: Results, of: Mapping[str, Callable[[Config], Config]], metric: str = EARNED, each: str = "for {}"
) -> str:
    """Means in the order of the worlds: `0.51, 0.44, 0.93 for T-PriDO; 0.32, 0.30, 0.86 for ACR`."""
    return "; ".join(f"{numbers(results, config, metric)} {each.format(name)}" for name, config in of.items())


def among(policies: Sequence[str]) -> dict[str, Callable[[Config], Config]]:
    """The settings of `compared` policies, keyed by their titles."""
    return {title(policy): partial(compared, rival=policy) for policy in policies}


def falls(
    statement: str,
    quote: str,
    stated: str,
    settings: Mapping[str, Callable[[Config], Config]],
    metric: str = REGRET,
    why: Callable[[Results], str] = lambda r: "",
    each: str = "for {}",
) -> Claim:
    """A metric falls along settings in every world: it falls from the first to the last, and no step rises."""
    lead = f"The {'average regrets' if metric == REGRET else 'shares of rounds with an answer'} {IN_ORDER} are"
    ranges, paper, labels = along(list(settings), 0.1)
    return everywhere(
        statement,
        quote,
        stated,
        lambda r, world: steps_of(r, [config(world) for config in settings.values()], metric),
        ranges,
        paper,
        0.0,
        lambda r: f"{lead} {values(r, settings, metric, each)}. {why(r)}".rstrip(". "),
        labels,
    )
