"""Dissemination of messages in one society: copies of each message end at agents of a graph, which sum the received
bits.

The end of a copy is drawn by its random walk (equation 2 of Tao et al.; `walk`, `walk_complete`, `queue`), uniformly,
which is the limit of long walks (`throw`), or through the normal approximation of the uniform distribution
(`aggregate`). The functions are compiled (`taciturn.envs.core.hooks.Hooks`); only the cost of walks grows with the
number of copies. Equal messages are spread together, as a group.
"""

import math
from typing import Any

import numpy as np

from taciturn.compiling.counter_streams import binomial, normal, uniform
from taciturn.graph import Graph
from taciturn.validation import Array

# The sources of random numbers of a society.
SOURCES = ("qualities", "preferences", "signals", "dissemination", "noise")
QUALITIES, PREFERENCES, SIGNALS, ENDS, NOISE = range(len(SOURCES))

# From this mean number of copies of a group per agent on, drawing all agents' numbers is faster than drawing single
# copies: by a table of the Poisson distribution, and by binomials.
BY_TABLE, BY_BINOMIALS = 3.0, 12.0
LACKING = 3.0  # standard deviations by which Poisson numbers are drawn too low
REACH, MARGIN = 10.0, 30.0  # standard deviations and numbers beyond which a Poisson mass is below 2^-60
HASH = 40_503


def metropolis_hastings(graph: Graph) -> Array:
    """The transition matrix Psi of the walks, [N, N]: symmetric and doubly stochastic [Tao 2]."""
    psi = np.zeros((graph.num_nodes, graph.num_nodes))
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    psi[rows, graph.indices] = np.minimum(1 / degrees[rows], 1 / degrees[graph.indices])
    np.fill_diagonal(psi, 1 - psi.sum(1))
    return psi


def mobility(graph: Graph) -> float:
    """The long-run fraction of the steps of a walk that move to another agent."""
    if graph.is_complete:
        return 1.0
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    return float(np.minimum(1 / degrees[rows], 1 / degrees[graph.indices]).sum() / graph.num_nodes)


def scratch(params: Any) -> dict[str, Array]:
    """Work arrays of these functions for one society, by name, for the environment's parameters."""
    n, options, copies = params.num_agents, params.num_options, params.copies
    sizes = {"group": n, "first": n, "balls": n + options, "buckets": 1 << (2 * n).bit_length(), "named": options}
    if params.congestion:
        sizes |= dict.fromkeys(("following", "place", "left", "movers"), n * copies) | {"head": n, "tail": n}
    results = {name: np.zeros(size, np.int64) for name, size in sizes.items()}
    if params.dissemination != "walk" or params.network.is_complete:
        size = min(n, table_size(float(copies)))
        results |= {"thrown": np.zeros(n, np.int64), "guide": np.zeros(size, np.int64), "table": np.zeros(size)}
    if params.dissemination == "aggregated":
        results |= {"gram": np.zeros((options + 1, options + 1)), "drawn": np.zeros((3, options + 1))}
    return results


# Messages.


def count_senders(state: Any, arrays: Any, params: Any) -> int:
    """Stage 1, without a mechanism on the channel. Nothing has been spread yet; returns the number of messages."""
    senders = 0
    for i in range(params.num_agents):
        if params.plain:
            message_levels = params.zeros or arrays.preference[i] < params.num_options
            arrays.arrives[i] = message_levels and state.time < params.horizon
            if arrays.arrives[i]:
                arrays.sent[i] += params.tokens
        senders += arrays.arrives[i]
    for i in range(params.num_agents):
        arrays.received[i] = 0
        for k in range(params.num_options):
            arrays.counts[i, k] = 0
    state.slots = params.walk_length if senders > 0 else 0
    state.hops += params.moves * senders
    return senders


def name_bits(group: int, arrays: Any, params: Any) -> int:
    """Write the options with bits set in the messages of a group into `named`; returns their number."""
    if params.one_hot:
        arrays.named[0] = group
        return 1 if group < params.num_options else 0
    some = 0
    for k in range(params.num_options):
        if arrays.bits[arrays.first[group], k] != 0:
            arrays.named[some] = k
            some += 1
    return some


def alike(a: int, b: int, bits: Any) -> bool:
    """Whether two agents' messages have the same bits."""
    differing = 0
    for k in range(bits.shape[1]):
        differing += bits[a, k] != bits[b, k]
    return differing == 0


def group_messages(arrays: Any, params: Any, most: int) -> int:
    """Put equal messages into groups, and count the copies of each (`balls`); returns the number of groups, or `most` +
    1 if there are more.

    One-hot messages are grouped by option, and others by a hash table of their bits.
    """
    n, options = params.num_agents, params.num_options
    result = options + 1 if params.one_hot else 0
    for g in range(result):
        arrays.balls[g] = 0
    for slot in range(0 if params.one_hot else len(arrays.buckets)):
        arrays.buckets[slot] = -1
    for i in range(n):
        if arrays.arrives[i]:
            g = arrays.preference[i]
            if not params.one_hot:
                slot = 0
                for k in range(options):
                    slot = (slot * HASH + int(arrays.bits[i, k]) + 1) & (len(arrays.buckets) - 1)
                while arrays.buckets[slot] >= 0 and not alike(i, arrays.first[arrays.buckets[slot]], arrays.bits):
                    slot = (slot + 1) & (len(arrays.buckets) - 1)
                if arrays.buckets[slot] < 0:
                    if result == most:
                        return most + 1
                    arrays.buckets[slot] = result
                    arrays.first[result] = i
                    arrays.balls[result] = 0
                    result += 1
                g = arrays.buckets[slot]
            arrays.group[i] = g
            arrays.balls[g] += params.copies
    return result


def deliver(agent: int, copies: int, some: int, arrays: Any) -> None:
    """Deliver `copies` copies of the message with the bits in `named` to an agent."""
    arrays.received[agent] += copies
    for b in range(some):
        arrays.counts[agent, arrays.named[b]] += copies


# Uniform ends.


def throw_one_by_one(copies: int, some: int, arrays: Any, rng: Any) -> None:
    """Let single copies end at uniformly random agents."""
    agents = len(arrays.received)
    for _ in range(copies):
        deliver(int(uniform(rng, ENDS) * agents), 1, some, arrays)


def table_size(mean: float) -> int:
    """About how many numbers have a Poisson mass of at least 2^-60."""
    reach = REACH * math.sqrt(mean) + MARGIN
    return int(min(mean, reach) + reach) + 1


def tabulate(mean: float, arrays: Any) -> int:
    """Tabulate the unnormalised distribution function of Poisson(mean), and where to begin to search in it; returns the
    first number in the table."""
    table, guide, size = arrays.table, arrays.guide, table_size(mean)
    mode = int(mean)
    start = max(0, int(mean - REACH * math.sqrt(mean) - MARGIN))
    table[mode - start] = 1.0
    for k in range(mode - start, 0, -1):
        table[k - 1] = table[k] * (start + k) / mean
    for k in range(mode - start + 1, size):
        table[k] = table[k - 1] * mean / (start + k)
    for k in range(1, size):
        table[k] += table[k - 1]
    k = 0
    for place in range(size):
        while k < size - 1 and table[k] * size <= table[size - 1] * place:
            k += 1
        guide[place] = k
    return start


def throw_by_table(copies: int, arrays: Any, rng: Any) -> int:
    """Draw how many copies each agent receives (`thrown`), slightly too few; returns how many are left.

    Independent Poisson numbers, given their sum, have the distribution of copies thrown uniformly; the rest is thrown
    one by one.
    """
    agents = len(arrays.thrown)
    mean = (copies - LACKING * math.sqrt(copies)) / agents
    start, size, left = tabulate(mean, arrays), table_size(mean), -1
    while left < 0:
        left = copies
        for i in range(agents):
            drawn = uniform(rng, ENDS)
            k, point = arrays.guide[int(drawn * size)], drawn * arrays.table[size - 1]
            while k < size - 1 and arrays.table[k] <= point:
                k += 1
            arrays.thrown[i] = start + k
            left -= start + k
    return left


def throw_group(copies: int, some: int, arrays: Any, rng: Any) -> None:
    """Let copies of the message with the bits in `named` end at uniformly random agents."""
    agents, left = len(arrays.received), copies
    if copies >= BY_TABLE * agents and table_size(copies / agents) <= len(arrays.table):
        left = throw_by_table(copies, arrays, rng)
        for i in range(agents):
            deliver(i, arrays.thrown[i], some, arrays)
    elif copies >= BY_BINOMIALS * agents:
        for i in range(agents):
            ended = binomial(left, 1.0 / (agents - i), rng, ENDS)
            deliver(i, ended, some, arrays)
            left -= ended
    throw_one_by_one(left, some, arrays, rng)


def throw_all(arrays: Any, params: Any, rng: Any, most: int) -> int:
    """Let the copies of all messages end at uniformly random agents, unless they form more than `most` groups; returns
    the number of groups."""
    groups = group_messages(arrays, params, most)
    for g in range(groups if groups <= most else 0):
        throw_group(arrays.balls[g], name_bits(g, arrays, params), arrays, rng)
    return groups


def throw(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Stages 1 and 2, where every copy ends at a uniformly random agent."""
    count_senders(state, arrays, params)
    throw_all(arrays, params, rng, params.num_agents)
    return finish(state, arrays, params, rng)


def finish(state: Any, arrays: Any, params: Any, rng: Any) -> tuple[bool, bool]:
    """Finish the round after all copies have ended; returns (terminated, truncated)."""
    if params.fresh:
        perturb_copies(arrays, params, rng)
    return False, state.time >= params.horizon


def perturb_copies(arrays: Any, params: Any, rng: Any) -> None:
    """Add the noise of `per_token`: of the V_i copies that an agent received, C_ij are for option j, and B_ij is
    Binomial(C_ij, p) + Binomial(V_i - C_ij, q)."""
    for i in range(params.num_agents):
        for k in range(params.num_options):
            ones, result = arrays.counts[i, k], 0
            for bit in range(2):
                copies = ones if bit == 1 else arrays.received[i] - ones
                result += binomial(copies, params.p if bit == 1 else params.q, rng, NOISE)
            arrays.counts[i, k] = result


# Walks.


def walk_step(here: int, drawn: float, params: Any) -> int:
    """One step of a Metropolis-Hastings walk: to a random neighbour j with probability min(1, d_i / d_j), else stay.

    One uniform number serves both draws: the integer part of its product with d_i selects the neighbour, and the rest
    is uniform again.
    """
    if params.complete:
        return (here + 1 + min(int(drawn * (params.num_agents - 1)), params.num_agents - 2)) % params.num_agents
    degree = params.degrees[here]
    scaled = drawn * degree
    chosen = min(int(scaled), degree - 1)
    other = params.neighbours[params.places[here] + chosen]
    return other if (scaled - chosen) * params.degrees[other] < degree else here


def walk(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Stages 1 and 2, where every copy walks."""
    count_senders(state, arrays, params)
    group_messages(arrays, params, params.num_agents)
    for i in range(params.num_agents):
        if arrays.arrives[i]:
            some = name_bits(arrays.group[i], arrays, params)
            for _ in range(params.copies):
                here = i
                for _ in range(params.walk_length):
                    other = walk_step(here, uniform(rng, ENDS), params)
                    state.hops += other != here
                    here = other
                deliver(here, 1, some, arrays)
    return finish(state, arrays, params, rng)


def walk_complete(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """`walk` on a complete graph, where every step moves, by the closed-form distribution of the ends.

    After L steps, P(back at the origin) = 1/N + (1 - 1/N) (-1/(N-1))^L, and all other agents are equally likely. This
    is a mixture: if L is even, the copy is at its origin with probability (N-1)^-L; if L is odd, it is at a uniformly
    random other agent with probability (N-1)^(1-L); otherwise it is at a uniformly random agent.
    """
    count_senders(state, arrays, params)
    even, result = params.walk_length % 2 == 0, group_messages(arrays, params, params.num_agents)
    chance = float(params.num_agents - 1) ** float(-params.walk_length if even else 1 - params.walk_length)
    for i in range(params.num_agents):
        if arrays.arrives[i]:
            special, g = binomial(params.copies, chance, rng, ENDS), arrays.group[i]
            arrays.balls[g] -= special
            some = name_bits(g, arrays, params) if special > 0 else 0
            for _ in range(special):
                deliver(i if even else walk_step(i, uniform(rng, ENDS), params), 1, some, arrays)
    for g in range(result):
        throw_group(arrays.balls[g], name_bits(g, arrays, params), arrays, rng)
    return finish(state, arrays, params, rng)


def enqueue(copy: int, agent: int, arrays: Any) -> None:
    """A copy arrives at the end of an agent's queue."""
    arrays.following[copy] = -1
    if arrays.head[agent] < 0:
        arrays.head[agent] = copy
    else:
        arrays.following[arrays.tail[agent]] = copy
    arrays.tail[agent] = copy


def queue(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """`walk` with queues: in a slot, an agent forwards only the T copies that arrived first (Tao et al., section 4.2).

    Copies that arrive in the same slot queue in random order. Those still under way after `slot_limit` slots are lost.
    """
    count_senders(state, arrays, params)
    waiting, state.slots = 0, 0
    group_messages(arrays, params, params.num_agents)
    for i in range(params.num_agents):
        arrays.head[i] = -1
    for i in range(params.num_agents):
        if arrays.arrives[i]:
            for copy in range(i * params.copies, (i + 1) * params.copies):
                arrays.left[copy] = params.walk_length
                enqueue(copy, i, arrays)
            waiting += params.copies
    while waiting > 0 and state.slots < params.slot_limit:
        state.slots += 1
        moved = 0
        for i in range(params.num_agents):
            for _ in range(params.copies):
                copy = arrays.head[i]
                if copy >= 0:
                    arrays.head[i] = arrays.following[copy]
                    other = walk_step(i, uniform(rng, ENDS), params)
                    state.hops += other != i
                    arrays.left[copy] -= 1
                    arrays.place[copy] = other
                    if arrays.left[copy] == 0:
                        waiting -= 1
                        deliver(other, 1, name_bits(arrays.group[copy // params.copies], arrays, params), arrays)
                    else:
                        arrays.movers[moved] = copy
                        moved += 1
        for last in range(moved - 1, -1, -1):
            other = int(uniform(rng, ENDS) * (last + 1))
            copy = arrays.movers[other]
            arrays.movers[other] = arrays.movers[last]
            enqueue(copy, arrays.place[copy], arrays)
    return finish(state, arrays, params, rng)


# The normal approximation.


def aggregate(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """`throw` at a cost that does not grow with T.

    It is exact if an agent expects at most `exact_below` copies, or if there are at most 2 (K + 1) distinct messages
    (always the case without noise). Otherwise it uses `approximate`, or `approximate_fresh` under `per_token`.
    """
    n, most = params.num_agents, 2 * (params.num_options + 1)
    few = count_senders(state, arrays, params) * params.copies <= params.exact_below * n
    if params.fresh and not few:
        approximate_fresh(arrays, params, rng)
        return False, state.time >= params.horizon
    if throw_all(arrays, params, rng, n if few else most) > most and not few:
        approximate(arrays, params, rng)
    return finish(state, arrays, params, rng)


def count_in_bulk(arrays: Any, params: Any) -> None:
    """Fill `gram` [1 + K, 1 + K] with the number of messages, and the numbers with one and with two given bits set;
    only on and above the diagonal."""
    size = params.num_options + 1
    for a in range(size):
        for b in range(size):
            arrays.gram[a, b] = 0.0
    for i in range(params.num_agents):
        if arrays.arrives[i]:
            arrays.first[0] = i
            some = name_bits(0, arrays, params)
            arrays.gram[0, 0] += 1.0
            for a in range(some):
                one = arrays.named[a] + 1
                arrays.gram[0, one] += 1.0
                for b in range(a, some):
                    arrays.gram[one, arrays.named[b] + 1] += 1.0


def factorise(gram: Any, scale: float) -> None:
    """Replace a matrix, given on and above its diagonal, by the root of `scale` times it: upper triangular U with
    U^T U = scale `gram`, which may be singular (Cholesky)."""
    for j in range(len(gram)):
        whole = gram[j, j]
        for c in range(j):
            gram[j, c] = 0.0
            for r in range(j, len(gram)):
                gram[j, r] -= gram[c, j] * gram[c, r]
        factor = 1.0 / math.sqrt(gram[j, j]) if gram[j, j] > 1e-9 * whole else 0.0
        for r in range(j, len(gram)):
            gram[j, r] *= factor
    for j in range(len(gram)):
        for r in range(j, len(gram)):
            gram[j, r] *= math.sqrt(scale)


def centred(left: int) -> tuple[float, float]:
    """Coefficients to draw normal numbers of variance 1 minus their mean over all agents, one after another.

    Returns:
        (a, b): with `left` agents left, the next number is b z - a s, for a standard normal z and the sum s of the
        numbers before.
    """
    return 1.0 / left, math.sqrt((left - 1) / left)


def approximate(arrays: Any, params: Any, rng: Any) -> None:
    """Normal approximation of `throw`, rounded, with the same means and covariances over options and agents.

    The numbers C_ai of copies of adopter a that agent i receives have mean T/N and covariance T/N (1[i = i'] - 1/N) for
    the same adopter, and 0 for different adopters; and (V_i, B_i) = sum_a C_ai (1, Y_a). The bits Y therefore enter
    only through their column sums and co-occurrences. Sums over all agents are preserved, up to rounding. It ignores
    higher cumulants, with a relative error of order V_i^-1/2 in an agent's counts and 1/V_i in its choices.
    """
    size, share = params.num_options + 1, params.copies / params.num_agents
    means, before, result = arrays.drawn[0], arrays.drawn[1], arrays.drawn[2]
    count_in_bulk(arrays, params)
    for a in range(size):
        means[a], before[a] = share * arrays.gram[0, a], 0.0
    factorise(arrays.gram, share)
    for i in range(params.num_agents):
        part, rest = centred(params.num_agents - i)
        for a in range(size):
            result[a] = means[a]
        for c in range(size):
            step = rest * normal(rng, ENDS) - part * before[c]
            before[c] += step
            for r in range(size):
                result[r] += step * arrays.gram[c, r]
        arrays.received[i] = max(0, math.floor(result[0] + 0.5))
        for k in range(params.num_options):
            arrays.counts[i, k] = max(0, min(arrays.received[i], math.floor(result[k + 1] + 0.5)))


def approximate_fresh(arrays: Any, params: Any, rng: Any) -> None:
    """`approximate` with fresh noise in each copy (`per_token`).

    The number C_ij of copies for option j that agent i receives has covariance T D_j / N (1[i = i'] - 1/N) over agents,
    and is independent over options. Given these, B_ij has mean p C_ij + q (V_i - C_ij) and variance p (1 - p) C_ij + q
    (1 - q) (V_i - C_ij).
    """
    n, p, q = params.num_agents, params.p, params.q
    before, ended = arrays.drawn[0], arrays.drawn[1]
    groups = group_messages(arrays, params, n)
    for g in range(groups):
        before[g] = 0.0
    for i in range(n):
        total = 0.0
        part, rest = centred(n - i)
        for g in range(groups):
            share, ended[g] = arrays.balls[g] / n, 0.0
            if share > 0.0:
                step = rest * normal(rng, ENDS) - part * before[g]
                before[g] += step
                ended[g] = max(0.0, share + step * math.sqrt(share))
            total += ended[g]
        arrays.received[i] = received = math.floor(total + 0.5)
        for k in range(params.num_options):
            others = max(0.0, received - ended[k])
            spread = math.sqrt(p * (1.0 - p) * ended[k] + q * (1.0 - q) * others)
            mean = (p - q) * ended[k] + q * received
            arrays.counts[i, k] = max(0, min(received, math.floor(mean + spread * normal(rng, NOISE) + 0.5)))
