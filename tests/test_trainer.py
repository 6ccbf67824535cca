"""The suite's own trainer: its advantages, networks and evolution against independent computations, its bits, and
trainings in a folder that resume."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.agents import bring
from taciturn.bench.train import train
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, round_stopping_v0, social_bandit_v0
from taciturn.policies import Random
from taciturn.policies.designed.federated_bandit import DividedPlan
from taciturn.policies.learned import networks, social_features
from taciturn.policies.learned.agents import NetworkAgent
from taciturn.policies.learned.networks import forward, new_weights
from taciturn.policies.learned.plans import EvolvedPlan
from taciturn.policies.learned.ppo import PPO, Settings, own_turn_advantages
from taciturn.policies.learned.scores import SocialScore
from taciturn.policies.learned.stored import FILE, load_agent, saved_agent
from taciturn.policies.learned.trained import MILESTONES, TrainedAgent, Training, costs
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Laplace, Scheduled
from taciturn.testing.policies import Play
from taciturn.testing.schedules import schedule_is_public
from taciturn.wrappers import Privatize
from taciturn.wrappers.remembering import SocialMemory

torch = pytest.importorskip("torch")

GOSSIP: dict[str, Any] = {"num_agents": 4, "num_options": 3, "horizon": 5.0}
SMALL: dict[str, Any] = {"num_envs": 6, "width": 4, "batch": 64}


def test_advantages_follow_an_agents_own_turns() -> None:
    """Against sums of discounted errors along each agent's turns, which are listed one by one."""
    rng, (turns, envs, rows, agents) = np.random.default_rng(0), (30, 4, 2, 5)
    values, rewards = rng.normal(size=(2, turns, envs, rows))
    who = np.stack([[rng.permutation(agents)[:rows] for _ in range(envs)] for _ in range(turns)])
    ends = rng.random((turns, envs)) < 0.1
    live = np.ones((turns, envs), np.bool_)
    live[20:, 0] = False  # a run that is over, and frozen
    ends[19:, 0] = [True, *[False] * 10]
    after, gamma, lam = rng.normal(size=(envs, agents)), 0.9, 0.7
    after[0] = 0.0
    found = own_turn_advantages(values, rewards, live, ends, who, after, gamma, lam)
    for b in range(envs):
        for agent in range(agents):
            mine = [(t, r) for t in range(turns) for r in range(rows) if who[t, b, r] == agent and live[t, b]]
            errors = []
            for (t, r), later in zip(mine, [*mine[1:], None], strict=True):
                last = turns - 1 if later is None else later[0] - 1
                over = ends[t : last + 1, b].any()
                following = 0.0 if over else after[b, agent] if later is None else values[later[0], b, later[1]]
                errors.append((rewards[t, b, r] + gamma * following - values[t, b, r], over))
            for i, (t, r) in enumerate(mine):
                total, weight = 0.0, 1.0
                for error, over in errors[i:]:
                    total += weight * error
                    weight *= 0.0 if over else gamma * lam
                assert found[t, b, r] == pytest.approx(total, abs=1e-9)
    assert not found[20:, 0].any()


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_the_schedule_of_an_evolved_plan_is_public(epsilon: float | None) -> None:
    """With any weights: what an agent does follows from averages, whatever its own rewards are."""
    weights = np.random.default_rng(3).normal(0.0, 0.5, 16)
    mechanism = {} if epsilon is None else {"means": Laplace(epsilon)}
    given = {"weights": weights.tolist()}
    arms = {"num_agents": 4, "num_arms": 3, "horizon": 40}
    schedule_is_public(Play(EvolvedPlan, "federated_bandit_v0", arms, given=given, privacy=mechanism))


def test_renumbered_options_have_renumbered_outputs() -> None:
    rng = np.random.default_rng(1)
    weights = new_weights(rng, 5, 3, 2, 8, last=1.0)
    option, common = rng.normal(size=(7, 4, 5)).astype(np.float32), rng.normal(size=(7, 3)).astype(np.float32)
    order = rng.permutation(4)
    out = forward(weights, option, common)
    assert np.allclose(forward(weights, option[:, order], common), out[:, order], atol=1e-5)
    assert not np.allclose(out, out[:, order], atol=1e-3)
    changed = option.copy()
    changed[:, 0] += 1
    assert not np.allclose(forward(weights, changed, common)[:, 1:], out[:, 1:], atol=1e-4)  # others matter
    learned = {name: torch.from_numpy(one) for name, one in weights.items()}
    both = forward(learned, torch.from_numpy(option), torch.from_numpy(common)).numpy()
    assert np.allclose(both, out, atol=1e-5)


@pytest.mark.parametrize("kind", ["number", "numbers", "point", "plan"])
def test_heads_draw_as_they_say(kind: str) -> None:
    """Frequencies of 40,000 draws against the probabilities that training uses (false alarms: 1e-4, by 4.9 standard
    errors for at most 40 cells)."""
    from gymnasium.spaces import Box, Discrete, MultiDiscrete

    rng, runs = np.random.default_rng(2), 40_000
    head: Any = {
        "number": networks.Number(Discrete(6, start=1), 3), "numbers": networks.Numbers(MultiDiscrete([3, 2])),
        "point": networks.Point(Box(-2.0, 4.0, (2,), np.float32)), "plan": networks.Plan(flat=True),
    }[kind]  # fmt: skip
    options = 3 if kind in ("number", "plan") else 1
    out = np.repeat(rng.normal(size=(1, options, head.outputs)), runs, 0).astype(np.float32)
    weights = dict(head.extra)
    mask = np.repeat(np.array([[1, 1, 0, 1, 1, 1]], np.float32), runs, 0) if kind == "number" else None
    choice = head.draw(out, weights, rng, mask, False)
    given = [None if one is None else torch.from_numpy(np.ascontiguousarray(one)) for one in (out, choice, mask)]
    log, entropy = head.evaluated(given[0], {k: torch.from_numpy(x) for k, x in weights.items()}, given[1], given[2])
    if kind == "point":
        spread = np.exp(weights["log_spread"])
        density = -0.5 * (((choice - out[:, 0]) / spread) ** 2).sum(1) - np.log(spread).sum()
        assert np.allclose(log.numpy(), density, atol=1e-4)
        assert np.allclose((choice - out[:, 0]).std(0), spread, rtol=0.02)
        assert (head.action(choice) >= -2).all()
        assert (head.action(choice) <= 4).all()
        return
    cells, index, counts = np.unique(choice, axis=0, return_index=True, return_counts=True)
    chances = np.exp(log.numpy()[index])
    assert chances.sum() == pytest.approx(1.0, abs=1e-3)
    assert len(cells) > 4
    assert (np.abs(counts / runs - chances) < 4.9 * np.sqrt(chances / runs) + 1e-6).all()
    assert float(entropy.mean()) == pytest.approx(-(chances * np.log(chances)).sum(), abs=0.02)
    assert (head.draw(out, weights, rng, mask, True) == cells[np.argmax(counts)]).all()
    alike = head.draw(np.zeros_like(out), weights, rng, None, True).reshape(runs, -1)[:, 0]
    shares = np.unique(alike, return_counts=True)[1] / runs
    assert np.allclose(shares, 1 / len(shares), atol=0.015)
    assert len(shares) > 2


@pytest.mark.parametrize("make", [gossip_bandit_v0, social_bandit_v0])
@pytest.mark.parametrize("compiled", [False, True])
def test_features_are_those_of_the_memory(make: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(social_features.FUNCTIONS, "work", 10**9 if compiled else -(10**9))
    mechanism = Scheduled(BitwiseRandomizedResponse(3.0), at=4)
    world = Privatize(make.population(5, num_agents=4, horizon=12, without_preference="zeros"), "preference", mechanism)
    world.reset(seed=3)
    memory, features, player = SocialMemory(world.view(), world.view().world), None, Random()
    features = social_features.SocialFeatures(world.view(), "agent")
    player.reset(world, world.stream("policy"))
    seen, heard = world.observe(), 0.0
    while not world.done.all():
        acting = world.acting("agent")
        agents = np.broadcast_to(np.arange(4), (5, 4)) if acting is None else acting
        live = ~world.done
        memory.receive(seen, agents, np.ones(5, np.bool_))
        known, held = memory.known(agents), memory.held(agents)
        option, common = features.see(seen, agents)
        option, common = option.reshape(*agents.shape, -1, 10), common.reshape(*agents.shape, 5)
        n = known["hits"] + known["misses"]
        for place, expected in {
            0: (1 + known["hits"]) / (2 + n), 3: np.log1p(n) / 2, 6: known["heard"], 9: np.sqrt(known["noise"]),
            8: held[..., None] == np.arange(n.shape[-1]),
        }.items():  # fmt: skip
            assert np.allclose(option[..., place], expected, atol=1e-6)
        assert np.allclose(common[..., 2], np.log1p(known["turns_left"]) / 3, atol=1e-6)
        assert np.allclose(common[..., 4], np.minimum(known["answers"] / 4, 2), atol=1e-6)
        heard = max(heard, float(np.abs(option[..., 6]).max()))
        action = player.act(seen)
        step = world.step(action)
        memory.learn(action, step.reward, agents, live)
        features.learn(action, step.reward, agents, ~live)
        seen = step.observation
    assert heard > 0.1


def weights_of(agent: Any) -> bytes:
    return saved_agent(agent)


def trained(steps: int = 3000, seed: int = 0, **settings: Any) -> Any:
    world = gossip_bandit_v0.population(1, **GOSSIP)
    agent = TrainedAgent(steps, settings=SMALL | settings, seed=seed).train(world)
    return agent._agent


def test_the_same_seed_gives_the_same_bits() -> None:
    assert weights_of(trained()) == weights_of(trained()) != weights_of(trained(seed=1))


def test_it_learns_from_the_lesson_of_practice_worlds() -> None:
    """The reward is minus the gap of what the acting agent then holds, which the world's own column shows."""
    world = gossip_bandit_v0.population(1, **GOSSIP)
    world.reset(seed=0)
    ppo = PPO(world.view(), "agent", NetworkAgent(), Settings(**SMALL), 0)
    rollout, state = ppo.play(), ppo.world.state
    last = np.array([np.flatnonzero(rollout.live[:, b])[-1] for b in range(6)])
    for b, t in enumerate(last):
        held = state.preference[b, rollout.seen.agents[t, b, 0]]
        assert rollout.reward[t, b, 0] == pytest.approx(state.qualities[b, held] - state.qualities[b].max(), abs=1e-6)


def test_learned_gossip_is_better_than_untrained() -> None:
    world = gossip_bandit_v0.population(1, num_agents=6, num_options=3, horizon=10.0)
    learner = TrainedAgent(60_000, settings={"num_envs": 40, "width": 8, "batch": 512})
    learner.role = "agent"
    training = learner.training(world.view())
    training.run(lambda *_: None)
    assert training.curve[-1].mean < 0.6 * training.curve[0].mean
    assert 3 < len(training.curve) <= 1 + len(MILESTONES)


def test_a_plan_begins_as_the_designed_one_and_its_simulator_agrees() -> None:
    """Mean regret of 600 simulated runs and 300 of the world, 5 standard errors apart at most."""
    world = federated_bandit_v0.population(300, num_agents=6, num_arms=3, horizon=60)
    plan = EvolvedPlan()
    simulated, steps = plan.simulator(world)(plan.weights, 600, 1)  # type: ignore[misc]
    played, taken = costs(world, plan, "agent", 2, "regret_per_agent")
    error = np.hypot(simulated.std() / np.sqrt(600), played.std() / np.sqrt(300))
    assert abs(simulated.mean() - played.mean()) < 5 * error
    assert steps == 600 * 6 * 60
    assert taken == 300 * 6 * 60
    designed, _ = costs(world, DividedPlan(), "agent", 2, "regret_per_agent")
    assert played.mean() < designed.mean()


@pytest.mark.parametrize("env", ["gossip_bandit", "social_bandit"])
def test_a_training_that_was_stopped_goes_on(env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = {"gossip_bandit": SMALL, "social_bandit": {"runs": 8, "block": 8, "population": 4}}[env]
    params: dict[str, Any] = {"num_agents": 4, "num_options": 3, "horizon": 5}
    given: dict[str, Any] = {"steps": 2500, "params": params, "settings": make}
    whole = train(env, **given, out=tmp_path / "whole")
    run, stop = Training._evaluate, [4]

    def evaluated(self: Training) -> None:
        stop[0] -= 1
        if stop[0] < 0:
            raise KeyboardInterrupt
        run(self)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_evaluate", evaluated)
        with pytest.raises(KeyboardInterrupt):
            train(env, **given, out=tmp_path / "halves")
    assert not (tmp_path / "halves" / FILE).exists()
    halves = train(env, **given, out=tmp_path / "halves", resume=True)
    assert (whole / FILE).read_bytes() == (halves / FILE).read_bytes()
    lines = [(folder / "evaluations.csv").read_text().splitlines() for folder in (whole, halves)]
    assert [[x for i, x in enumerate(line.split(",")) if i != 1] for line in lines[0]] == [
        [x for i, x in enumerate(line.split(",")) if i != 1] for line in lines[1]
    ]
    assert (whole / "curve.png").read_bytes()[:4] == b"\x89PNG"
    agent = bring(str(whole))
    worlds: dict[str, Any] = {"gossip_bandit": gossip_bandit_v0, "social_bandit": social_bandit_v0}
    world = worlds[env].population(3, **params)
    runs = [taciturn.simulate(world, one, seed=1).metrics for one in (agent, load_agent(whole / FILE))]
    assert all(np.array_equal(runs[0][name], runs[1][name], equal_nan=True) for name in runs[0])


def test_a_plain_world_is_learned_from_its_rewards() -> None:
    """The mean of the last weights keeps the indices of the fields that also have a logarithm: a mean of equal numbers
    in single precision can be 2.9999998, and 2 is another field."""
    world = round_stopping_v0.population(1, num_clients=30, slot_time=0.1, horizon=10.0)
    learner = TrainedAgent(60_000, settings={"num_envs": 20, "batch": 512})
    learner.role = next(iter(world.roles))
    training = learner.training(world.view())
    training.run(lambda *_: None)
    fields = training._trainer.agent.features.wide
    assert training._trainer.weights["wide"].tolist() == fields.tolist() == [0, 1, 2, 3]
    rates = [-found.mean for found in training.curve]
    assert min(rates) > 0.97 * rates[0], "no checkpoint acts on other features than those that it was trained on"


def test_a_trained_agent_sees_a_smaller_world_by_the_features_of_its_training(tmp_path: Path) -> None:
    """Counts of clients have logarithms where they can be large; an agent keeps those that it was trained with."""
    large, small = (
        round_stopping_v0.population(2, num_clients=clients, slot_time=0.1, horizon=10.0) for clients in (30, 6)
    )
    learner = TrainedAgent(2000, settings={"num_envs": 8, "turns": 20, "batch": 64}).train(large)
    (tmp_path / FILE).write_bytes(saved_agent(learner._agent))
    stored = load_agent(tmp_path / FILE)
    assert isinstance(stored, NetworkAgent)
    features = {}
    for world in (large, small):
        world.reset(seed=0)
        stored.reset(world.view(), np.random.default_rng(0), next(iter(world.roles)))
        assert stored.act(world.observe()).shape == (2, 1)
        features[world] = stored.features.see(np.full((1, 1, 5), 2.0), np.zeros((1, 1)))[0]
    assert np.array_equal(features[large], features[small])
    assert np.array_equal(features[small][0, 0, 5:], np.full(features[small].size - 5, np.log(3), np.float32))
    untold = NetworkAgent({name: one for name, one in stored.weights.items() if name != "wide"})
    with pytest.raises(ValueError, match="environments like the one it was trained in"):
        untold.reset(small.view(), np.random.default_rng(0), next(iter(small.roles)))


def test_a_world_from_outside_is_learned_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 guesses an agent alone gets 12 x 0.7 = 8.4 right; the votes of four tell more."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples" / "plugin")
    params: dict[str, Any] = {"num_agents": 4, "horizon": 12}
    folder = train("rumour:rumour_v0", steps=150_000, params=params, out=tmp_path / "rumour")
    from rumour import rumour_v0

    run = taciturn.simulate(rumour_v0.population(400, **params), bring(str(folder)), seed=0)
    assert run.metrics["right"].mean() > 8.8


def test_scores_are_equivariant() -> None:
    """Without draws, a renumbered observation gives a renumbered plan."""
    world = social_bandit_v0.population(40, num_agents=5, num_options=4, horizon=6)
    weights = np.random.default_rng(0).normal(size=76)
    agent = SocialScore(weights)
    world.reset(seed=0)
    order = np.array([2, 0, 3, 1])

    class Still:
        def random(self, shape: Any, dtype: Any = None) -> Any:
            return np.full(shape, 0.5, np.float32)

    seen = world.observe()
    agent.reset(world, Still())  # type: ignore[arg-type]
    first = agent.act(seen)
    renumbered = seen.copy()
    for start in (0, 5):
        renumbered[..., start : start + 4] = seen[..., start + order]
    agent.reset(world, Still())  # type: ignore[arg-type]
    second = agent.act(renumbered)
    distinct = (np.diff(np.sort(seen[..., :4], -1), axis=-1) > 0).all(-1)  # elsewhere options are alike
    assert np.array_equal(order[second[..., 0]][distinct], first[..., 0][distinct])
    assert np.array_equal(second[..., 1:][distinct], first[..., 1:][distinct])
    assert distinct.sum() > 50
    assert len(np.unique(first[..., 0][distinct])) == 4


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    def written(agent: str, parameters: str, **arrays: Any) -> bytes:
        about = {"agent": agent, "parameters": parameters, "training": "{}"}
        text = json.dumps({"__metadata__": about, **arrays}).encode()
        return len(text).to_bytes(8, "little") + text

    place: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for data in (
        b"", b"[]", bytes([255] * 40), written("os.system", "{}"), written("NetworkAgent", "3"),
        written("NetworkAgent", "{}")[:30],
        written("SocialScore", "{}", weights=place), written("SocialScore", "{}", weights=place | {"shape": [-2]}),
        written("SocialScore", "{}", weights=place | {"data_offsets": [0, 0]}),
        written("SocialScore", "{}", weights=place | {"dtype": "O", "data_offsets": [0, 0], "shape": [0]}),
    ):  # fmt: skip
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(ValueError, match="must be the agent of a training"):
            bring(str(tmp_path))
    with pytest.raises(ValueError, match="method must be 'ppo' in gossip_bandit"):
        TrainedAgent(method="evolution").train(gossip_bandit_v0.population(1, **GOSSIP))
    with pytest.raises(ValueError, match="weights"):
        SocialScore([1.0])
    with pytest.raises(ValueError, match="like the one it was trained in"):
        taciturn.simulate(
            round_stopping_v0.population(2), NetworkAgent(new_weights(np.random.default_rng(0), 3, 1, 2, 4)), seed=0
        )
