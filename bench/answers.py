"""The findings of the standing benchmark, one question and one sentence each; they open its report and its page."""

import math
from collections.abc import Iterable, Sequence

from taciturn.bench.questions import compared
from taciturn.bench.results import Group, Results
from taciturn.bench.scores import NO, OPEN, YES, Board, boards, standing
from taciturn.bench.statistics import Estimate
from taciturn.bench.tables import listed, number
from taciturn.bench.tasks import (
    BUDGETS,
    LISTENS,
    NO_BUDGET_LIMIT,
    PROTECTED,
    STANDARD,
    shares,
    size_of,
    world_title,
)


def answers(results: Results) -> list[str]:
    """For full runs: the best agents under the strictest budget, the sizes at which communication pays, the value of
    messages, and the environments in which learning wins."""
    some = boards(results)
    return [text for text in (best(some), pays(some), fronts(some), learns(results)) if text]


def best(some: Sequence[Board]) -> str:
    """The best agent of each standard task under the strictest budget played."""
    budget = next(
        (budget for budget in reversed(BUDGETS) if any(one.best() for one in standing(some, budget))), NO_BUDGET_LIMIT
    )
    winners, lost = dict[str, list[str]](), list[str]()
    for board in standard(standing(some, budget)):
        winner = board.best()
        score = None if winner is None else board.evaluated(winner)
        if winner is not None and score is not None:
            if score.low > 0:
                agent = short(board, winner)
                partly = budget != NO_BUDGET_LIMIT and PROTECTED[board.task.env].left_out
                words = f"{by_size(some, board, agent)}{f'; {board.task.covers}' if partly else ''}"
                winners.setdefault(agent, []).append(f"{world_title(board.task.env)} ({words})")
            else:
                lost.append(world_title(board.task.env))
    parts = [listed([f"{agent} in {listed(worlds)}" for agent, worlds in winners.items()])] if winners else []
    parts += [f"no agent is shown to beat the best non-communicating agent in {listed(lost)}"] if lost else []
    where = "without privacy" if budget == NO_BUDGET_LIMIT else f"at a budget of epsilon = {budget:g}"
    return sentence(f"Who is best {where}?", parts)


def by_size(some: Sequence[Board], board: Board, agent: str) -> str:
    """The score of the best agent of a standard task, and its scores in the other sizes in which it is best, too."""
    scores = dict[int, float]()
    for one in standing(some, board.task.budget):
        winner = one.best()
        same = one.task.env == board.task.env and (one is board or (one in sized([one]) and only_size(one)))
        if same and winner is not None and short(one, winner) == agent and (score := one.evaluated(winner)) is not None:
            scores.setdefault(size_of(one.task)[0], score.value)
    first, *others = sorted(scores.items())
    parts = [f"{first[1]:.2f} with {first[0]} {size_of(board.task)[1]}", *(f"{x:.2f} with {n}" for n, x in others)]
    return ", ".join(parts)


def pays(some: Sequence[Board]) -> str:
    """The number of agents from which the best agent is shown to beat no communication, without privacy and under the
    strictest budget: over all sizes played, including held-out tasks that differ only in size."""
    results = []
    for budget in (NO_BUDGET_LIMIT, BUDGETS[-1]):
        sizes: dict[str, dict[int, bool]] = {}
        for board in sized(some):
            winner = board.best()
            score = None if winner is None else board.evaluated(winner)
            if board.task.budget == budget and score is not None and shares(board.task.env):
                known = sizes.setdefault(world_title(board.task.env), {})
                agents, _ = size_of(board.task)
                known[agents] = known.get(agents, True) and score.low > 0
        always, parts = dict[int, list[str]](), list[str]()
        for world, known in sizes.items():
            start = first(known)
            if start == min(known):
                always.setdefault(start, []).append(world)
            elif start is None:
                parts.append(f"not in {world} (up to {max(known)})")
            else:
                parts.append(f"in {world} from {start} on (not at {max(size for size in known if size < start)})")
        everywhere = ", ".join(f"{start} or more in {listed(always[start])}" for start in sorted(always))
        parts[:0] = [f"at every size of these tables ({everywhere})"] if always else []
        if parts:
            where = "without privacy" if budget == NO_BUDGET_LIMIT else f"at a budget of epsilon = {budget:g}"
            results.append(f"{where} {', '.join(parts)}")
    return sentence("How many agents are needed before communication helps?", results)


def first(known: dict[int, bool]) -> int | None:
    """The smallest size such that it and all larger ones are True; None if the largest is not."""
    result = None
    for size in sorted(known, reverse=True):
        if not known[size]:
            break
        result = size
    return result


def sized(some: Iterable[Board]) -> list[Board]:
    """The boards of standard tasks, and of held-out tasks that differ only in the number of agents."""
    counts = {"num_agents", "num_clients"}
    return [
        one
        for one in some
        if not one.task.control
        and (not one.task.held_out or (set(one.task.variant.params) <= counts and only_size(one)))
    ]


def only_size(board: Board) -> bool:
    """Whether a variant has parameters, and no other difference."""
    variant = board.task.variant
    return bool(variant.params) and not variant.faults and not variant.strangers and variant.others is None


def fronts(some: Sequence[Board]) -> str:
    """In each standard task the agents on the front of score and messages, if communication pays there."""
    result = list[str]()
    for board in standard(standing(some)):
        winner = board.best()
        evaluated = None if winner is None else board.evaluated(winner)
        if not shares(board.task.env) or evaluated is None or not evaluated.low > 0:
            continue
        agents, unit = size_of(board.task)
        texts = [f"{score:.2f} with {number(round(count))} ({name})" for count, score, name in front(board)]
        result.append(f"in {world_title(board.task.env)} with {agents} {unit} {', '.join(texts)}")
    return sentence("How does the score grow with the number of messages in a run, without privacy?", result)


def front(board: Board) -> list[tuple[float, float, str]]:
    """The messages, scores and names of the agents that no other agent beats with as few messages, fewest first; only
    scores of at least 0."""
    known = [
        (count, round(score.value, 2) + 0.0, short(board, one))
        for one in board.ranked()
        if (score := board.score(one)) is not None and (count := messages_of(board, one)) is not None
    ]
    result = list[tuple[float, float, str]]()
    for one in sorted(known, key=lambda one: (one[0], -one[1])):
        if one[1] >= 0 and all(one[1] > other[1] for other in result):
            result.append(one)
    return result


def messages_of(board: Board, group: Group) -> float | None:
    """The mean number of messages that all agents send in a run (0 if the agents ignore them); None if unknown."""
    sent = board.messages(group)
    if math.isnan(sent):
        return None
    listens = LISTENS not in group.metrics or bool(group.metrics[LISTENS].any())
    return sent if listens else 0.0


def learns(results: Results) -> str:
    """The environments in which the best learner beats the paper's best algorithm: number of trainings, lead, and
    answer."""
    parts: dict[str, list[str]] = {YES: [], NO: [], OPEN: []}
    for board, one, word in compared(results).values():
        lead = one.lead
        bounds = "" if math.isnan(lead.low) else f" [{abs_text(lead)}]"
        rival = short(board, one.rival)
        effect = f"{one.counted} than {rival}, by {abs(lead.value):.2f}{bounds}"
        parts[word].append(f"{world_title(board.task.env)} ({effect})")
    names = {YES: "yes in", NO: "no in", OPEN: "not decided in"}
    return sentence(
        "Does learning beat the papers' algorithms?",
        [f"{names[word]} {listed(some)}" for word, some in parts.items() if some],
    )


def abs_text(lead: Estimate) -> str:
    """The interval of a lead, or of a deficit as a positive number."""
    low, high = (lead.low, lead.high) if lead.value >= 0 else (-lead.high, -lead.low)
    return f"{low:.2f}, {high:.2f}"


def sentence(question: str, parts: Sequence[str]) -> str:
    """A question and a sentence from these parts; empty without any."""
    text = "; ".join(parts)
    return f"{question} {text[:1].upper()}{text[1:]}." if text else ""


def standard(some: Iterable[Board]) -> list[Board]:
    """The standard-size boards that have a scale and are not controls."""
    return [one for one in some if one.task.name == STANDARD and one.scale is not None and not one.task.control]


def short(board: Board, group: Group) -> str:
    """An agent's name without parameters."""
    return board.label(group).partition(" (")[0]
