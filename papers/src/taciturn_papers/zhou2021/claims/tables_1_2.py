"""Tables 1 and 2, Figures 6 and 7: T-PriDO and other algorithms. The paper does not vary the grid of DSC; we do."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn_papers.claims import Claim, NotRunError, above, below, ratio_of, rounded, together
from taciturn_papers.zhou2021.claims.shared import EARNED, IN_ORDER, REGRET, among, at, everywhere, title, values
from taciturn_papers.zhou2021.settings import (
    EXACT,
    GRID_LEVELS,
    NOISED,
    NOISY_RIVALS,
    ROUNDS,
    WORLDS,
    compared,
    on_grid,
)

FIRST = 4  # sevenths of a run: until n = 40,000
# Table 1: average rewards at n = 10,000 to 40,000, and the gain of T-PriDO (0.88) over each at n = 70,000.
EARLY = {
    "TPriDO": (0.57, 0.60, 0.61, 0.70), "HCT": (0.56, 0.56, 0.58, 0.60), "ACR": (0.56, 0.54, 0.57, 0.57),
    "DSC": (0.50, 0.51, 0.54, 0.56), "GaussLinUCB": (0.46, 0.49, 0.48, 0.48), "LinUCB": (0.45, 0.46, 0.47, 0.47),
    "DUCB": (0.32, 0.31, 0.32, 0.33), "ItemUCB1": (0.28, 0.30, 0.31, 0.30),
}  # fmt: skip
LAST = 0.88
GAINS = {
    "one agent": 0.275, "HCT": 0.354, "ACR": 0.419, "DSC": 0.492, "GaussLinUCB": 0.73, "LinUCB": 0.83, "DUCB": 1.67,
    "ItemUCB1": 2.14, "Random": 2.38,
}  # fmt: skip
# Section 5.2: by how much the average regret of T-PriDO is lower at n = 20,000.
REDUCTIONS = {"HCT": 0.2483, "ACR": 0.2793, "DSC": 0.4745, "GaussLinUCB": 0.6117, "DUCB": 0.7667}
# Table 2 at n = 70,000.
VARIANCES = {"ACR": 0.0029, "DUCB": 0.0040, "DSC": 0.0009, "TPriDO": 0.0011, "GaussLinUCB": 0.0008}
CONTEXT_FREE, CONTEXT_AWARE = ("ItemUCB1", "DUCB", "HCT"), ("LinUCB", "GaussLinUCB", "DSC", "ACR", "TPriDO")


def earned(policy: str) -> float:
    """The average reward of a policy at n = 70,000, by Table 1."""
    return LAST / (1 + GAINS[policy]) if policy in GAINS else LAST


def learned(policy: str) -> float:
    """The ratio of the average reward until n = 40,000 to the last average reward, mean over Table 1's entries."""
    return sum(EARLY[policy]) / len(EARLY[policy]) / earned(policy)


NOISE = f"Poo-Loc, ACR, DSC and LinUCB learn from noisy sums with epsilon = {NOISY_RIVALS:g}"
OVER_AWARE = (
    "Section 5.2: 'The average reward of T-PriDO up to … is 83% over LinUCB, 73% over Gauss-LinUCB, 49.2% over DSC and "
    "41.9% over ACR'"
)
WORDS = {
    "one agent": "Table 1, gain in average reward: 'T-PriDO (one agent) … 27.5%'",
    "HCT": "Section 5.2: 'it even achieves a 35.4% performance gain over the state-of-the-art context-free Poo-Loc "
    "algorithm'",
    "DUCB": "Table 1, gain in average reward: 'DUCB … 167%'",
    "ItemUCB1": "Section 5.2: 'T-PriDO obtains a 214% performance gain on average reward, over UCB1'",
    "Random": "Table 1, gain in average reward: 'Random … 238%'",
    **dict.fromkeys(("ACR", "DSC", "GaussLinUCB", "LinUCB"), OVER_AWARE),
}


def gain(rival: str) -> Claim:
    """Table 1: the gain of T-PriDO over a rival."""
    unit = 0.001 if GAINS[rival] < 0.5 else 0.01
    return everywhere(
        f"Table 1: gain of T-PriDO over {title(rival)} is {100 * GAINS[rival]:.3g}% (ratio of average rewards at the "
        "end)",
        WORDS[rival],
        f"{1 + GAINS[rival]:.{3 if unit < 0.01 else 2}f}",
        lambda r, world: [ratio_of(r, compared(world, "TPriDO"), compared(world, rival), EARNED)],
        rounded(1 + GAINS[rival], unit, f"the paper rounds the gain to a multiple of {100 * unit:.1g}%"),
        1 + GAINS[rival],
        1.0,
        lambda r: f"The average rewards {IN_ORDER} are {values(r, among(('TPriDO', rival)))}",
    )


def over_best(
    rivals: Sequence[str], metric: str, choose: Callable[..., Floats]
) -> Callable[[Results, Config], list[Estimate]]:
    """The ratio of a metric of T-PriDO to the best rival's on each seed."""

    def measured(results: Results, world: Config) -> list[Estimate]:
        ours, *theirs = together(results, [compared(world, one) for one in ("TPriDO", *rivals)], metric)
        return [statistics.ratio(ours, choose(theirs, 0))]

    return measured


def outperforms(statement: str, quote: str, rivals: Sequence[str], *, own: bool = False) -> Claim:
    """Table 1: T-PriDO earns more than its rivals."""
    best_of = "ratio of T-PriDO's average reward to the best rival's"
    computed = best_of if len(rivals) > 1 else "ratio of average rewards"
    return everywhere(
        f"{statement} ({computed})",
        quote,
        "above 1" if own else "outperforms",
        over_best(rivals, EARNED, np.max),
        above(1),
        1 + min(GAINS.get(rival, 0.1) for rival in rivals),
        1.0,
        lambda r: (
            f"The average rewards {IN_ORDER} are {values(r, among(('TPriDO', *rivals)))}"
            + f". {NOISE}" * bool(set(rivals) & set(NOISED))
        ),
        own=own,
    )


def order(quote: str, better: str, worse: str, why: str) -> Claim:
    """Table 1: one rival earns more than another."""
    return everywhere(
        f"Table 1: {title(better)} earns more than {title(worse)} (ratio of average rewards at the end)",
        quote,
        "more",
        lambda r, world: [ratio_of(r, compared(world, better), compared(world, worse), EARNED)],
        above(1),
        earned(better) / earned(worse),
        1.0,
        lambda r: f"The average rewards {IN_ORDER} are {values(r, among((better, worse)))}. {why}",
    )


def reduction(rival: str) -> Claim:
    """Figures 6 and 7: the reduction of regret by T-PriDO at n = 20,000."""
    return everywhere(
        f"Figures 6 and 7: regret of T-PriDO is {100 * REDUCTIONS[rival]:.2f}% below {title(rival)}'s (ratio of "
        "average regrets at 2/7 of the run)",
        "Section 5.2: 'T-PriDO decreases in average regret by 24.83%, 27.93%, 47.45%, 61.17% and 76.67% when n = 2 … "
        "compared to Poo-Loc, ACR, DSC, Gauss-LinUCB, and DUCB, respectively'",
        f"{1 - REDUCTIONS[rival]:.4f}",
        lambda r, world: [ratio_of(r, compared(world, "TPriDO"), compared(world, rival), at("regret", 2))],
        rounded(1 - REDUCTIONS[rival], 0.0001, "the paper rounds the reduction to a multiple of 0.01%"),
        1 - REDUCTIONS[rival],
        1.0,
        lambda r: f"The average regrets {IN_ORDER} are {values(r, among(('TPriDO', rival)), at('regret', 2))}",
    )


def share_of_last(results: Results, configs: Sequence[Config], parts: Sequence[int]) -> Floats:
    """The ratio of the average reward after these sevenths of a run to the last one, mean over `parts`,
    [settings, seeds]."""
    early = np.mean([together(results, configs, at("reward", part)) for part in parts], 0)
    return np.asarray(early / together(results, configs, EARNED))


def faster(statement: str, quote: str, rivals: Sequence[str], why: str) -> Claim:
    """Section 5.2: algorithms that converge faster than T-PriDO."""

    def measured(results: Results, world: Config) -> list[Estimate]:
        ours, *theirs = share_of_last(results, [compared(world, one) for one in ("TPriDO", *rivals)], [1])
        return [statistics.difference(their, ours) for their in theirs]

    return everywhere(
        f"{statement} (ratio of average reward after 1/7 of the run to the final one, minus T-PriDO's)",
        quote,
        "faster",
        measured,
        above(0),
        [EARLY[rival][0] / earned(rival) - EARLY["TPriDO"][0] / LAST for rival in rivals],
        0.0,
        lambda r: (
            f"After 1/7 of the run the average rewards {IN_ORDER} are "
            f"{values(r, among(('TPriDO', *rivals)), at('reward', 1))}. At the end they are "
            f"{values(r, among(('TPriDO', *rivals)))}. {why}"
        ),
        [title(rival) for rival in rivals] if len(rivals) > 1 else ("",),
    )


def free_and_aware(
    statement: str,
    quote: str,
    stated: str,
    value: Callable[[Results, Sequence[Config]], Floats],
    paper: float,
    note: str,
) -> Claim:
    """Section 5.2: context-free minus context-aware algorithms; a positive `paper` means more for the former."""

    def measured(results: Results, world: Config) -> list[Estimate]:
        free, aware = (
            value(results, [compared(world, one) for one in some]).mean(0) for some in (CONTEXT_FREE, CONTEXT_AWARE)
        )
        return [statistics.difference(free, aware)]

    return everywhere(
        statement,
        quote,
        stated,
        measured,
        above(0) if paper > 0 else below(0),
        paper,
        0.0,
        "We subtract the mean of LinUCB, Gauss-LinUCB, DSC, ACR and T-PriDO from the mean of UCB1, DUCB and Poo-Loc. "
        + note,
    )


def squares(results: Results, more: str, less: str) -> Floats:
    """Squared deviations of average regrets, [2, seeds, worlds], in units of their mean in each world."""
    found = []
    for world in WORLDS:
        pair = together(results, [compared(world, one) for one in (more, less)], REGRET)
        both = (pair - pair.mean(1, keepdims=True)) ** 2
        found.append(both / both.mean())
    if len({both.shape for both in found}) > 1:
        raise NotRunError("worlds have other seeds")
    return np.stack(found, -1)


def spread(statement: str, quote: str, stated: str, pairs: Sequence[tuple[str, str]]) -> Claim:
    """Table 2: an order of variances over seeds. Worlds are pooled after division by the mean variance in each."""
    return Claim(
        f"{statement} (ratio of variances of the average regret)",
        quote,
        stated,
        lambda r: [statistics.share(*squares(r, more, less)) for more, less in pairs],
        above(1),
        tuple(VARIANCES[more] / VARIANCES[less] for more, less in pairs),
        1.0,
        "Each seed draws another instance; the paper does not say over which runs or rounds it takes variances. We "
        "pool the five environments; in each, we first divide the squared deviations by their mean over both "
        "algorithms and all seeds",
        tuple(f"{title(more)} to {title(less)}" for more, less in pairs),
    )


WITHIN = "Averages are over all rounds so far. A policy that learns nothing reaches its final average immediately"
ALGORITHMS = (
    *map(gain, GAINS),
    outperforms(
        "Table 1: T-PriDO outperforms algorithms without contexts",
        "Section 5.2: 'T-PriDO outperforms other algorithms without context-awareness'",
        ("Random", "ItemUCB1", "DUCB", "HCT"),
    ),
    outperforms(
        "Table 1: T-PriDO outperforms other context-aware algorithms",
        "Section 5.2: 'T-PriDO outperforms completely other context-aware algorithms'",
        ("LinUCB", "GaussLinUCB", "DSC", "ACR"),
    ),
    outperforms(
        "Table 1: T-PriDO earns more with neighbours than alone",
        "Section 5.2: 'information sharing among agents can increase average reward'",
        ("one agent",),
    ),
    *(outperforms(f"T-PriDO earns more than {title(one)}", "", (one,), own=True) for one in EXACT),
    order(
        "Section 5.2: 'Gauss-LinUCB has better learning performance than that of LinUCB'",
        "GaussLinUCB",
        "LinUCB",
        f"At epsilon = {NOISY_RIVALS:g} the noise on Gauss-LinUCB's Gram matrix is larger than the matrix even after "
        f"{ROUNDS:,} rounds. LinUCB's matrix has no noise; only its sums of feedbacks are noisy",
    ),
    order(
        "Section 5.2: 'DSC supports information sharing in online social networks, but it still obtain lower average "
        "reward than that of ACR'",
        "ACR",
        "DSC",
        "DSC also uses its neighbours' records, and noise is added only once to the sum of all records",
    ),
    order("Table 1, gains over Poo-Loc and ACR: '35.4%' and '41.9%'", "HCT", "ACR", NOISE),
    *map(reduction, REDUCTIONS),
    everywhere(
        "Figures 6 and 7: T-PriDO has the lowest regret (ratio of T-PriDO's average regret to the lowest other regret "
        "at 2/7 of the run)",
        "Section 5.2: 'the results are similar to TABLE 1 as we expect'",
        "least",
        over_best(tuple(REDUCTIONS), at("regret", 2), np.min),
        below(1),
        1 - min(REDUCTIONS.values()),
        1.0,
        lambda r: f"The average regrets {IN_ORDER} are {values(r, among(('TPriDO', *REDUCTIONS)), at('regret', 2))}",
    ),
    faster(
        "Section 5.2: UCB1 and Poo-Loc learn faster than T-PriDO",
        "Section 5.2: 'Notice that UCB1 and Poo-Loc learn faster than T-PriDO (converges faster)'",
        ("ItemUCB1", "HCT"),
        f"{WITHIN}; UCB1 has more items than rounds and tries most items only once",
    ),
    faster(
        "Section 5.2: DSC learns faster than T-PriDO",
        "Section 5.2: 'DSC has a better learning efficiency than T-PriDO, but it learns less accurately'",
        ("DSC",),
        WITHIN,
    ),
    free_and_aware(
        "Section 5.2: context-free algorithms converge faster up to 4/7 of the run (ratio of early to final reward: "
        "context-free minus context-aware)",
        "Section 5.2: 'the context-free algorithms can converge faster than the algorithms with context-awareness "
        "before round n = 4'",
        "faster",
        lambda r, configs: share_of_last(r, configs, range(1, FIRST + 1)),
        sum(map(learned, CONTEXT_FREE)) / len(CONTEXT_FREE) - sum(map(learned, CONTEXT_AWARE)) / len(CONTEXT_AWARE),
        f"For each algorithm we average the ratios after 1/7, 2/7, ... {FIRST}/7 of the run; {FIRST}/7 of the run "
        "corresponds to n = 40,000",
    ),
    free_and_aware(
        "Section 5.2: context-aware algorithms earn more in the long run (average reward of context-free minus "
        "context-aware algorithms)",
        "Section 5.2: 'the context-aware algorithms … can obtain a higher average reward than other context-free "
        "algorithms in a long term'",
        "below 0",
        lambda r, configs: together(r, configs, EARNED),
        sum(map(earned, CONTEXT_FREE)) / len(CONTEXT_FREE) - sum(map(earned, CONTEXT_AWARE)) / len(CONTEXT_AWARE),
        "In the paper's Table 1 Poo-Loc earns more than all context-aware rivals",
    ),
    spread(
        "Table 2: ACR and DUCB vary more than T-PriDO, DSC and Gauss-LinUCB",
        "Section 5.2: 'ACR and DUCB have higher variance than that of T-PriDO, DSC and Gauss-LinUCB'",
        "higher",
        tuple(itertools.product(("ACR", "DUCB"), ("TPriDO", "DSC", "GaussLinUCB"))),
    ),
    spread(
        "Table 2: Gauss-LinUCB varies least",
        "Section 5.2: 'Gauss-LinUCB has the least variance of average regret'",
        "least",
        tuple((more, "GaussLinUCB") for more in ("ACR", "DUCB", "DSC", "TPriDO")),
    ),
)


# The grid of DSC, which the paper does not vary.


def on_grids(statement: str, ours: str) -> Claim:
    """A claim that an algorithm earns more than DSC, for every grid of DSC."""
    levels = {f"level {level}": partial(on_grid, level=level) for level in GRID_LEVELS}
    return everywhere(
        f"{statement} for every grid of DSC (ratio of average rewards, without noise)",
        "",
        "above 1",
        lambda r, world: [ratio_of(r, compared(world, ours), config(world), EARNED) for config in levels.values()],
        above(1),
        1.05,
        1.0,
        lambda r: (
            "A grid of level l divides each dimension of the contexts into 2^l parts; level 0 is a single cell. The "
            f"average rewards {IN_ORDER} are {values(r, {**among((ours,)), **levels})}"
        ),
        tuple(levels),
        own=True,
    )


GRIDS = (
    on_grids("T-PriDO earns more than DSC", "TPriDO"),
    on_grids("ACR earns more than DSC", "ACR without noise"),
)
