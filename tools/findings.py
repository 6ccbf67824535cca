"""What `docs/findings.md` says of the papers and of the agents: a table a paper, from the stored results of full runs.

Each row is one claim: what the paper states, the computed number with its interval, and the figure that computes it.
"""

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

from store_results import load as stored

from taciturn.bench.comparisons.trust import (
    CENTRAL,
    DISTRIBUTED,
    LOCAL,
    SHUFFLE,
    SIZES,
    TRAINING,
    champion,
    size_in_words,
)
from taciturn.bench.questions import compared, trainings_needed
from taciturn.bench.scores import MEMORYLESS, Board, boards, score_text, standing
from taciturn.bench.study import Verdict
from taciturn.bench.tables import listed
from taciturn.bench.tasks import BENCHMARKS, STANDARD, budgets_of, world_title

NONE = "–"
RESULTS = Path(__file__).parent / "results"


def claimed(study: str, claim: str) -> Verdict:
    """The verdict on the first claim of a stored study that begins with `claim`."""
    return next(one for one in stored(study)[2] if one.quantity.startswith(claim))


def number(study: str, claim: str, label: str = "") -> float:
    """The computed number of the first claim of a stored study that begins with `claim`."""
    result = claimed(study, claim)
    return result.numbers[list(result.labels).index(label)].value


def reason(study: str, claim: str, pattern: str) -> list[float]:
    """The numbers that `pattern` finds in the explanation of a claim."""
    return [float(x.replace(",", "")) for x in re.findall(pattern, claimed(study, claim).reason)]


def figure(study: str) -> str:
    """The name of a study's figure for `taciturn reproduce`, such as "jiang2020/3.3"."""
    paper, _, rest = study.partition("-")
    return f"{paper}/{rest.replace('-', '.')}"


def table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    """Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def claims(*rows: tuple[str, str, str] | tuple[str, str, str, str] | tuple[str, str, str, str, str]) -> str:
    """A table of claims. A row has the words, the study and how the claim begins; then the number's label, and the
    paper's number if it is not the claim's own. The verdict is that on all numbers of a claim."""
    lines = []
    for words, study, begins, *rest in rows:
        verdict = claimed(study, begins)
        estimate = verdict.numbers[list(verdict.labels).index(rest[0] if rest else "")]
        paper = rest[1] if len(rest) > 1 else str(verdict.paper)
        ours = estimate_text(estimate.value, estimate.low, estimate.high)
        lines.append((words, paper, ours, verdict.verdict, f"`{figure(study)}`"))
    return table(("claim", "paper", "ours", "verdict", "figure"), lines)


def estimate_text(value: float, low: float, high: float) -> str:
    """A number and its interval; "exact" for one that was computed without drawing."""
    if math.isclose(low, high):
        return f"{value:.4g} (exact)"
    return f"{value:#.3g} [{low:#.3g}, {high:#.3g}]"


def chen2021() -> str:
    """Social learning over gossip."""
    (level,) = reason("chen2021-3", "Figure 3: the rounds", r"K = 8: ([\d.]+) \(")
    rounds = "Figure 6: PPCL"
    rows = claims(
        ("rounds until all 400 agents prefer the best of four options (PPCL)", "chen2021-2", "Figure 2b"),
        (
            "share of runs in which all agents prefer it after 50 rounds (PPCL, epsilon = 3)",
            "chen2021-5",
            "Theorem 1",
            "epsilon = 3",
        ),
        (
            "rounds until 90% of agents prefer it: PPCL, minus CBL, which learns from answers without noise",
            "chen2021-6",
            rounds,
            "until 90%",
            "above 0",
        ),
        ("the same until 99.9%", "chen2021-6", rounds, "until 99.9%", "above 0"),
    )
    return f"""\
{rows}
Agents do not stay at a consensus, because the noise also adds votes for options that no agent prefers. With
eight options, a share of {level:.2f} of the agents prefer the best one at the end. Each reply costs epsilon, and
every agent replies in every round.
"""


def tao2023() -> str:
    """Social learning over a graph."""
    (idle,) = reason("tao2023-2", "Figure 2a: regret is within 6 delta", r"N = 10,000, M = 20: [\d.]+, ([\d.]+) and")
    fresh = (
        "Regret is at most 6 delta (final regret, N = 10,000, M = 20, epsilon = 1): fresh noise per copy, one estimate "
        "for all agents"
    )
    bound = "Figure 4: regret is within 6 delta with N = 10,000"
    rows = claims(
        ("regret of the algorithm as written, with noise of epsilon = 1", "tao2023-4", bound, "epsilon = 1"),
        ("regret without noise", "tao2023-4", "Without noise"),
        (
            "regret if each copy has fresh noise, and all agents share one estimate of the popularities",
            "tao2023-variants",
            fresh,
        ),
    )
    return f"""\
{rows}
All runs have 10,000 agents, 20 options and 10,000 rounds. Agents that learn nothing have a regret of {idle:.2f}. Noise
raises unpopular options faster than selection removes them. The last row simulates shares of the population instead
of single agents.
"""


def li2022() -> str:
    """Federated bandits."""
    rounds = "Figure 6: the regrets with R = 4 and R = 5"
    rows = claims(
        ("regret of 5 agents with the server's algorithm over that of one agent", "li2022-8", "Figure 8: CDP-MAB rea"),
        (
            "regret if mean rewards differ between agents, over that with equal means",
            "li2022-8",
            "Figure 8: CDP-MAB has similar regret",
        ),
        ("regret with 4 rounds over that with 5 rounds, T = 10^5", "li2022-6", rounds, "T = 10^5"),
        ("the same, T = 10^4 (which the text implies)", "li2022-6", rounds, "T = 10^4"),
        (
            "part of the exploration length due to privacy noise, over the part due to sampling (epsilon = 0.1)",
            "li2022-4",
            "Section IV-C1",
            "epsilon = 0.1",
        ),
    )
    return f"""\
{rows}
The order of the curves holds in most figures. By the theorems a message is (M epsilon)-DP for M agents; the axes of
the figures show epsilon, without the factor M.
"""


def jiang2020() -> str:
    """Incentives for data, and the stopping of rounds."""
    close = "Section 2.3: with many individuals the payment is close to the bound"
    (few,) = reason("jiang2020-2", close, r"four values: .*?([\d.]+) \(N = 1,000\)")
    rule = "Section 3.4.1: thresholds"
    best = ", ".join(f"{number('jiang2020-3-3', rule, label):.0f}" for label in ("k*", "k0*"))
    (rate,) = reason("jiang2020-3-3", "Section 3.4.1: lambda*", r"\(10, 8\): [\d.]+ \(([\d.]+)%\)")
    data = claims(
        (
            "payment of WINTALL over the lower bound of equation 2.19 (30,000 individuals, four values)",
            "jiang2020-2",
            close,
            "four values, quadratic, exact",
        )
    )
    rounds = claims(
        ("largest rate of progress", "jiang2020-3-3", "Section 3.4.1: lambda*"),
        ("threshold k* of the optimal rule", "jiang2020-3-3", rule, "k*", "10"),
        ("threshold k0* of the optimal rule", "jiang2020-3-3", rule, "k0*", "8"),
    )
    return f"""\
### Chapter 2: payments for data

{data}
With 1,000 individuals the ratio is {few:.2f}. Theorem 1 prints the bound as g' A (equation 2.13). The printed bound
holds but is far too weak; equation 2.19 divides g' by A.

- The platform announces a target epsilon and pays the individuals whose report is the most frequent one. No individual
  gains by choosing another epsilon, unless its own report can change which report is most frequent. With few
  individuals a deviation can pay.
- There is a second equilibrium: all individuals choose epsilon = 0.
- The theorem does not cover costs proportional to log(1 + epsilon). Suppose that costs have this form, individuals
  are many, and data take M values. Then epsilon = 0 is better for an individual than the target e if
  log(1 + e) > e (e + M) / ((1 + e) M). This holds for e = 1 and M = 4, but not for e = 2 and M = 3.

### Chapter 3: when to end a round

{rounds}
The server ends a round as soon as it has k* updates, or k0* if no further update is in the queue for upload. The
paper's thresholds (10, 8) reach {rate:.1f}% of the rate of ({best}). The stated model gives the paper's round times
and its upper bound of the rate. We get the paper's thresholds only if clients are always ready, and its optimal rate
only if the queue is never empty. We found no derivation of the paper's lower bound of the rate.
"""


def zhou2021() -> str:
    """Recommenders that share feedback."""
    here = "peak, d = 2"
    at_two = f"{here}: n = 70,000"
    rows = claims(
        (
            "reward of T-PriDO without noise over LinUCB with noise",
            "zhou2021-6",
            "Table 1: gain of T-PriDO over LinUCB",
            here,
        ),
        (
            "reward of T-PriDO over LinUCB, both without noise",
            "zhou2021-6",
            "T-PriDO earns more than LinUCB without noise",
            here,
            NONE,
        ),
        (
            "reward of T-PriDO at epsilon = 2 over its reward without noise",
            "zhou2021-10",
            "Table 3: accuracy of T-PriDO at epsilon = 2",
            at_two,
            "0.98",
        ),
        (
            "share of its gain over random play that T-PriDO keeps at epsilon = 2",
            "zhou2021-10",
            "T-PriDO keeps most of its gain over random play at epsilon = 2 with NT = 0.5",
            here,
        ),
        (
            "largest epsilon that an agent spends, over the stated epsilon",
            "zhou2021-10",
            "Figure 11 and Theorem 2: the privacy loss of T-PriDO is at most epsilon",
            here,
        ),
        (
            "regret with the exponential mechanism (epsilon = 2) over regret without it",
            "zhou2021-10",
            "Remark 1: the exponential mechanism can be neglected",
            here,
        ),
        (
            "exponent of n in the first term of Theorem 3's bound, as printed",
            "zhou2021-6",
            "Theorem 3: the first term of the bound is sublinear (exponent of n as printed",
            "d = 2",
        ),
    )
    return f"""\
The paper's data are not available, so our data are synthetic: compare rankings, not values. Our runs have 1,000
rounds, or 210 with noise on shared data; the paper's have 70,000. The rows use mean rewards with one peak (`peak`)
and two-dimensional contexts. Agents request data for a cell of the context space while their mean feedback there is
below 0.5.

{rows}
A provider pays epsilon for every agent that requests its feedback, and again whenever the cell of that feedback is
split. At any epsilon, a request also reveals that the requesting agent's mean feedback was poor. More connections and
more requests lower the regret, as in the paper.
"""


def azize2022() -> str:
    """Private bandits with a trusted curator."""
    lowest = "Section 5, Figure 2: AdaP-KLUCB achieves the lowest regret"
    (adaptive,) = reason("azize2022-2", lowest, r"AdaP-KLUCB ([\d,]+)")
    (younger,) = reason("azize2022-2", lowest, r"DP-KLUCB ([\d.]+)")
    (bolder,) = reason("azize2022-2", lowest, r"alpha = 1 and 0.3: [\d.,]+ and ([\d.]+)")
    (least,) = reason("azize2022-2", lowest, r"and ([\d.]+) \(Azize et al. 2025\)")
    above = "Section 5, Figure 3: above epsilon = 0.3 the regret of AdaP-KLUCB does not depend on epsilon"
    rows = claims(
        (
            "regret of DP-SE over that of AdaP-KLUCB",
            "azize2022-2",
            "Section 5: AdaP-UCB and AdaP-KLUCB have almost 10 times lower regret",
            "DP-SE to AdaP-KLUCB",
        ),
        ("regret of AdaP-KLUCB at epsilon = 3 over that at epsilon = 10", "azize2022-3", above, "from 3 to 10", "1"),
    )
    return f"""\
{rows}
With the paper's parameters AdaP-KLUCB has the lowest regret among the paper's algorithms. The proof needs the parameter
alpha = 3.1, which gives a regret of {adaptive:,.0f}; alpha = 0.3 gives {bolder:.0f}. The newer DP-KLUCB has
{younger:.0f}, and the asymptotic lower bound is {least:.0f}.
"""


def chowdhury2023() -> str:
    """Elimination without a trusted curator."""
    trusting = "Section 7, Figure 1: as T becomes large, Dist-DP-SE matches DP-SE's regret"
    rows = claims(
        (
            "variance of the published code's noise over that of theorem 1 (epsilon = 0.1)",
            "chowdhury2023-1",
            "The published code draws the noise of theorem 1",
            "epsilon = 0.1",
        ),
        (
            "regret of Dist-DP-SE over that of DP-SE on easy instances (epsilon = 0.1)",
            "chowdhury2023-1",
            trusting,
            "easy, epsilon = 0.1",
        ),
        ("the same on hard instances", "chowdhury2023-1", trusting, "hard, epsilon = 0.1"),
        (
            "regret of Dist-DP-SE over that with Skellam noise on easy instances (epsilon = 0.1)",
            "chowdhury2023-1",
            "Section 7: with s = 10 RDP gains considerably",
            "easy, epsilon = 0.1",
        ),
    )
    return f"""\
{rows}
An audit refutes the epsilon of the published code. The other rows use the noise of theorem 1.
"""


def place(board: Board) -> str:
    """A standard task in words."""
    title = world_title(board.task.env)
    return title if board.task.name == STANDARD else f"{title} ({board.task.variant.what})"


def budgets() -> str:
    """What communication is worth under a privacy budget, from the boards of the standard tasks."""
    _, results, _ = stored("agents")
    some = boards(results)
    lines, pays, lost = list[tuple[str, ...]](), list[str](), list[str]()
    for board in standing(some):
        allowed = budgets_of(board.task.env)
        if board.scale is None or len(allowed) == 1 or board.task.control:
            continue
        rows = [one for budget in allowed for one in standing(some, budget) if one.task.plain == board.task.plain]
        best = [(row.label(one), row.evaluated(one)) for row in rows if (one := row.best()) is not None]
        scores = [score for _, score in best if score is not None]
        if len(scores) < len(allowed):
            continue  # not run at all budgets yet
        names = dict.fromkeys(name.partition(" (")[0] for name, _ in best)
        lines.append((place(board), *map(score_text, scores), ", then ".join(names)))
        (pays if scores[-1].low > 0 else lost).append(place(board))
    helps = (
        "in every task of this table" if not lost else f"in {listed(pays or ['no task'])}, and not in {listed(lost)}"
    )
    return table(("task", "without privacy", "budget 10", "budget 3", "budget 1", "best agent"), lines) + (
        f"\nAt a budget of 1, communication helps significantly {helps}. {without_memory(some)} {search()}\n"
    )


def search() -> str:
    """How settings were found."""
    tuning = json.loads((RESULTS / "tuning.json").read_text(encoding="utf-8"))
    tried = [len(one["tried"]) for one in tuning["entries"].values()]
    return (
        "Settings were tuned on other seeds. For each agent and task the search tried at most "
        f"{tuning['budget']['trials']} settings (median {statistics.median(tried):.0f}), in at most "
        f"{tuning['budget']['seconds']:g} core-seconds altogether. For `Listener`, `BlockListener`, `DividedPlan` and "
        "`GrowingSchedule` it started from settings found by hand. `PeakListener` has settings found by hand alone."
    )


def without_memory(some: list[Board]) -> str:
    """The best agents of the class of information that the papers on social learning allow."""
    parts = []
    for board in standing(some):
        best = board.best(information_=MEMORYLESS)
        score = None if best is None else board.evaluated(best, information_=MEMORYLESS)
        if best is not None and score is not None and "preference" in BENCHMARKS[board.task.env].receives:
            parts.append(f"{score.value:.2f} in {place(board)} ({board.label(best).partition(' (')[0]})")
    return (
        "Agents without memory act only on their current observation. Without privacy the best of them score "
        f"{listed(parts)}."
    )


def trust() -> str:
    """Scores by the party that agents trust, from the study `trust`."""
    _, results, _ = stored("trust")
    lines = []

    def add(env: str, budget: float, models: dict[str, str]) -> None:
        for size in SIZES[env]:
            groups = results.select(env=env, size=size)
            for trusted, words in models.items():
                _, score = champion(groups, trusted, budget)
                agents = size_in_words(groups.groups[0].config)
                lines.append((f"{world_title(env)}, {agents}", f"{budget:g}", words, score_text(score)))

    uploads = {LOCAL: "nobody: noise on each upload", DISTRIBUTED: "a secure sum", CENTRAL: "a curator"}
    answers = {LOCAL: "nobody: noise on each answer", SHUFFLE: "a shuffler"}
    training = {LOCAL: "nobody: noise on each update", CENTRAL: "a curator, who samples clients and adds noise once"}
    add("federated_bandit_v0", 1.0, uploads)
    add("gossip_bandit_v0", 1.0, answers)
    add(TRAINING, 10.0, training)
    return table(("environment", "budget", "agents trust", "score of the best agent"), lines)


def needed() -> int:
    """The number of trainings that an answer on learning takes."""
    return trainings_needed(len(compared(stored("agents")[1])))


def learned() -> str:
    """The lead of learned agents, from the tables of the leaderboard."""
    _, results, _ = stored("agents")
    lines = [
        (world_title(env), board.label(one.rival).partition(" (")[0], score_text(one.lead), one.counted, answer)
        for env, (board, one, answer) in compared(results).items()
    ]
    return table(("environment", "paper's best", "lead of the best learner", "trainings", "learning is better"), lines)


PARTS: dict[str, Callable[[], str]] = {
    "Chen et al. 2021: gossip about options": chen2021,
    "Tao et al. 2023: options spread by copying": tao2023,
    "Li & Song 2022: federated bandits": li2022,
    "Jiang 2020: incentives and round stopping": jiang2020,
    "Zhou et al. 2021: recommenders that share feedback": zhou2021,
    "Azize & Basu 2022: private bandits with a curator": azize2022,
    "Chowdhury & Zhou 2023: private bandits without a curator": chowdhury2023,
}
"""The papers' sections."""


def findings() -> str:
    """Markdown."""
    papers = "\n".join(f"## {title}\n\n{part()}" for title, part in PARTS.items())
    return f"""\
{papers}
## What communication is worth

A score of 0 is the best agent that does not communicate. A score of 1 is an agent with all agents' data. Both are
without privacy. A budget is the epsilon that an agent may spend in a run; the [leaderboard](leaderboard.md) says what
data it protects.

{budgets()}
### Trust

More in {{doc}}`trust`. In federated training a score of 0 is a client that trains alone.

{trust()}
### Learning

The lead is the learner's score minus that of the best algorithm from the environment's paper. The last column says
yes or no only for {needed()} or more trainings. More in the [leaderboard](leaderboard.md).

{learned()}"""
