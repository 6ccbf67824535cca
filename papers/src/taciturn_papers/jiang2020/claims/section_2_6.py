"""Section 2.6, Figures 2.1 to 2.4: crowd-sourcing."""

import math

import numpy as np

from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn_papers.claims import Claim, above, mean, read, rounded, together, untested
from taciturn_papers.jiang2020 import crowd
from taciturn_papers.jiang2020.crowd import BEST, GOOD, PAYMENT_CUT, PAYMENTS, SCORE_GAIN, TASKS, WORKERS

NO_WORKERS = (
    "the result depends on workers of Mechanical Turk, who cannot be simulated; our own checks use a model of them"
)
NOT_WORKERS = "this is a model of effort, fitted to three of the paper's counts"
WITH_BONUS = ("WINTALL-20", "WINTALL-40")


def cut(name: str, winners: float) -> float:
    """By how many percent payment is below Flat's if `winners` of the workers win the bonus."""
    base, bonus = PAYMENTS[name]
    return 100 * (1 - (base + bonus * winners / WORKERS) / 30)


def predicted(name: str) -> Floats:
    """The model's distribution of scores."""
    return crowd.scores(*crowd.fitted(), PAYMENTS[name][1])


def mean_gain(name: str) -> float:
    """By how many percent the model's mean score is above Flat's."""
    ours, flat = (float(predicted(one) @ np.arange(6)) for one in (name, "Flat"))
    return 100 * (ours / flat - 1)


def by_task(results: Results, name: str, other: str, value: str) -> Floats:
    """A metric of each task under two rules, [rules, draws, tasks], paired."""
    pair = [{"payment": name}, {"payment": other}]
    return np.stack([together(results, pair, f"{value}_{task + 1}") for task in range(TASKS)], axis=2)


def higher(results: Results, name: str, other: str, value: str) -> Estimate:
    """The number of tasks, of 9, with a higher mean score (or payment) under rule `name` than under `other`."""
    one, two = by_task(results, name, other, value)
    return mean((one > two).sum(1))


def gains(results: Results) -> str:
    """By how much mean scores are higher, by task."""
    found = []
    for name, other in TASKS_ABOVE:
        one, two = by_task(results, name, other, "score")
        found.append(f"{float((100 * (one / two - 1)).mean()):.1f}% ({name} above {other})")
    return (
        f"{NOT_WORKERS}. On average over tasks, the mean score is higher by {', '.join(found)}. The paper has 25.4%, "
        "47.3% and 17.7%"
    )


TASKS_ABOVE = (("WINTALL-20", "Flat"), ("WINTALL-40", "Flat"), ("WINTALL-40", "WINTALL-20"))
TASKS_PAID = (("Flat", "WINTALL-20"), ("Flat", "WINTALL-40"), ("WINTALL-40", "WINTALL-20"))
COUNTS = (GOOD["WINTALL-40"], BEST["WINTALL-20"], BEST["WINTALL-40"])
CUTS = tuple(PAYMENT_CUT[name] for name in WITH_BONUS)
CROWD = (
    untested(
        "Figure 2.1: mean scores by task are higher with a bonus",
        "Section 2.6: 'for 7 of 9 tasks, WINTALL-20 yielded higher average scores than Flat, 25.4% increase on "
        "average, and for all 9 tasks, WINTALL-40 resulted in higher mean scores than Flat, 47.3% increase on average'",
        "7 and 9 of 9 tasks",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.2: payments by task are lower with a bonus than without",
        "Section 2.6: 'for all tasks both WINTALL-20 and WINTALL-40 resulted in lower average payments than Flat'",
        "9 of 9 tasks",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.3: there are more good answers with a bonus than without",
        "Section 2.6: 'The number of good answers (score 4 or 5) increases from 16 for Flat to 28 for WINTALL-20 and "
        "37 for WINTALL-40, respectively'",
        "16, 28, 37",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.4: the mean score of all tasks rises with a bonus",
        "Section 2.6: 'Comparing to Flat, the average score increases by 19.4% and 37.5%, respectively'",
        "19.4% and 37.5%",
        NO_WORKERS,
    ),
    Claim(
        "Figure 2.4: payment is lower than with Flat (reduction in %, from the paper's own counts of very good "
        "answers)",
        "Section 2.6: 'while the average payment reduces by 30% and 24.4%, respectively'",
        "30% and 24.4%",
        lambda r: [cut(name, BEST[name]) for name in WITH_BONUS],
        (
            rounded(CUTS[0], 1, "the paper rounds 30% to a multiple of 1%"),
            rounded(CUTS[1], 0.1, "the paper rounds 24.4% to a multiple of 0.1%"),
        ),
        CUTS,
        0.0,
        "this assumes that the bonus was paid for score 5 only, and the base to all. If the bonus was paid for all "
        "'good' answers (scores 4 and 5), as the section says, the reductions would be {:.1f}% and {:.1f}%".format(
            *(cut(name, GOOD[name]) for name in WITH_BONUS)
        ),
        WITH_BONUS,
    ),
    Claim(
        "A model of effort for Figure 2.1: number of tasks, out of 9, with a higher mean score",
        "",
        "7, 9, 7",
        lambda r: [higher(r, *pair, "score") for pair in TASKS_ABOVE],
        above(TASKS / 2),
        (7.0, 9.0, 7.0),
        4.5,
        gains,
        tuple(f"{name} above {other}" for name, other in TASKS_ABOVE),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.2: number of tasks, out of 9, with a higher payment",
        "",
        "9, 9, 8",
        lambda r: [higher(r, *pair, "payment") for pair in TASKS_PAID],
        above(TASKS / 2),
        (9.0, 9.0, 8.0),
        4.5,
        NOT_WORKERS,
        tuple(f"{name} above {other}" for name, other in TASKS_PAID),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.3: number of good and of very good answers",
        "",
        ", ".join(map(str, COUNTS)),
        lambda r: [
            WORKERS * float(predicted("WINTALL-40")[4:].sum()),
            *(WORKERS * float(predicted(name)[5]) for name in WITH_BONUS),
        ],
        tuple(
            read(n, 2 * math.sqrt(n * (1 - n / WORKERS)), "two standard deviations of a count among 180 workers")
            for n in COUNTS
        ),
        tuple(map(float, COUNTS)),
        0.0,
        NOT_WORKERS,
        ("good, WINTALL-40", "very good, WINTALL-20", "very good, WINTALL-40"),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.4: increase of the mean score and reduction of the payment, relative to Flat "
        "(%)",
        "",
        "19.4, 37.5; 30, 24.4",
        lambda r: [
            *map(mean_gain, WITH_BONUS),
            *(cut(name, WORKERS * float(predicted(name)[5])) for name in WITH_BONUS),
        ],
        above(0),
        (*(SCORE_GAIN[name] for name in WITH_BONUS), *CUTS),
        0.0,
        f"{NOT_WORKERS}. In the model, twice the bonus buys about twice the effort; in the experiment it buys less",
        (*(f"score, {name}" for name in WITH_BONUS), *(f"payment, {name}" for name in WITH_BONUS)),
        own=True,
    ),
)
