"""Write what README, `docs/findings.md` and `docs/speed.md` say of the papers, the agents and speed.

It comes from what benchmarks, tools and full runs have left in `benchmarks/results` and `tools/results`.
"""

import json
import math
import re
import statistics
import textwrap
from pathlib import Path
from typing import Any

from store_results import load as stored

from taciturn.bench import stored_verdicts
from taciturn.bench.answers import learns
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
from taciturn.bench.questions import compared
from taciturn.bench.score_tables import plain_ppo
from taciturn.bench.scores import MEMORYLESS, NO, OPEN, YES, Board, boards, score_text, standing
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, VERDICTS, Verdict
from taciturn.bench.tables import listed
from taciturn.bench.tasks import (
    BENCHMARKS,
    BUDGETS,
    CLASSIC,
    PAPER,
    STANDARD,
    TASK_AGENT,
    budgets_of,
    covered,
    shares,
    size_of,
    world_title,
)

ROOT = Path(__file__).parents[1]
END = "<!-- end -->"


def load(name: str) -> dict[str, Any]:
    """What a benchmark of speed has recorded."""
    result: dict[str, Any] = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    return result


def table() -> str:
    """Markdown."""
    gossip, social, elicitation, ucb = (load(name) for name in ("gossip", "social", "elicitation", "ucb_peer"))
    bandit, stopping, view = (load(name) for name in ("federated_bandit", "array_step", "parallel_view"))
    social_round = social["round_10000_agents_20_options_ms"]["median"]
    lean = stopping["10000 lean environments"]["array_is_times_faster"]
    shop, start = load("recommender"), load("import_time")
    campaign = 1000 * elicitation["campaign_of_100000_individuals_4_values"]["seconds"]
    crowd = view["worlds"]["social_bandit_v0"]["times_faster"]
    cdpmab = bandit["run_ms_per_replica"]["CDPMAB"]
    rows = [
        (
            f"gossip, 400 agents, 3,000 runs: {gossip['ticks'] / 1e6:.0f} million ticks",
            f"{gossip['compiled_seconds']:.1f} s",
            f"{gossip['compiled_times_faster_than_by_hand']:,} times that of a loop over agents and messages",
        ),
        (
            "social learning, 10,000 agents, 20 options: a round",
            f"{social_round:.1f} ms",
            f"{crowd:.1f} times that of a loop over dicts, as PettingZoo steps of 1,000 agents",
        ),
        ("federated bandit, CDP-MAB: a run of 100,000 slots", f"{cdpmab:.1f} ms", ""),
        (
            f"UCB1, {ucb['agents']} agents, {ucb['arms']} arms, {ucb['slots']:,} slots",
            f"{ucb['seconds']['taciturn simulate']:.2f} s",
            f"{ucb['ratio_to_simulate']['SMPyBandits loop']:.0f} times that of SMPyBandits "
            f"{ucb['versions']['SMPyBandits']}",
        ),
        ("elicitation: a campaign of 100,000 individuals", f"{campaign:.0f} ms", ""),
        (
            f"round stopping: a step of {stopping['replicas']:,} replicas, each",
            f"{stopping['array_ns']:.0f} ns",
            f"{lean:.0f} times that of `SyncVectorEnv` over as many lean scalar environments",
        ),
        (
            f"a PettingZoo step of {view['agents']:,} agents who vote",
            f"{view['parallel_view_ms_per_step']:.1f} ms",
            f"{view['times_faster']:.1f} times that of a loop over dicts",
        ),
        (
            f"recommender, T-PriDO, {shop['agents']} agents, {shop['rounds']:,} rounds: a round of an agent",
            f"{shop['compiled_us']:.0f} µs (compiled), {shop['uncompiled_us']:.0f} µs (uncompiled, 200 items)",
            f"{shop['compiled_times_faster_than_recounting']:,} times that of recounting the history, in "
            f"{shop['few_rounds']} rounds",
        ),
        (
            "`import taciturn`",
            f"{start['import_taciturn_s']:.1f} s",
            f"{1 / start['ratio']:.2f} times that of what it imports",
        ),
    ]
    lines = ["| what | time | speed |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)])


def claimed(study: str, claim: str) -> Verdict:
    """The verdict on the first claim of a kept study that begins with `claim`."""
    return next(one for one in stored(study)[2] if one.quantity.startswith(claim))


def number(study: str, claim: str, label: str = "") -> float:
    """The computed number of the first claim of a kept study that begins with `claim`."""
    result = claimed(study, claim)
    return result.numbers[list(result.labels).index(label)].value


def stated(study: str, claim: str) -> str:
    """What the paper says, of the first claim of a kept study that begins with `claim`."""
    return str(claimed(study, claim).paper)


def reason(study: str, claim: str, pattern: str) -> list[float]:
    """The numbers that `pattern` finds in the explanation of a claim."""
    return [float(x.replace(",", "")) for x in re.findall(pattern, claimed(study, claim).reason)]


def learned() -> str:
    """The finding on learned agents, from the tables of the leaderboard."""
    _, results, _ = stored("agents")
    ppo = plain_ppo(results).rows
    earns, measures = ([row[place] for row in ppo].count("yes") for place in (3, 4))
    counts = sorted({one.leads.size for _, one, _ in compared(results).values()})
    text = (
        f"**Learned agents** ([leaderboard](leaderboard.md)). {learns(results)} There is one question for each "
        "environment: are more than half of the trainings of the best learner better than the best of the paper's "
        "algorithms? One half of the seeds selects both agents, and the other half compares them (with "
        f"{' or '.join(map(str, counts))} trainings). Together the answers have confidence 95%. PPO with the defaults "
        f"of Stable-Baselines3 earns a larger return than random play in more than half of its trainings in {earns} of "
        f"{len(ppo)} environments, and has a better measure in {measures}."
    )
    return filled(text)


def filled(text: str) -> str:
    """A point of a list, in lines of a page."""
    return textwrap.fill(text, 140, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def place(board: Board) -> str:
    """A standard task in words."""
    title = world_title(board.task.env)
    return title if board.task.name == STANDARD else f"{title} ({board.task.variant.what})"


def together() -> str:
    """The finding on being together and on totals of epsilon, from the boards of the standard tasks."""
    _, results, _ = stored("agents")
    some = boards(results)
    lines = ["| task | none | 10 | 3 | 1 | best |", "|---|---:|---:|---:|---:|---|"]
    pays, lost = list[str](), list[str]()
    for board in standing(some):
        totals = budgets_of(board.task.env)
        if board.scale is None or len(totals) == 1 or board.task.control:
            continue
        known = [one for budget in totals for one in standing(some, budget) if one.task.plain == board.task.plain]
        best = [(there.label(one), there.evaluated(one)) for there in known if (one := there.best()) is not None]
        scores = [score for _, score in best if score is not None]
        if len(scores) < len(totals):
            continue  # not run at all totals yet
        names = dict.fromkeys(name.partition(" (")[0] for name, _ in best)
        lines.append(f"| {place(board)} | {' | '.join(map(score_text, scores))} | {', then '.join(names)} |")
        (pays if scores[-1].low > 0 else lost).append(place(board))
    text = (
        "**Communication under a privacy budget** ([leaderboard](leaderboard.md), [budgets](privacy-totals.md)). The "
        "table has the scores of the best agents: 0 is the best non-communicating agent, 1 is full information, "
        "both without "
        "privacy. The columns are budgets of epsilon for an agent's whole run (`none`: without privacy). "
        f"{covered(board.task.env for board in standing(some))} At a budget of 1 communication significantly helps in "
        f"{listed(pays or ['none'])}{f', and not in {listed(lost)}' if lost else ''}. "
        f"{without_memory(some)} {searched()}"
    )
    return filled(text) + "\n" + "\n".join(f"  {line}" for line in lines) + "\n\n"


def without_memory(some: list[Board]) -> str:
    """The best agents of the class of information that the papers on social learning allow."""
    told = []
    for board in standing(some):
        best = board.best(information_=MEMORYLESS)
        score = None if best is None else board.evaluated(best, information_=MEMORYLESS)
        if best is not None and score is not None and "preference" in BENCHMARKS[board.task.env].receives:
            told.append(f"{score.value:.2f} in {place(board)} ({board.label(best).partition(' (')[0]})")
    return f"The best agents without memory score {listed(told)}, without privacy."


def searched() -> str:
    """How settings were found, of whom and how many."""
    tuning = json.loads((ROOT / "tools/results/tuning.json").read_text(encoding="utf-8"))
    reached: dict[str, list[int]] = {}
    for one in tuning["entries"].values():
        reached.setdefault(one["kind"], []).append(len(one["tried"]))
    told = [
        f"{int(statistics.median(reached[kind]))} for {name} (at least {min(reached[kind])})"
        for kind, name in (
            (TASK_AGENT, "hand-designed agents"),
            (PAPER, "the papers' algorithms"),
            (CLASSIC, "textbook algorithms"),
        )
    ]
    return (
        "Settings were tuned on training streams with the same search budget for all agents: "
        f"{tuning['budget']['trials']} settings within {tuning['budget']['seconds']:g} s of a core for an agent and a "
        f"task. The median number of settings tried was {listed(told)}. `Listener`, `BlockListener`, `DividedPlan` and "
        "`GrowingSchedule` started from settings found by hand, and no other agent did."
    )


def by_whom_agents_trust() -> str:
    """Three sentences on trust models, from the study `trust`."""
    _, results, _ = stored("trust")

    def best(env: str, size: str, budget: float, trust: str) -> str:
        _, result = champion(results.select(env=env, size=size), trust, budget)
        return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"

    def by_size(env: str, budget: float, told: dict[str, str], join: str) -> str:
        """`told` says in words what each model does."""
        parts = []
        for size in SIZES[env]:
            config = results.select(env=env, size=size).groups[0].config
            scores = join.join(f"{best(env, size, budget, model)}{words}" for model, words in told.items())
            parts.append(f"{scores} ({size_in_words(config)})")
        return "; ".join(parts)

    uploads = {LOCAL: " with noise on each upload", DISTRIBUTED: " with a secure sum", CENTRAL: " with a curator"}
    training = {LOCAL: " with noise on each update", CENTRAL: " with noise on the average of random clients"}
    bandit, gossip = "federated_bandit_v0", "gossip_bandit_v0"
    text = (
        "**Trust models** ([table and figure](trust.md)). The scores of the best agents in the federated bandit at a "
        f"budget of 1 are {by_size(bandit, 1.0, uploads, ', ')}. If the answers in gossip are shuffled, the scores "
        f"at a budget of 1 change from {by_size(gossip, 1.0, {LOCAL: '', SHUFFLE: ''}, ' to ')}. "
        f"In federated training at a budget of 10 the scores are {by_size(TRAINING, 10.0, training, ', ')} (0 is a "
        f"client that trains alone). {covered((bandit, gossip, TRAINING))}"
    )
    return filled(text)


def quiet_noise() -> float:
    """The variance of the published code's noise, as a share of that of the theorem."""
    return number("chowdhury2023-1", "The published code draws the noise of theorem 1", "epsilon = 0.1")


def findings() -> str:
    """Markdown."""
    optimum, rule = "Section 3.4.1: lambda*", "Section 3.4.1: thresholds"
    best = ", ".join(f"{number('jiang2020-3-3', rule, label):.0f}" for label in ("k*", "k0*"))
    (stored,) = reason("jiang2020-3-3", optimum, r"\(10, 8\): [\d.]+ \(([\d.]+)%\)")
    close = "Section 2.3: with many individuals the payment is close to the bound"
    paid = [
        reason("jiang2020-2", close, rf"four values: .*?([\d.]+) \(N = {size}\)")[0] for size in ("1,000", "30,000")
    ]
    rounds, sooner = (number("li2022-6", "Figure 6: R = 4 and R = 5", f"T = 10^{n}") for n in (5, 4))
    alike = number("li2022-8", "Figure 8: CDP-MAB reaches 1/M")
    small = number("li2022-4", "Section IV-C1", "epsilon = 0.1")
    differing = number("li2022-8", "Figure 8: CDP-MAB has similar regret")
    first, held = number("chen2021-2", "Figure 2b"), number("chen2021-5", "Theorem 1", "epsilon = 3")
    promised = stated("chen2021-5", "Theorem 1")
    (level,) = reason("chen2021-3", "Figure 3: rounds", r"K = 8: ([\d.]+) \(")
    later, much_later = (number("chen2021-6", "Figure 6: PPCL", f"until {share}") for share in ("90%", "99.9%"))
    bound = "Figure 4: within 6 delta with N = 10,000"
    most, written = stated("tao2023-4", bound), number("tao2023-4", bound, "epsilon = 1")
    silent = number("tao2023-4", "Without noise")
    (idle,) = reason("tao2023-2", "Figure 2a: within 6 delta", r"N = 10,000, M = 20: [\d.]+, ([\d.]+),")
    reading = "At most 6 delta (N = 10,000, M = 20, epsilon = 1): fresh noise per copy, one estimate for all agents"
    fresh = number("tao2023-variants", reading)
    here = "peak, d = 2"
    linear = "Table 1: T-PriDO over LinUCB"
    rival, said = number("zhou2021-6", linear, here), stated("zhou2021-6", linear)
    exact = claimed("zhou2021-6", "T-PriDO earns more than LinUCB without noise")
    plain = exact.numbers[list(exact.labels).index(here)]
    accuracy = number("zhou2021-10", "Table 3: accuracy of T-PriDO at epsilon = 2", f"{here}: n = 70,000")
    left = number("zhou2021-10", "T-PriDO keeps most of its gain over random play at epsilon = 2, NT = 0.5", here)
    charged = number("zhou2021-10", "Figure 11 and Theorem 2: the privacy loss of T-PriDO is at most epsilon", here)
    chosen = number("zhou2021-10", "Remark 1: the exponential mechanism can be neglected", here)
    first_term = "Theorem 3: the first term of its bound is sublinear (exponent of n as printed"
    power = number("zhou2021-6", first_term, "d = 2")
    lowest = "Section 5, Figure 2: AdaP-KLUCB achieves the lowest regret"
    ten_times = "Section 5: both have almost 10 times lower regret than the competing algorithms"
    elimination = number("azize2022-2", ten_times, "DP-SE over AdaP-KLUCB")
    (adaptive,) = reason("azize2022-2", lowest, r"AdaP-KLUCB ([\d,]+)")
    (younger,) = reason("azize2022-2", lowest, r"DP-KLUCB ([\d.]+)")
    (bolder,) = reason("azize2022-2", lowest, r"alpha = 1 and 0.3: [\d.,]+ and ([\d.]+)")
    (least,) = reason("azize2022-2", lowest, r"and ([\d.]+) \(Azize et al. 2025\)")
    above = "Section 5, Figure 3: above epsilon = 0.3 the regret of AdaP-KLUCB does not depend on it"
    falls = [number("azize2022-3", above, step) for step in ("from 0.3 to 1", "from 1 to 3", "from 3 to 10")]
    trusting = "Section 7, Figure 1: as T becomes large, Dist-DP-SE matches DP-SE's regret"
    easy, hard = (number("chowdhury2023-1", trusting, f"{kind}, epsilon = 0.1") for kind in ("easy", "hard"))
    skellam = number("chowdhury2023-1", "Section 7: s = 10 gains considerably", "easy, epsilon = 0.1")
    quiet = quiet_noise()
    return f"""\
- **Chen et al. 2021** (`chen2021`). PPCL brings all 400 agents to the best of four options after {first:.0f} rounds; the paper reports around 20.
  With PPCL the mean share of the best option reaches 90% {-later:.1f} rounds earlier than with CBL, and 99.9% {-much_later:.1f} rounds earlier.
  In the paper CBL converges ten rounds earlier than PPCL. Consensus is not absorbing under finite epsilon: at t = 50 all agents agree on the best option in {held:.2f} of
  the runs, and Theorem 1 states {promised}. With eight options the share of the best one levels off at {level:.2f}. Epsilon is per reply, and
  every agent replies at every tick.
- **Tao et al. 2023** (`tao2023`). The algorithm as written does not give the regrets of Figures 2 to 4 at any of its finite epsilons. With
  10,000 agents, 20 options and epsilon = 1 the regret after 10,000 rounds is {written:.2f}; the paper has {most}. Agents that learn nothing have
  {idle:.2f}, and without noise the regret is {silent:.2f}. Noise raises less popular options faster than selection removes them. With fresh noise
  on every copy and one estimate for all agents, the regret is {fresh:.2f}, within the paper's bound (computed for shares of the population, not
  agent by agent).
- **Li & Song 2022** (`li2022`). The order of the curves holds in most figures. With random means, as in the paper, the server's algorithm
  with 5 agents has {alike:.2f} of a single agent's regret; the paper states 1/M. If rewards differ between agents, its regret is
  {differing:.2f} times as high. A message is (M epsilon)-DP by the theorems, and the figures plot 1/M of it. By the paper's own
  condition, the privacy noise determines the length of exploration only if epsilon is below {small:.2f} times the smallest value in the figures.
  The paper states that R = 4 and R = 5 rounds have almost the same regret. R = 4 has {rounds:.2f} times the regret of R = 5 at T = 10^5, and
  {sooner:.2f} times at T = 10^4, the horizon that the text implies.
- **Jiang 2020, chapter 2** (`jiang2020/2`). Theorem 1 prints its bound on the payment as g' A (equation 2.13), which is true but far too weak.
  With g' / A, as in equation 2.19, WINTALL pays {paid[0]:.2f} times the bound at 1,000 individuals and {paid[1]:.3f} times at 30,000 (four
  values). The target is every individual's best response to any belief, true or false, if no individual considers changing the winner; with few
  individuals such a change may pay. A second equilibrium exists, in which all individuals give up no privacy at all. Costs proportional to log(1
  + eps), which the theorem does not cover, may break the result: in the limit of many individuals with M values, 0 is better than a target e if
  log(1 + e) > e (e + M) / ((1 + e) M). This holds for e = 1 and M = 4, and fails for e = 2 and M = 3.
- **Jiang 2020, chapter 3** (`jiang2020/3`). The stated model reproduces the round times. The paper's other numbers follow from three different
  models, all with R(k) = c - a/k. The upper bound of the rate follows from the stated model, the thresholds follow if clients are always ready,
  and the optimal rate follows if the queue never empties. For its lower bound we found a formula that fits, but no derivation. Under the stated model the optimal thresholds are
  ({best}). The paper's (10, 8) earn {100 - stored:.1f}% less.
- **Zhou et al. 2021** (`zhou2021`). The paper's data are not available, so our data are synthetic: compare orders, not numbers. Our runs have
  1,000 rounds, or 210 with noise on shared data, instead of 70,000; the numbers are for the
  reward `peak`, contexts of two dimensions, and NT = 0.5 (agents request data after a feedback below NT). Regret
  falls from isolated agents to a ring and to a complete graph, and with the frequency of requests. T-PriDO without noise earns {rival:.2f} times
  as much as LinUCB with noise, which is the comparison of the paper (the paper has {said}), and {plain.value:.2f} [{plain.low:.2f},
  {plain.high:.2f}] times as much as LinUCB without noise. At epsilon = 2 it earns {accuracy:.2f} of its reward without noise; the paper has 0.98.
  T-PriDO keeps {left:.2f} of its gain over random play. The costliest feedback is charged {charged:.0f} times epsilon, because it is released to
  every asking agent, and again in smaller cells. Requests also reveal poor feedback, at any epsilon. The exponential mechanism is not negligible
  either: regret is {chosen:.2f} times as high. As printed, the first term of Theorem 3's bound grows like n^{power:.2f}.
- **Azize & Basu 2022** (`azize2022`; no environment comes from this paper: private bandits with a trusted curator). With the paper's parameters
  AdaP-KLUCB has the lowest regret of its algorithms. DP-SE has {elimination:.1f} times as much; the paper states almost 10. AdaP-KLUCB's regret
  depends on epsilon above 0.3, too: it falls {math.prod(falls):.1f} times from 0.3 to 10. Most of the regret is due to alpha = 3.1, the
  value that the proof needs: with alpha = 0.3 it is {bolder:.0f} instead of {adaptive:,.0f}. DP-KLUCB, three years younger, has {younger:.0f}; the asymptotic lower bound is
  {least:.0f}.
- **Chowdhury & Zhou 2023** (`chowdhury2023`; no environment comes from this paper: elimination without a trusted curator). The noise of the
  published code has {1 / quiet:.0f} times less variance than theorem 1 requires (a sum of 64 users, epsilon = 0.1), and an audit refutes its
  epsilon. With the noise of the theorem Dist-DP-SE has {easy:.2f} times the regret of DP-SE on easy instances and {hard:.2f} times on hard ones
  (epsilon = 0.1); the paper states that they match. On easy
  instances it has {skellam:.2f} times the regret of the variant with Skellam noise.
{together()}{by_whom_agents_trust()}{learned()}"""  # noqa: E501 - a page's own lines


def found() -> str:
    """Five findings for README, each with a link."""
    papers = stored_verdicts.stored()
    counts = {word: sum(paper["claims"][word] for paper in papers.values()) for word in VERDICTS}
    rule = ", ".join(f"{number('jiang2020-3-3', 'Section 3.4.1: thresholds', label):.0f}" for label in ("k*", "k0*"))
    told = [
        f"Of {sum(counts.values())} claims of {len(papers)} papers, {counts[AGREES]} reproduce "
        f"quantitatively, {counts[IN_KIND]} qualitatively, and {counts[DIFFERS]} do not reproduce "
        "([verdicts](papers/docs/verdicts.md)).",
        "Scores (0: no communication, 1: full information without privacy) of the best agents at an event-level "
        f"epsilon of 1 for a whole run, by the number of agents: {survives()} ([leaderboard](docs/leaderboard.md)).",
        f"{short_of_learning()} ([leaderboard](docs/leaderboard.md)).",
        f"The optimal rule for round stopping has thresholds ({rule}); the paper states (10, 8) "
        "([findings](docs/findings.md)).",
        "In published code for private arm elimination (Dist-DP-SE) the noise has "
        f"{1 / quiet_noise():.0f} times too little variance ([findings](docs/findings.md)).",
    ]
    return "\n".join(textwrap.fill(f"- {one}", 140, subsequent_indent="  ", break_on_hyphens=False) for one in told)


def survives() -> str:
    """The scores of the best agents at the strictest budget, by environment and number of agents."""
    _, results, _ = stored("agents")
    scores: dict[str, dict[int, float]] = {}
    for board in standing(boards(results), BUDGETS[-1]):
        best = board.best()
        score = None if best is None else board.evaluated(best)
        if score is not None and shares(board.task.env) and not board.task.control:
            scores.setdefault(world_title(board.task.env), {}).setdefault(size_of(board.task)[0], score.value)
    parts = []
    for world, sizes in scores.items():
        texts = [f"{score:.2f} ({agents})" for agents, score in sorted(sizes.items())]
        parts.append(f"{' and '.join(texts)} in {world}")
    return listed(parts)


def short_of_learning() -> str:
    """Where learning beats the paper's best algorithm, and where it does not, in a sentence."""
    _, results, _ = stored("agents")
    parts, trainings = dict[str, list[str]](), set[int]()
    for board, one, word in compared(results).values():
        parts.setdefault(word, []).append(f"{world_title(board.task.env)} ({one.lead.value:+.2f})")
        trainings.add(one.leads.size)
    won = listed(parts.get(YES, ["no environment"]))
    rest = [f"{word} in {listed(parts[key])}" for key, word in ((NO, "worse"), (OPEN, "undecided")) if key in parts]
    counts = " or ".join(map(str, sorted(trainings)))
    return f"Leads in score of {counts} trainings over the paper's best algorithm: significant in {won}; {listed(rest)}"


def fast() -> str:
    """What was reached and what was missed, in a few lines, from the table of docs/speed.md."""
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and " | " in line]
    measured = {(row[0], row[1]): row for row in rows if len(row) == 5}
    reached, missed = ([row for row in measured.values() if row[4] == word] for word in ("yes", "no"))

    def of(work: str, peer: str) -> str:
        told = next(row[2] for (what, whom), row in measured.items() if what.startswith(work) and peer in whom)
        return told.replace("times its time", "times as long as")

    forms = [row for row in missed if row[0].startswith(("Parallel step", "AEC step"))]
    text = (
        f"A step of round stopping takes {of('single step, RoundStopping', 'CartPole')} a step of CartPole. A step of "
        f"10,000 replicas takes {of('array step, 10,000 replicas: round', 'gymnax')} one of gymnax's bandit, and a "
        f"federated round of 100 clients is {of('a federated round, 100 clients, digits, softmax', 'pfl')} as in pfl. "
        f"We meet {len(reached)} of {len(reached) + len(missed)} speed targets; {len(forms)} of the {len(missed)} "
        "missed ones are steps in PettingZoo's interfaces ([speed](docs/speed.md))."
    )
    return textwrap.fill(text, 140, break_on_hyphens=False)


def parts() -> list[tuple[Path, str, str]]:
    """Files, the names of parts of them between comments, and what must stand there."""
    readme = ROOT / "README.md"
    return [
        (ROOT / "docs/findings.md", "findings", findings().rstrip()),
        (ROOT / "docs/speed.md", "summary", table()),
        (readme, "found", found()),
        (readme, "fast", fast()),
    ]


def with_part(text: str, name: str, part: str) -> str:
    """A page with what must stand between the comments of this name."""
    before, begin, rest = text.partition(f"<!-- {name}: written by tools/summary.py -->\n")
    assert begin, name
    return f"{before}{begin}{part}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> None:
    for file, name, part in parts():
        file.write_text(with_part(file.read_text(encoding="utf-8"), name, part), encoding="utf-8")
