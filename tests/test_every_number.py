"""Every key of infos and metrics of every world has a second definition here, of what a run shows: what agents observe,
do and are paid, what they send, and the instance that was drawn. A key without one fails."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import CASES

from taciturn import registry
from taciturn.envs.core import Array
from taciturn.testing.cases import chosen, holds, named, random_actions, seen
from taciturn.wrappers.channels import private_config

DELTA = 1e-5
Numbers = dict[str, Any]
Told = tuple[list[Numbers], Numbers, list[dict[str, Array]]]


class Turn(NamedTuple):
    """One turn of one replica: what each agent observed before it, by field, who acted, what it did and was paid, by
    role, and the state after it."""

    seen: dict[str, dict[str, Array]]
    acting: Array | None
    actions: dict[str, Array]
    reward: dict[str, Array]
    state: Any


class Run(NamedTuple):
    """One replica's run: the parameters, the state as it began, and its turns."""

    env: Any
    params: Any
    first: Any
    turns: list[Turn]


class One:
    """The fields of a state in one replica."""

    def __init__(self, state: Any, replica: int) -> None:
        self.__dict__.update({name: np.copy(values[replica]) for name, values in vars(state).items()})


def shares(run: Run, options: int) -> Any:
    """The first preferences, -1 for none, of agents that observe their own as `own`."""
    own = run.turns[0].seen["agent"]["own"]
    return np.where(own.any(-1), own.argmax(-1), -1), np.arange(options)


def gossip(run: Run) -> Told:
    q, agents, distribution = (
        run.first.qualities,
        run.params.num_agents,
        run.env.channels["preference"].config.mechanism,
    )
    preference, options = shares(run, len(q))
    level, flip = (
        (math.inf, 0.0)
        if distribution is None
        else (distribution.epsilon, 1 / (1 + math.exp(distribution.epsilon / 2)))
    )
    requests, sent, lost, lag, time = np.zeros(agents, int), np.ones(agents, int), 0.0, 0.0, run.first.due
    infos: list[Numbers] = []
    agreed: list[tuple[float, int]] = []
    left, ones, zeros = [math.inf], 0, 0
    for turn in run.turns:
        (agent,), (option, *adopts) = turn.acting, turn.actions["agent"][0]  # type: ignore[misc]
        counts, received = (agents * turn.seen["agent"][name][agent] for name in ("counts", "received"))
        none = not (np.rint(counts) > flip * np.rint(received)).any()
        assert turn.seen["agent"]["q"][agent] == pytest.approx(flip, rel=1e-6)
        before, signal = preference.copy(), int(turn.reward["agent"][0])
        lag += q.max() - np.where(before >= 0, q[before], 0).mean()
        requests[agent] += 1
        info: Numbers = {"time": time, "all_zero": none, "epsilon_per_requester": requests.max() * level}
        if option < len(q):
            lost += q.max() - q[option]
            info |= {"option": option, "signal": signal}
            if adopts[signal]:
                preference[agent] = option
        held = [set(before.tolist()), set(preference.tolist())]
        agree = [len(some) == 1 and some != {-1} and held[0] != held[1] for some in held]
        if agree[1]:
            info["consensus"] = option
            agreed.append((time, option))
        if agree[0]:
            info["departure"] = before[0]
            left.append(time)
        ones, zeros, time = ones + signal, zeros + none, turn.state.due
        sent = sent + (turn is not run.turns[-1])
        popularity = (preference[:, None] == options).mean(0)
        infos.append(info | {"regret": lost, "popularity": popularity})
    best = q == q.max()
    at, on = agreed[0] if agreed else (math.inf, -1)
    metrics = {
        "best": popularity @ best,
        "wrong_option": popularity[~best].max() > popularity[best].max(),
        "consensus": popularity.max() == 1,
        "agreed_on_best": on >= 0 and best[on],
        "agreed_at": at,
        "departed_at": min(left),
        "departures": len(left) - 1,
        "regret": lost,
        "popularity_regret": lag / len(run.turns),
        "reward": ones,
        "ticks": len(run.turns),
        "pulls": sum("option" in info for info in infos),
        "all_zero": zeros,
        "replies": sent[0],
        "epsilon_per_requester": requests.max() * level,
    }
    return infos, metrics, [{"preference": np.full(agents, min(i + 2, len(infos)))} for i in range(len(infos))]


def social(run: Run) -> Told:
    eta, params, always = run.first.qualities, run.params, run.params.without_preference == "zeros"
    preference, options = shares(run, len(eta))
    infos: list[Numbers] = []
    earned, expected, everybody = list[float](), list[float](), list[float]()
    spoke = (preference >= 0) | always
    sent = spoke.astype(int)
    counts: list[dict[str, Array]] = []
    hops = spoke.sum() * params.copies * params.walk_length
    for turn in run.turns:
        held, paid = preference >= 0, turn.reward["agent"]
        earned.append(paid.sum() / max(held.sum(), 1))
        expected.append(eta[preference[held]].sum() / max(held.sum(), 1))
        everybody.append(np.where(held, eta[preference], 0.0).mean())
        signals = turn.state.signals.copy()  # of options that nobody held
        for i in np.flatnonzero(held):
            signals[preference[i]] = paid[i]
        plans = turn.actions["agent"]
        tried = np.array([option < len(eta) and signals[option] > 0 for option in plans[:, 0]])
        option = np.where(plans[:, 0] < len(eta), plans[:, 0], -1)
        preference = np.where(np.where(tried, plans[:, 2], plans[:, 1]) == 1, option, -1)
        spoke = ((preference >= 0) | always) & (turn is not run.turns[-1])
        hops, sent = hops + spoke.sum() * params.copies * params.walk_length, sent + spoke
        infos.append(
            {
                "regret": eta.max() - np.mean(earned),
                "adopters": (preference >= 0).mean(),
                "hops": hops,
                "slots": params.walk_length * spoke.any(),
                "signals": signals,
            }
        )
        counts.append({"preference": sent})
    popularity = (preference[:, None] == options).sum(0) / max((preference >= 0).sum(), 1)
    best = eta == eta.max()
    metrics = {
        "pseudo_regret": eta.max() - np.mean(expected),
        "popularity_regret": eta.max() - np.mean(everybody),
        "wrong_option": popularity[~best].max() > popularity[best].max(),
        "best_share": popularity @ best,
    }
    return infos, metrics | {name: infos[-1][name] for name in ("regret", "adopters", "hops")}, counts


def stopping(run: Run) -> Told:
    p, infos, passed, before = run.params, list[Numbers](), list[int](), run.first
    closed, clock, session = list[tuple[int, float, float]](), 0.0, p.horizon * (1 + 1e-12)
    for turn in run.turns:
        received, slots = (turn.seen["server"][name].item() for name in ("received", "slots"))
        assert turn.seen["server"]["time_left"].item() == pytest.approx(p.horizon - clock, abs=1e-5)
        waits, waited = turn.actions["server"].item() == 1, float(turn.state.total_slots - before.total_slots)
        slots, clock = slots + waited, clock + waited * p.slot_time
        if waits:  # where a round begins anew, the last update of all has come
            received = int(turn.state.received) if turn.state.slots > 0 else received + 1
        info: Numbers = {}
        if (not waits or received == p.num_clients) and clock + p.broadcast_time <= session:
            clock += p.broadcast_time
            reward = gain(run, before, turn.state, received)
            closed.append((received, slots * p.slot_time + p.broadcast_time, reward))
            info = {"updates": received, "slots": slots, "duration": closed[-1][1], "round_reward": reward}
            info["complete"], received = received == p.num_clients, 0
        updates, times, rewards = np.array(closed).reshape(-1, 3).sum(0)
        info |= {"messages": updates + received, "rate_so_far": rewards / times if closed else 0.0}
        infos.append(info | quality(run, turn))
        passed.append(
            int(updates + (received if turn is run.turns[-1] else 0))
        )  # of rounds that closed, or were cut off
        before = turn.state
    metrics = {
        "rate": infos[-1]["rate_so_far"],
        "reward": rewards,
        "rounds": len(closed),
        "mean_duration": times / len(closed),
        "mean_updates": updates / len(closed),
        "messages": infos[-1]["messages"],
    }
    sent = [{"update": np.array([number])} for number in passed]
    return infos, metrics | quality(run, run.turns[-1]), sent if run.env.channels else [{} for _ in infos]


def gain(run: Run, before: Any, after: Any, received: int) -> float:
    """What a round earns: by the paper's curve, or by how much less the held-out loss is."""
    if hasattr(run.first, "parameters"):
        return held_out(run, before)[0] - held_out(run, after)[0]
    return float(run.params.reward.c - run.params.reward.a / (received + 1))


def held_out(run: Run, state: Any) -> tuple[float, float]:
    """Loss and accuracy of a softmax regression, whose parameters are the weights, row by row, and the biases."""
    x, y = run.env.data.test_x, run.env.data.test_y
    weights, bias = np.split(state.parameters.astype(float), [-10])
    scores = x.reshape(len(y), -1) @ weights.reshape(-1, 10) + bias
    chance = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return float(-np.log(chance[np.arange(len(y)), y]).mean()), (scores.argmax(1) == y).mean()


def quality(run: Run, turn: Turn) -> Numbers:
    if not hasattr(run.first, "parameters"):
        return {}
    return dict(zip(("test_loss", "test_accuracy"), held_out(run, turn.state), strict=True))


def federated(run: Run) -> Told:
    """On a server, so that nothing passes between agents."""
    mu, p, infos = run.first.quality, run.params, list[Numbers]()
    agents, arms = p.num_agents, mu.shape[1]
    gaps = mu.mean(0).max() - mu.mean(0)
    counts, uploaded = np.zeros((2, agents, arms))
    missed, sent = np.zeros((2, agents), int)
    at_round, last, rounds, uploads, round_time, rewards = np.zeros(arms), np.zeros(arms, int), 0, 0, 0, 0.0
    spent: list[dict[str, Array]] = []
    for turn in run.turns:
        before, time = counts, int(turn.state.time)
        pulls, asks = pulled(run, turn, before, arms)
        counts = before + pulls
        if "agent" in turn.reward:
            rewards += turn.reward["agent"].sum() + p.server_link_cost * asks.sum()
        if asks.any():
            rounds, uploads, round_time = rounds + 1, uploads + asks.sum(), time
            new = (counts.sum(0) > at_round) & ((counts - uploaded) > 0)[asks].any(0)
            last = np.where(new, rounds, last)
            sent = sent + asks * (missed + 1)
            missed = np.where(asks, 0, missed + 1)
            uploaded, at_round = np.where(asks[:, None], counts, uploaded), counts.sum(0)
        renewed, recent = last == rounds, counts.sum(0) - at_round
        active = recent > 0 if time - round_time >= renewed.sum() else renewed
        info = {
            "regret": counts.sum(0) @ gaps,
            "local_regret": (counts * (mu.max(1, keepdims=True) - mu)).sum(),
            "cost": p.server_link_cost * uploads,
            "transmissions": uploads,
            "upload": uploads,
            "broadcast": rounds * agents,
            "rounds": rounds,
            "phase": 0,
            "active_arms": active.sum(),
            "last_round": last,
        } | dict.fromkeys(("neighbour", "adv", "req", "data", "sac"), 0)
        if "coordinator" in turn.actions:
            means, threshold = turn.state.broadcast, ((1 + float(turn.actions["coordinator"][0, 1])) / 2) ** 2
            active = turn.seen["coordinator"]["active"][0] > 0
            near = active & ((means[active].max() - means < threshold) | (means == means[active].max()))
            each = pulls[0][active]
            fits = each.max() == each.min()  # otherwise there is time for less than one pull of each
            info |= {"slots": each.sum(), "pulls": each.max() * fits, "active_arms": near.sum()}
        infos.append(info)
        spent.append({"means": sent})
    best = gaps <= 1e-12
    recent = recent if recent.any() else None
    support = counts.sum(0) if recent is None else recent
    sums = turn.state.sums.sum()
    if "agent" in turn.reward:
        assert rewards == sums
    metrics: Numbers = {
        name: value for name, value in infos[-1].items() if name not in ("phase", "last_round", "slots", "pulls")
    }
    metrics |= {
        "regret_per_agent": metrics["regret"] / agents,
        "reward": sums,
        "cost_bound": metrics["cost"],
        "wrong_option": support[~best].max() > support[best].max(),
        "identified": best[last == rounds].all() if recent is None else recent[best].sum() >= 0.9 * recent.sum(),
    }
    return infos, metrics, spent


def pulled(run: Run, turn: Turn, before: Array, arms: int) -> tuple[Array, Array]:
    """How often each agent pulled each arm in a turn, and who uploaded."""
    if "agent" in turn.actions:
        actions = turn.actions["agent"]
        return (actions[:, None] % arms == np.arange(arms)).astype(float), actions >= arms
    asks = np.zeros(len(before), np.bool_)
    share = (1 + float(turn.actions["coordinator"][0, 2])) / 2
    asks[turn.state.order[: max(math.ceil(share * len(before) - 1e-6), 1)]] = True
    return turn.state.counts - before, asks


def recommended(run: Run) -> Told:
    p, infos, network = run.params, list[Numbers](), run.params.network
    sent, shared = np.zeros(p.num_agents, int), np.zeros(p.num_agents, np.bool_)
    states = [run.first, *(turn.state for turn in run.turns)]
    spent, sums = list[dict[str, Array]](), np.zeros(4)
    for time, (turn, before) in enumerate(zip(run.turns, states, strict=False)):
        items = turn.actions["agent"] % p.num_items
        cells, clusters, mu, lost = (np.zeros(p.num_agents) for _ in range(4))
        for i, item in enumerate(items):
            context = before.contexts[i]
            values = np.array([mean_reward(run.first, context, one) for one in run.first.items])
            mu[i] = values[item] if before.active[i, item] else 0.0
            lost[i] = values[before.active[i]].max() - mu[i]
            cells[i] = (context[0] >= 0.5) + 2 * (context[1] >= 0.5)
            for d in range(p.cluster_depth):  # halves of the first dimensions
                clusters[i] = 2 * clusters[i] + (run.first.items[item, d] >= 0.5)
        known = {"mu": mu, "regret": lost, "cluster": clusters, "cell": cells, "shared": shared}
        known["records"] = time * (1 + network.degrees * shared)
        infos.append({name: {"agent": values} for name, values in known.items()})
        sums += turn.reward["agent"].sum(), mu.sum(), lost.sum(), shared.sum()
        shared = (turn.actions["agent"] >= p.num_items) & (turn is not run.turns[-1])
        for i in np.flatnonzero(shared).tolist():
            sent = sent + np.isin(np.arange(p.num_agents), network.indices[network.indptr[i] : network.indptr[i + 1]])
        spent.append({"statistics": sent, "counts": sent, "selection": np.full(p.num_agents, time + 1)})
    means = sums / (len(run.turns) * p.num_agents)
    return infos, dict(zip(("reward", "expected_reward", "regret", "shared"), means, strict=True)), spent


def mean_reward(drawn: Any, context: Array, item: Array) -> float:
    """Of the family `peak`."""
    turn = [sum(drawn.directions[0, d] * (context - 0.5)) + drawn.phases[0, d] for d in range(5)]
    away = [drawn.weights[d] * (item[d] - 0.5 - 0.42 * math.sin(math.pi * turn[d])) for d in range(5)]
    return 0.05 + 0.9 * max(0.0, 1 - math.hypot(*away) / 0.65)


def elicited(run: Run) -> Told:
    p, theta, infos = run.params, run.first.theta, list[Numbers]()
    values, agents, sent = len(theta), p.num_individuals, np.zeros(p.num_individuals, int)
    keys = ("payment", "payment_ratio", "error", "shortfall", "level", "participation", "utility", "degenerate")
    sums, paid = dict.fromkeys(keys, 0.0), 0.0
    spent = list[dict[str, Array]]()
    costliest = np.zeros(agents)
    for turn in run.turns:
        if "platform" in turn.actions:
            target = max(float(turn.actions["platform"][0, 0]), float(np.float32(0.01)))
            # Theorem 1: the marginal cost of the level over how much it raises the share of the most frequent value.
            price = 2 * p.cost.c * target * (target + values) * (target * theta.max() + 1)
            bound = price / (values * theta.max() - 1)
            rule = (
                p.rules[min(int(turn.actions["platform"][0, 2]), len(p.rules) - 1)] if len(p.rules) > 1 else p.rules[0]
            )
            infos.append({"lower_bound": bound})
            spent.append({"report": sent, "levels": costliest})
            continue
        budget = turn.actions["individual"][:, 0].astype(float)
        joins, state = budget >= 0, turn.state
        budget, levels = np.where(joins, budget, -1.0), np.where(joins, np.log1p(np.maximum(budget, 0)), 0.0)
        costs = np.where(joins, p.cost.c * np.maximum(budget, 0) ** 2, 0.0)
        payments, total = turn.reward["individual"] + costs, joins.sum()
        most, share = state.counts.max(), state.counts / max(total, 1)
        estimate = ((target + values) * share - 1) / target if total else np.full(values, 1 / values)
        error, amount = ((estimate - theta) ** 2).sum(), payments.sum()
        mean = amount / max(total, 1)
        told = {
            "theta": theta,
            "estimate": estimate,
            "error": error,
            "payment": mean,
            "lower_bound": bound,
            "payment_ratio": mean / bound if bound > 0 else 0.0,
            "total_payment": amount,
            "participation": joins.mean(),
            "winner": state.winner if total and state.counts[state.winner] == most else -1,
            "tie": bool(total) and (state.counts == most).sum() > 1,
            "degenerate": rule == "wintall" and values * most <= total,
        }
        each = {"budgets": budget, "levels": levels, "payments": payments, "costs": costs, "data": None}
        infos.append(told | {name: {"individual": value} for name, value in each.items()})
        sent, costliest = sent + joins, np.maximum(costliest, levels)
        spent.append({"report": sent, "levels": costliest})
        short = np.maximum(state.desired - np.maximum(budget, 0), 0)
        now = told | {"shortfall": short.mean(), "level": levels.mean(), "utility": (payments - costs).mean()}
        sums, paid = {name: sums[name] + float(now[name]) for name in keys}, paid + amount
    metrics = {name: value / p.horizon for name, value in sums.items()}
    loss = metrics["payment"] * metrics["participation"] + metrics["shortfall"]
    return infos, metrics | {"total_payment": paid, "loss": loss}, spent


DEFINITIONS: dict[str, Callable[[Run], Told]] = {
    "gossip_bandit_v0": gossip,
    "social_bandit_v0": social,
    "round_stopping_v0": stopping,
    "federated_training_v0": stopping,
    "federated_bandit_v0": federated,
    "arm_elimination_v0": federated,
    "recommender_v0": recommended,
    "elicitation_v0": elicited,
}

# Parameters with which every key gets to mean something, and whether noise stands on the channel; noise of other worlds
# costs other than one message after another.
RUNS: list[tuple[str, dict[str, Any], bool]] = [
    ("gossip_bandit_v0", {"num_agents": 3, "qualities": [0.3, 0.8, 0.8]}, False),
    ("gossip_bandit_v0", {"num_agents": 3, "initial_preferences": "none", "without_preference": "zeros"}, True),
    ("social_bandit_v0", {"qualities": [0.3, 0.8, 0.8], "initial_preferences": [0, 1, 2, 3, 3, 1]}, False),
    ("social_bandit_v0", {"without_preference": "zeros"}, True),
    ("round_stopping_v0", {}, False),
    ("round_stopping_v0", {"objective": "rate", "time_distribution": "pareto", "computing": (2.0, 4.0)}, False),
    ("federated_training_v0", {}, False),
    ("federated_bandit_v0", {"qualities": "heterogeneous"}, False),
    ("federated_bandit_v0", {"qualities": [0.5, 0.9, 0.9, 0.1], "num_agents": 2}, True),
    ("arm_elimination_v0", {"horizon": 60}, False),
    ("arm_elimination_v0", {"horizon": 60}, True),
    ("recommender_v0", {}, False),
    ("elicitation_v0", {}, False),
]


def info_for(values: Any, replica: int) -> Any:
    return {role: own[replica] for role, own in values.items()} if isinstance(values, dict) else values[replica]


def play(world: str, params: Numbers, noise: bool) -> tuple[list[Run], list[list[Numbers]], dict[str, Array], Any]:
    """Random runs of four replicas: each of them, its infos, and the metrics."""
    case, rng = CASES[world], np.random.default_rng(0)
    env: Any = case.population(4, **params)
    if noise:
        env.channel_configs = {name: private_config(distribution) for name, distribution in case.privacy.items()}
    env.reset(seed=1)
    first = env.state
    turns, infos = [list[Turn]() for _ in range(4)], [list[Numbers]() for _ in range(4)]
    while not env.done.all():
        before, live, acting = seen(env), ~env.done, {role: env.acting(role) for role in env.turn}
        actions = chosen(env, random_actions(env, rng) | {"server": (rng.random((4, 1)) < 0.93).astype(np.int64)})
        step = env.step(actions)
        by_role = (
            actions if isinstance(actions, dict) else {env.turn[0] if env.turns else next(iter(env.roles)): actions}
        )
        paid = step.reward if isinstance(step.reward, dict) else {next(iter(env.roles)): step.reward}
        for b in np.flatnonzero(live).tolist():
            fields = {role: env.roles[role].layout.unpack(rows[b]) for role, rows in before.items()}
            rows = [one[b] for one in acting.values() if one is not None]
            did, got = ({role: values[b] for role, values in some.items()} for some in (by_role, paid))
            turns[b].append(Turn(fields, rows[0] if rows else None, did, got, One(env.state, b)))
            meant = {key for key in named(step.info) if holds(step.info, key, 4)[b]}
            infos[b].append({key: info_for(step.info[key], b) for key in meant})
    return [Run(env, env.params, One(first, b), turns[b]) for b in range(4)], infos, env.metrics(), env


def spent(env: Any, counts: dict[str, Array]) -> Numbers:
    """The messages, and what they cost, of which each channel has had so many from each agent."""
    most, basic, rho, messages = 0.0, 0.0, 0.0, 0
    for name, sent in counts.items():
        if name == "levels":
            continue
        distribution, channel = env.channels[name].config.mechanism, env.channels[name]
        messages += int(sent.sum())
        charged = min(sent.max(), 1) if channel.disjoint else sent.max()
        level = math.inf if distribution is None else distribution.epsilon
        most = max(most, level if charged else 0.0)
        basic = max(basic, level * charged if charged else 0.0)
        rho += 0.0 if distribution is None else distribution.loss().rho * charged
        basic = math.inf if channel.silence_leaks else basic
    if "levels" in counts:  # which senders chose, where each event enters one message
        most = basic = counts["levels"].max()
        rho = basic**2 / 2
    orders = 1 + np.geomspace(1e-4, 1e5, 100_000)
    curve = rho * orders + np.log1p(-1 / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1)
    zcdp = min(basic, curve.min()) if basic < math.inf else basic
    return {"messages": messages, "epsilon_message": most, "epsilon_basic": basic, "epsilon_zcdp": zcdp}


def test_every_world_is_here() -> None:
    assert {world for world, *_ in RUNS} == set(registry.worlds()) == set(DEFINITIONS)


@pytest.mark.parametrize(("world", "params", "noise"), RUNS)
def test_a_number_is_what_its_definition_says(world: str, params: Numbers, noise: bool) -> None:
    runs, infos, metrics, env = play(world, params, noise)
    found = set()
    for b, run in enumerate(runs):
        expected, end, counts = DEFINITIONS[world](run)
        assert len(expected) == len(infos[b])
        for number, (info, told, sent) in enumerate(zip(expected, infos[b], counts, strict=True)):
            cost = {key: value for key, value in spent(env, sent).items() if key != "epsilon_zcdp"}
            compare(told, info | (cost if env.channels else {}), f"{world} {b} turn {number}")
            found |= set(told)
        own = {key: values[b] for key, values in metrics.items()}
        for name in set(env.measures()) & set(end):
            np.testing.assert_allclose(np.max(env.measure(name)[b]), own[name])
        compare(own, end | (spent(env, counts[-1]) if env.channels else {}), f"metrics of {world} {b}")
    assert found == set(expected[-1]) | set(env.empty_info()) | ({*cost} if env.channels else set())


def compare(told: Numbers, expected: Numbers, where: str) -> None:
    assert set(told) == set(expected), where
    for key, value in expected.items():
        for role, own in value.items() if isinstance(value, dict) else [("", value)]:
            if own is not None:
                of = told[key][role] if role else told[key]
                np.testing.assert_allclose(
                    of, own, rtol=2e-3 if key == "epsilon_zcdp" else 1e-6, err_msg=f"{where}: {key}"
                )
