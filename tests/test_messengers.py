"""Messengers that learn: the evolution strategy, what its learners act on, and the trainings that the package keeps."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.agents import bring
from taciturn.bench.comparisons.playing import evaluated, population, ready, task_config
from taciturn.bench.levels import own_configuration
from taciturn.bench.tasks import TASKS
from taciturn.cli import main
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import Array
from taciturn.policies import LearnedListener, LearnedPlan
from taciturn.policies.learned.evolution import CovarianceAdaptation, adjusted
from taciturn.policies.learned.pretrained import pretrained_agents
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, NoPrivacy, Scheduled
from taciturn.wrappers import Privatize, Remembering

GOSSIP: dict[str, Any] = {"num_agents": 6, "num_options": 3, "horizon": 10.0, "without_preference": "zeros"}
SOCIAL: dict[str, Any] = {
    "num_agents": 6, "num_options": 3, "horizon": 20, "signals": "per_agent", "without_preference": "zeros",
}  # fmt: skip
ARMS: dict[str, Any] = {"num_agents": 4, "num_arms": 3, "horizon": 100}
SMALL: dict[str, Any] = {"generations": 2, "replicas": 4}
WEIGHTS = {
    "count": 1.1, "level": -0.3, "share": 2.2, "lead": 0.4,
    "before": 0.3, "before_fades": -0.5, "after": -0.4, "after_fades": 0.2,
}  # fmt: skip
ONCE = Scheduled(BitwiseRandomizedResponse(3.0), at=12)
RESULTS = Path(__file__).parent.parent / "tools" / "results" / "messengers.json"


def rotated(n: int) -> Array:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((n, n)))[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_strategy_finds_the_minimum_of_a_rotated_ellipsoid(seed: int) -> None:
    """Hansen and Ostermeier's test function; without adapting covariances, as many draws do not get there."""
    n, turn = 5, rotated(5)
    scales, goal = 10.0 ** np.linspace(0, 2, n), np.arange(n) - 1.5

    def cost(x: Array) -> Array:
        return (((x - goal) @ turn * scales) ** 2).sum(-1)

    strategy = CovarianceAdaptation(np.zeros(n), 0.5, np.random.default_rng(seed))
    for _ in range(350):
        strategy.tell(cost(strategy.ask()))
    np.testing.assert_allclose(strategy.mean, goal, atol=1e-6)
    assert strategy.step < 1e-3


def test_the_step_grows_on_a_slope_and_the_best_half_decides() -> None:
    strategy = CovarianceAdaptation(np.zeros(4), 0.1, np.random.default_rng(0), population=8)
    for _ in range(30):
        strategy.tell(strategy.ask()[:, 0])
    assert strategy.step > 10
    assert strategy.mean[0] < -100
    one = CovarianceAdaptation(np.zeros(2), 1.0, np.random.default_rng(0), population=4)
    drawn = one.ask()
    one.tell(np.array([3.0, 1.0, 2.0, 4.0]))
    raw = np.log(2.5) - np.log([1.0, 2.0])
    np.testing.assert_allclose(one.mean, (raw[0] * drawn[1] + raw[1] * drawn[2]) / raw.sum())


def test_the_path_of_the_step_is_of_standard_normal_draws() -> None:
    """Equation 31 of the tutorial: C^(-1/2) <y>, whatever the covariances; by the normal numbers behind the draws."""
    strategy = CovarianceAdaptation(np.zeros(3), 1.0, np.random.default_rng(3), population=6)
    turn = rotated(3)
    strategy._covariance = turn @ np.diag([100.0, 1.0, 0.04]) @ turn.T
    normal, drawn = np.random.default_rng(3).standard_normal((6, 3)), strategy.ask()
    np.testing.assert_allclose(drawn, normal @ (turn @ np.diag([10.0, 1.0, 0.2]) @ turn.T), err_msg="a symmetric root")
    costs = drawn[:, 0] - 2 * drawn[:, 1]
    strategy.tell(costs)
    raw = np.log(3.5) - np.log([1.0, 2.0, 3.0])
    weights = raw / raw.sum()
    mass = 1 / (weights**2).sum()
    rate = (mass + 2) / (3 + mass + 5)
    mean = weights @ normal[np.argsort(costs)[:3]]
    length = np.sqrt(rate * (2 - rate) * mass) * np.linalg.norm(mean)
    np.testing.assert_allclose(np.linalg.norm(strategy._step_path), length)
    expected = np.sqrt(2) * math.gamma(2.0) / math.gamma(1.5)  # of the length of three normal numbers
    damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / 4) - 1) + rate
    assert strategy.step == pytest.approx(np.exp(rate / damping * (length / expected - 1)), rel=5e-3)


def test_costs_are_compared_as_if_all_had_played_the_same_instances() -> None:
    rng = np.random.default_rng(0)
    instances, own = rng.standard_normal((40, 3)), np.array([1.0, 2.0, 4.0, 0.5])
    costs = np.repeat(own, 10) + instances @ [3.0, -2.0, 1.0]
    found = adjusted(costs, instances, 4)
    np.testing.assert_allclose(found - found[0], own - own[0], atol=1e-9)
    np.testing.assert_allclose(found.mean(), costs.mean(), atol=1e-9)


@pytest.mark.parametrize("rounds", [False, True])
def test_listeners_pull_the_largest_index_of_their_formula(rounds: bool) -> None:
    """By hand from the statistics of `Remembering`, before and after the answers, ties aside."""
    world, params = (social_bandit_v0, SOCIAL) if rounds else (gossip_bandit_v0, GOSSIP)
    mechanism = Scheduled(ONCE.mechanism, at=6 if rounds else 20)
    bare, env = (Privatize(world.population(5, **params), "preference", mechanism) for _ in range(2))
    env, agent, w = Remembering(env), LearnedListener(weights=WEIGHTS), WEIGHTS
    obs, wide = bare.reset(seed=1)[0], env.reset(seed=1)[0]
    agent.reset(bare, np.random.default_rng(0))
    layout, checked = env.roles["agent"].layout, {False: 0, True: 0}
    while not bare.done.all():
        live, plan = ~bare.done, agent.act(obs)
        for b, row in np.argwhere(np.broadcast_to(live[:, None], plan.shape[:2])):
            s = {name: values.astype(np.float64) for name, values in layout.unpack(wide[b, row]).items()}
            x, y = s["heard"] - 1 / 3, s["heard"] - s["heard"].max()
            rate = 1 / (1 + np.exp(-(w["level"] + w["share"] * x + w["lead"] * y)))
            more = np.exp(w["count"]) * s["answers"] / 6
            ones, zeros = 1 + s["hits"] + more * rate, 1 + s["misses"] + more * (1 - rate)
            mean = ones / (ones + zeros)
            spread = np.sqrt(mean * (1 - mean) / (ones + zeros + 1))
            phase = "after" if s["answers"] > 0 else "before"
            left = s["turns_left"] / max(s["turns_left"] + s["turns"], 1)
            index = mean + np.exp(w[phase]) * left ** np.exp(w[f"{phase}_fades"]) * spread
            held, best = s["own"].argmax(), mean.argmax()
            if not rounds and mean[held] < mean[best] - 1e-6:
                index = np.where(np.arange(3) == best, 9.0, 0.0)
            if np.sort(index)[-1] - np.sort(index)[-2] < 1e-5:
                continue
            option = plan[b, row, 0]
            assert option == index.argmax()
            others = np.delete(mean, option).max()
            after = [(ones[option] + signal) / (ones + zeros + 1)[option] for signal in (0, 1)]
            if min(abs(value - others) for value in after) > 1e-5:
                wanted = [0, 1] if rounds else [value > others for value in after]
                assert plan[b, row, 1:].tolist() == wanted
            checked[phase == "after"] += 1
        step = bare.step(plan)
        wide = env.step(plan).observation
        agent.update(obs, plan, step.reward, bare.done)
        obs = step.observation
    assert min(checked.values()) > 50


def test_learned_plans_take_the_largest_index_of_their_formula() -> None:
    """In the time on their own, by hand from what `DividedPlan` estimates; and arms that are divided, one by one."""
    world = federated_bandit_v0.population(2, **ARMS)
    w = {"shared": -0.3, "shared_power": -0.4, "own": -1.0, "own_power": 0.3}
    agent = LearnedPlan(weights=w)
    world.reset(seed=0)
    agent.reset(world, np.random.default_rng(0))
    agent._start(4)

    def index(mean: float, n: float, left: float, name: str) -> float:
        return mean + np.sqrt(mean * (1 - mean) / (n + 3)) * np.exp(w[name]) * np.log(1 + left / (n + 2)) ** np.exp(
            w[f"{name}_power"]
        )

    rng = np.random.default_rng(2)
    counts = rng.integers(1, 30, (50, 4, 3)).astype(np.float64)
    hits = np.floor(rng.random(counts.shape) * counts)
    found = agent._own_choice(counts, hits, np.full((50, 1, 1), 40))
    for b, i in np.ndindex(50, 4):
        each = [index((1 + h) / (2 + n), n, 40, "own") for h, n in zip(hits[b, i], counts[b, i], strict=True)]
        assert found[b, i] == np.argmax(each)
    divided = agent._divide(counts[:, 0], hits[:, 0], np.full((50, 1), 160), 2.5)
    for b in range(50):
        taken, chosen = np.zeros(3), []
        for _ in range(4):
            each = [
                index((1 + h) / (2 + n), n + 2.5 * t, 160, "shared")
                for h, n, t in zip(hits[b, 0], counts[b, 0], taken, strict=True)
            ]
            chosen.append(int(np.argmax(each)))
            taken[chosen[-1]] += 1
        assert sorted(chosen) == sorted(divided[b].tolist())


WORLDS: list[tuple[type[Any], Any, dict[str, Any], str]] = [
    (LearnedListener, gossip_bandit_v0, GOSSIP, "preference"),
    (LearnedListener, social_bandit_v0, SOCIAL, "preference"),
    (LearnedPlan, federated_bandit_v0, ARMS, "means"),
]


@pytest.mark.parametrize(("kind", "world", "params", "channel"), WORLDS)
def test_training_follows_from_its_seed(kind: Any, world: Any, params: dict[str, Any], channel: str) -> None:
    env = world.population(3, **params)
    one, two, other = (kind(**SMALL, seed=seed).train(env) for seed in (1, 1, 2))
    assert one.weights == two.weights != other.weights
    assert one.weights != dict(kind.initial)
    assert len(one.history) == 2
    run = taciturn.simulate(env, one, seed=3)
    again = taciturn.simulate(env, kind(weights=one.weights), seed=3)
    np.testing.assert_equal(run.metrics, again.metrics)
    budget = env.view()
    mechanism = one.within(budget, 2.0)[channel]
    assert mechanism.loss(1.0 if channel == "means" else None).epsilon == pytest.approx(2.0)


def test_training_lowers_what_it_is_to_lower() -> None:
    """From weights that explore for ever; paired runs, p below 1e-4 if training did nothing. Of five trainings, each
    had a p below 1e-12, so that last digits, in which processors differ, cannot decide."""
    world, first = gossip_bandit_v0.population(800, **GOSSIP), {**LearnedListener.initial, "before": 3.0, "after": 3.0}
    agent = LearnedListener(2.0, generations=8, replicas=40, step=1.0, seed=0)
    agent.initial = first  # type: ignore[misc]
    before, after = (
        taciturn.simulate(world, one, seed=7, privacy={"preference": NoPrivacy()}).metrics["popularity_regret"]
        for one in (LearnedListener(2.0, weights=first), agent)
    )
    assert stats.ttest_rel(before, after, alternative="greater").pvalue < 1e-4
    assert len(agent.history) == 8


# What is kept.


def test_ten_trainings_of_each_world_are_kept() -> None:
    assert [*pretrained_agents()] == sorted(
        f"{world}-{i}" for world in ("federated", "gossip", "social") for i in range(10)
    )
    assert len({json.dumps(one["parameters"]) for one in pretrained_agents().values()}) == 30


def test_an_unknown_name_is_told_the_names() -> None:
    with pytest.raises(
        ValueError, match=r"policy pretrained:NAME must name one of federated-0, .*, social-9, not 'gossip'"
    ):
        bring("pretrained:gossip")
    with pytest.raises(ValueError, match=r"onnx:PATH, .*pretrained:NAME"):
        bring("nowhere:Nobody")
    with pytest.raises(ValueError, match=r"pretrained:\.\.\. cannot take"):
        bring("pretrained:gossip-0", moment=2.0)


@pytest.mark.parametrize("name", ["gossip", "social", "federated"])
def test_kept_messengers_reach_what_was_kept(name: str) -> None:
    """The mean over trainings of fresh runs, against the kept one: four standard errors, a false-alarm rate of 6e-5.
    In gossip, the weights with which training began fail. In the federated bandit one run of a hundred makes most of
    the variance, so that few runs would not show it."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))["worlds"][name]["judge"]
    runs = {"gossip": 10, "social": 6, "federated": 60}[name]

    def distance(agents: list[Any], runs: int) -> float:
        found = np.stack([measured(name, agent, runs, 100 + i) for i, agent in enumerate(agents)])
        value = np.mean(stored["values"]["learned"])
        # The kept mean is of 100 runs of each training.
        return float((found.mean() - value) / (found.std() * np.sqrt(1 / found.size + 1 / 1000)))

    agents = [bring(f"pretrained:{name}-{i}") for i in range(10)]
    assert abs(distance(agents, runs)) < 4
    if name == "gossip":
        untrained = LearnedListener(agents[0].moment, weights={**LearnedListener.initial, "count": 0.0})
        assert distance([untrained], 10 * runs) > 4


def measured(name: str, agent: Any, runs: int, seed: int) -> Array:
    """The measure of runs of the standard task at a total of 3."""
    task = TASKS[pretrained_agents()[f"{name}-0"]["task"]]
    config = task_config(task, type(agent).__name__)
    way = own_configuration(agent, population(config, 1, "evaluation"), 3.0)
    assert way is not None
    metrics = evaluated(population(config, runs, "evaluation"), agent, config, seed, way.channels)
    assert (metrics["epsilon_message"] <= 3.0 + 1e-9).all()
    return metrics[task.measure]


@pytest.mark.parametrize("name", ["gossip", "social", "federated"])
def test_a_kept_messenger_plays_its_task_untrained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = bring(f"pretrained:{name}-0")
    monkeypatch.setattr(type(agent), "fit", None)
    task = TASKS[pretrained_agents()[f"{name}-0"]["task"]]
    (way,) = ready(task, agent, task_config(task, f"pretrained:{name}-0"), seed=0)
    assert way == own_configuration(agent, population(task_config(task, f"pretrained:{name}-0"), 1, "evaluation"), 3.0)


def test_kept_messengers_are_listed_by_the_names_that_play(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["taciturn", "list", "pretrained", "--json"])
    with pytest.raises(SystemExit):
        main()
    listed = json.loads(capsys.readouterr().out)["pretrained"]
    assert listed["pretrained:gossip-0"] == "LearnedListener, trained for taciturn/GossipBandit-v0/standard@3"
    assert len(listed) == len(pretrained_agents())
    assert all(bring(name).weights for name in listed)


def test_a_kept_messenger_plays_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = [word for key, value in GOSSIP.items() for word in ("--set", f"{key}={value}")]
    arguments = ["run", "gossip_bandit_v0", "--policy", "pretrained:gossip-0", *world, "--runs", "2", "--json"]
    monkeypatch.setattr(sys, "argv", ["taciturn", *arguments, "--privacy", "NoPrivacy"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    found = capsys.readouterr()
    assert not end.value.code, found.err
    assert json.loads(found.out)["metrics"]["ticks"]["mean"] > 10
