"""The findings of the standing benchmark, one question and a short sentence for each environment; its report and its
page begin with them."""

import math
from collections.abc import Iterable, Sequence

from taciturn.bench.questions import compared, trainings_needed
from taciturn.bench.results import Group, Results
from taciturn.bench.scores import Board, boards, score_text, standing
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
    return [text for text in (best(some), pays(some), fronts(some), trainings(results)) if text]


def best(some: Sequence[Board]) -> str:
    """The best agent of each standard task under the strictest budget played."""
    budget = next(
        (budget for budget in reversed(BUDGETS) if any(one.best() for one in standing(some, budget))), NO_BUDGET_LIMIT
    )
    parts = list[str]()
    for board in standard(standing(some, budget)):
        winner = board.best()
        score = None if winner is None else board.evaluated(winner)
        if winner is None or score is None:
            continue
        count, agents = size_of(board.task)
        gains, others = in_other_sizes(some, board)
        sizes = " or ".join(str(n) for n in (count, *others))
        text = "; ".join([f"no agent is shown to beat the best non-communicating agent with {sizes} {agents}", *gains])
        if score.low > 0:
            agent = short(board, winner)
            left_out = PROTECTED[board.task.env].left_out if budget != NO_BUDGET_LIMIT else ()
            partly = (
                f" (this budget does not count the messages on the channel `{listed(left_out)}`)" if left_out else ""
            )
            text = f"{agent} scores {by_size(some, board, agent)}{partly}"
        parts.append(f"{capital(world_title(board.task.env))}: {text}.")
    return answer(f"Who is best {at(budget)}?", parts)


def in_other_sizes(some: Sequence[Board], board: Board) -> tuple[list[str], list[int]]:
    """What the best agents score in the other sizes of a standard task, where they are shown to beat no communication,
    and the sizes where they are not."""
    gains, others = list[str](), list[int]()
    for one in sized(standing(some, board.task.budget)):
        winner = one.best() if one.task.env == board.task.env and only_size(one) and one is not board else None
        if winner is not None and (score := one.evaluated(winner)) is not None:
            agents = size_of(one.task)[0]
            if score.low > 0:
                gains.append(f"{short(one, winner)} scores {score_text(score)} with {agents}")
            else:
                others.append(agents)
    return gains, others


def by_size(some: Sequence[Board], board: Board, agent: str) -> str:
    """The score of the best agent of a standard task, and its scores in the other sizes in which the same agent is
    best."""
    scores = dict[int, str]()
    for one in standing(some, board.task.budget):
        winner = one.best()
        same = one.task.env == board.task.env and (one is board or (one in sized([one]) and only_size(one)))
        if same and winner is not None and short(one, winner) == agent and (score := one.evaluated(winner)) is not None:
            scores.setdefault(size_of(one.task)[0], score_text(score))
    first, *others = sorted(scores.items())
    parts = [f"{first[1]} with {first[0]} {size_of(board.task)[1]}", *(f"{text} with {n}" for n, text in others)]
    return listed(parts)


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
        always, parts, where = dict[int, list[str]](), list[str](), capital(at(budget))
        for world, known in sizes.items():
            start = first(known)
            if start == min(known):
                always.setdefault(start, []).append(world)
            elif start is None:
                parts.append(f"{where} it is not shown to help in {world} (up to {max(known)} agents).")
            else:
                fewer = max(size for size in known if size < start)
                parts.append(f"{where} it helps in {world} with {start} or more agents, and not with {fewer}.")
        texts = [f"{start}{' agents' * (not i)} in {listed(always[start])}" for i, start in enumerate(sorted(always))]
        everywhere = f"{where} it helps at every size that was played: from {listed(texts)}."
        parts[:0] = [everywhere] if always else []
        results += parts
    return answer("How many agents are needed before communication helps?", results)


def first(known: dict[int, bool]) -> int | None:
    """The smallest size from which on all values are True; None if the value of the largest size is False."""
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
    """Whether a variant differs from the standard task in its parameters only."""
    variant = board.task.variant
    return bool(variant.params) and not variant.faults and not variant.strangers and variant.others is None


def fronts(some: Sequence[Board]) -> str:
    """In each standard task the agents on the front of score and messages, if communication pays there."""
    result = list[str]()
    for board in standard(standing(some)):
        winner = board.best()
        evaluated = None if winner is None else board.evaluated(winner)
        scores = [(name, f"{score} with {number(round(count))}") for count, _, score, name in front(board)]
        if not shares(board.task.env) or evaluated is None or not evaluated.low > 0 or not scores:
            continue
        agents, unit = size_of(board.task)
        (name, text), *others = scores
        texts = [f"{name} scores {text} messages", *(f"{name} {text}" for name, text in others)]
        result.append(f"{capital(world_title(board.task.env))} with {agents} {unit}: {listed(texts)}.")
    if result:
        first = (
            "Each line lists the Pareto-optimal agents with a score of at least 0: no other agent scores more with as "
            "many messages or fewer."
        )
        result.insert(0, first)
    return answer("How does the score grow with the number of messages in a run, without privacy?", result)


def front(board: Board) -> list[tuple[float, float, str, str]]:
    """The messages, scores (as number and as text) and names of the agents that no other agent beats with as few
    messages, fewest first; only scores of at least 0."""
    known = [
        (count, round(score.value, 2) + 0.0, score_text(score), short(board, one))
        for one in board.ranked()
        if (score := board.score(one)) is not None and (count := messages_of(board, one)) is not None
    ]
    result = list[tuple[float, float, str, str]]()
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


def trainings(results: Results) -> str:
    """For each environment whether the best learner beats the paper's best algorithm: answer, number of trainings, and
    lead."""
    parts, fewest = list[str](), math.inf
    for board, one, word in compared(results).values():
        rival, lead = short(board, one.rival), one.lead
        bounds = "" if math.isnan(lead.low) else f" [{abs_text(lead)}]"
        effect = f"{one.counted} than {rival}, by {abs(lead.value):.2f}{bounds} in the median"
        parts.append(f"{capital(world_title(board.task.env))}: {word}; {effect}.")
        fewest = min(fewest, one.leads.size)
    if fewest < (needed := trainings_needed(len(parts))):
        parts.append(f"A yes or no needs at least {needed} trainings.")
    return answer("Does learning beat the papers' algorithms?", parts)


def abs_text(lead: Estimate) -> str:
    """The bounds of a lead's interval as text, with opposite signs for a deficit (a negative lead)."""
    low, high = (lead.low, lead.high) if lead.value >= 0 else (-lead.high, -lead.low)
    return f"{low:.2f}, {high:.2f}"


def at(budget: float | str) -> str:
    """The budget in words."""
    return "without privacy" if budget == NO_BUDGET_LIMIT else f"at a budget of epsilon = {budget:g}"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def answer(question: str, sentences: Sequence[str]) -> str:
    """A question and its answer, one sentence a line; an empty text if there are no sentences."""
    return f"{question} " + "\n".join(sentences) if sentences else ""


def standard(some: Iterable[Board]) -> list[Board]:
    """The standard-size boards that have a scale and are not controls."""
    return [one for one in some if one.task.name == STANDARD and one.scale is not None and not one.task.control]


def short(board: Board, group: Group) -> str:
    """An agent's name without parameters."""
    return board.label(group).partition(" (")[0]
