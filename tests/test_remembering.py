"""What agents remember is what they saw and heard themselves, by hand, in every interface."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO

import taciturn
from taciturn.envs import (
    arm_elimination_v0,
    elicitation_v0,
    federated_bandit_v0,
    gossip_bandit_v0,
    round_stopping_v0,
    social_bandit_v0,
)
from taciturn.envs.core import Array, ControlledAgent, Population, SingleEnv, VectorView
from taciturn.policies import Voter
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Laplace, Mechanism, Memoized, Scheduled
from taciturn.wrappers import Budget, Privatize, Remembering
from taciturn.wrappers.remembering import SocialMemory
from taciturn.wrappers.sb3 import RowsVecEnv

with warnings.catch_warnings():
    # PettingZoo warns of the way its own example environments are made.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    from pettingzoo.test import api_test, parallel_api_test

GOSSIP: dict[str, Any] = {"num_agents": 5, "num_options": 3, "horizon": 12.0, "without_preference": "zeros"}
SOCIAL: dict[str, Any] = {
    "num_agents": 5, "num_options": 3, "horizon": 25, "signals": "per_agent", "without_preference": "zeros",
    "copies": 4,
}  # fmt: skip
ARMS: dict[str, Any] = {"num_agents": 4, "num_arms": 3, "horizon": 30}
BITS = BitwiseRandomizedResponse(3.0)
ONCE = {"gossip": Scheduled(BITS, at=12), "social": Scheduled(BITS, at=5)}
WORLDS: dict[str, Any] = {
    "gossip": (gossip_bandit_v0, GOSSIP, "preference", BITS),
    "social": (social_bandit_v0, SOCIAL, "preference", BITS),
    "federated": (federated_bandit_v0, ARMS, "means", Laplace(2.0)),
}


def population(name: str, num_envs: int = 2, mechanism: Mechanism | None = None, **more: Any) -> Population[Any]:
    world, params, channel, usual = WORLDS[name]
    return Privatize(world.population(num_envs, **{**params, **more}), channel, mechanism or usual)


def some_actions(env: Population[Any], rng: np.random.Generator) -> Array:
    """Random actions, [B, rows, ...]."""
    space: Any = env.roles["agent"].action_space
    shape = (env.num_envs, env.rows("agent"))
    if hasattr(space, "nvec"):
        return rng.integers(0, space.nvec, (*shape, len(space.nvec)))
    return rng.integers(0, space.n, shape)


def seen(env: Population[Any], obs: Array) -> dict[str, Array]:
    """The fields of observations [..., D] as float64."""
    return env.roles["agent"].layout.unpack(obs.astype(np.float64))


class Diary:
    """One agent of social learning with pen and paper: it writes down what it observes, does and earns."""

    def __init__(self, options: int, rounds: bool, scheduled: bool) -> None:
        self.signals: list[tuple[int, int]] = []
        self.messages: list[tuple[list[float], float]] = []
        self.open: tuple[int, int, int] | None = None
        self.held, self.turns = -1, 0
        self.options, self.rounds, self.scheduled = options, rounds, scheduled

    def observes(self, counts: Array, received: float, own: Array) -> None:
        held = int(own.argmax()) if own.any() else -1
        if self.open is not None:
            option, zero, one = self.open
            adopted = held == option
            self.signals.append((option, one if adopted else zero))
        self.open, self.held = None, held
        first = not self.messages
        if received and not (self.scheduled and first and not counts.any()):
            self.messages.append((counts.tolist(), received))

    def does(self, plan: Array, reward: float) -> None:
        option, zero, one = plan.tolist()
        self.turns += 1
        if not self.rounds:
            if option < self.options:
                self.signals.append((option, int(reward)))
            return
        if self.held >= 0:
            self.signals.append((self.held, int(reward)))
        if option < self.options and option != self.held and zero != one:
            self.open = (option, 0 if one else 1, 1 if one else 0)

    def hits(self, value: int) -> list[int]:
        return [self.signals.count((k, value)) for k in range(self.options)]

    def heard(self, agents: int, p: float, q: float, repeated: bool) -> tuple[Array, float, Array]:
        copies = sum(received for _, received in self.messages)
        if not copies:
            return np.zeros(self.options), 0.0, np.zeros(self.options)
        share = np.sum([counts for counts, _ in self.messages], axis=0) / copies
        answers = copies
        if repeated:
            asked = 1 / agents if self.rounds else copies / len(self.messages) / agents
            answers = 1 / (1 / agents + (1 - asked) / copies)
        estimate = (share - q) / (p - q)
        s = np.clip(estimate, 0, 1)
        return estimate, answers, (s * p * (1 - p) + (1 - s) * q * (1 - q)) / (p - q) ** 2 / answers


@pytest.mark.parametrize("name", ["gossip", "social"])
@pytest.mark.parametrize("kind", ["fresh", "once", "memoized"])
def test_statistics_are_those_of_an_agent_with_pen_and_paper(name: str, kind: str) -> None:
    mechanism: Mechanism = {"fresh": BITS, "once": ONCE[name], "memoized": Memoized(BITS)}[kind]
    bare, env = population(name, 3, mechanism), Remembering(population(name, 3, mechanism))
    rng, agents, rounds = np.random.default_rng(0), bare.params.num_agents, name == "social"
    scale = 1 if rounds else agents
    obs, wide = bare.reset(seed=3)[0], env.reset(seed=3)[0]
    diaries = [[Diary(3, rounds, kind == "once") for _ in range(agents)] for _ in range(3)]
    compared = 0
    while not bare.done.all():
        who = bare.acting("agent") if not rounds else np.tile(np.arange(agents), (3, 1))
        fields, known = seen(bare, obs), seen(env, wide)
        np.testing.assert_array_equal(wide[..., : obs.shape[-1]], obs)
        assert who is not None
        for b, row in np.argwhere(np.broadcast_to(~bare.done[:, None], who.shape)):
            diary = diaries[b][who[b, row]]
            counts = np.rint(fields["counts"][b, row] * scale)
            diary.observes(counts, round(float(fields["received"][b, row]) * scale), fields["own"][b, row])
            estimate, answers, noise = diary.heard(agents, BITS.p, BITS.q, kind != "fresh")
            np.testing.assert_array_equal(known["hits"][b, row], diary.hits(1))
            np.testing.assert_array_equal(known["misses"][b, row], diary.hits(0))
            np.testing.assert_allclose(known["heard"][b, row], estimate, atol=1e-5)
            np.testing.assert_allclose(known["answers"][b, row], answers, rtol=1e-5)
            np.testing.assert_allclose(known["noise"][b, row], noise, atol=1e-6)
            assert known["turns"][b, row] == diary.turns
            left = (25 if rounds else 12.0) - diary.turns
            assert known["turns_left"][b, row] == pytest.approx(max(left, 0.0))
            compared += 1
        live, actions = ~bare.done, some_actions(bare, rng)
        step, wide = bare.step(actions), env.step(actions).observation
        for b, row in np.argwhere(np.broadcast_to(live[:, None], who.shape)):
            diaries[b][who[b, row]].does(actions[b, row], step.reward[b, row])
        obs = step.observation
    assert compared > 100
    assert any(diary.messages for some in diaries for diary in some), "something was heard"


def test_uploads_are_remembered_with_their_noise() -> None:
    bare, env = population("federated", 3), Remembering(population("federated", 3))
    rng, arms = np.random.default_rng(1), 3
    obs, wide = bare.reset(seed=4)[0], env.reset(seed=4)[0]
    fresh, sent = np.zeros((3, 4, arms)), np.zeros((3, 4, arms))
    parts: dict[tuple[int, ...], list[int]] = {}
    while not bare.done.all():
        fields, known = seen(bare, obs), seen(env, wide)
        np.testing.assert_array_equal(known["uploaded"], sent)
        for cell in np.ndindex(sent.shape):
            # A mean of n rewards has sensitivity 1/n: Laplace noise of scale 1/(n epsilon), variance 2/(n epsilon)^2.
            each = parts.get(cell, [])
            noise = sum(n**2 * 2 / (n * 2.0) ** 2 for n in each) / sum(each) ** 2 if each else 0.0
            assert known["noise"][cell] == pytest.approx(noise, rel=1e-5)
            average, own = fields["broadcast"][cell], fields["private"][cell]
            others = np.clip((4 * average - own) / 3, -10, 11) if each else average
            assert known["others"][cell] == pytest.approx(others, abs=1e-5)
        actions = some_actions(bare, rng)
        obs, wide = bare.step(actions).observation, env.step(actions).observation
        for b, i in np.ndindex(actions.shape):
            fresh[b, i, actions[b, i] % arms] += 1
            if actions[b, i] >= arms:
                for k in range(arms):
                    if fresh[b, i, k]:
                        parts.setdefault((b, i, k), []).append(int(fresh[b, i, k]))
                sent[b, i] += fresh[b, i]
                fresh[b, i] = 0
    assert sent.sum() > 200


def test_others_is_the_mean_of_the_others_if_all_have_uploaded() -> None:
    env = Remembering(federated_bandit_v0.population(1, num_agents=3, qualities=[0.5, 0.5], horizon=10))
    obs = env.reset(seed=0)[0]
    for upload in (False, False, False, True):
        obs = env.step(np.array([[0, 0, 0]]) + 2 * upload).observation
    means = seen(env, obs)["private"][0, :, 0]
    assert len(set(means.tolist())) > 1
    for i in range(3):
        assert seen(env, obs)["others"][0, i, 0] == pytest.approx(np.delete(means, i).mean(), abs=1e-6)


def test_flat_plans_are_remembered_alike() -> None:
    wide, flat = (Remembering(social_bandit_v0.population(2, **SOCIAL, flat_actions=flat)) for flat in (False, True))
    np.testing.assert_array_equal(wide.reset(seed=0)[0], flat.reset(seed=0)[0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        plan = rng.integers(0, [4, 2, 2], (2, 5, 3))
        np.testing.assert_array_equal(wide.step(plan).observation, flat.step(plan @ [4, 2, 1]).observation)


def test_what_is_left_is_counted() -> None:
    def left(env: Population[Any]) -> list[float]:
        obs, rng = env.reset(seed=0)[0], np.random.default_rng(0)
        found = []
        while not env.done.any():
            found.append(float(seen(env, obs)["left"][0, 0]))
            obs = env.step(some_actions(env, rng)).observation
        return found

    assert set(left(Remembering(gossip_bandit_v0.population(1, **GOSSIP)))) == {1.0}
    assert set(left(Remembering(population("federated", 1)))) == {1.0}
    # As a run begins, all send a message; the answer is the fifth.
    assert left(Remembering(population("social", 1, ONCE["social"])))[:6] == [1, 1, 1, 1, 0, 0]
    world = social_bandit_v0.population(1, **SOCIAL)
    spent = left(Remembering(Privatize(world, "preference", BITS, Budget(epsilon=12.0))))
    np.testing.assert_allclose(spent[:5], [0.75, 0.5, 0.25, 0.0, 0.0])


def differences(name: str) -> dict[bool, int]:
    """In how many rows two runs of a seed differ, in which agent 0 acts otherwise and whose messages tell nothing: its
    own rows (True), and those of others (False)."""
    world, params, channel, _ = WORLDS[name]
    runs: list[list[Array]] = []
    for other in (False, True):
        never = Scheduled(BITS, at=10**6) if channel == "preference" else Laplace(2.0)
        env, rng = Remembering(Privatize(world.population(3, **params), channel, never)), np.random.default_rng(6)
        obs, found = env.reset(seed=2)[0], []
        while not env.done.all():
            rows, actions = env.acting("agent"), some_actions(env, rng)
            who = np.tile(np.arange(actions.shape[1]), (3, 1)) if rows is None else rows
            if name == "federated":
                actions %= params["num_arms"]  # nobody uploads
            changed = (actions + other) % (2 if actions.ndim == 2 else np.array([3, 2, 2]))
            actions = np.where((who == 0).reshape(who.shape + (1,) * (actions.ndim - 2)), changed, actions)
            found.append(np.concatenate([who[..., None], obs], -1)[~env.done].reshape(-1, obs.shape[-1] + 1))
            obs = env.step(actions).observation
        runs.append(found)
    first, second = (np.concatenate(found) for found in runs)
    differ = (first != second).any(1)
    return {own: int(differ[(first[:, 0] == 0) == own].sum()) for own in (True, False)}


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_that_only_others_saw_enters(name: str) -> None:
    found = differences(name)
    assert found[True] > 20
    assert not found[False]


def test_a_shared_memory_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    known = SocialMemory.known
    monkeypatch.setattr(SocialMemory, "known", lambda memory, agents: known(memory, np.zeros_like(agents)))
    assert differences("gossip")[False] > 20


@pytest.mark.filterwarnings("ignore:Action space for each agent probably should be")
@pytest.mark.parametrize("name", WORLDS)
def test_pettingzoo(name: str) -> None:
    world, params, channel, mechanism = WORLDS[name]
    api_test(Privatize(Remembering(world.env(**params)), channel, mechanism), num_cycles=60)
    parallel_api_test(Privatize(Remembering(world.parallel_env(**params)), channel, mechanism), num_cycles=60)


def test_gymnasium_and_stable_baselines() -> None:
    seat = ControlledAgent(gossip_bandit_v0.population(1, **GOSSIP), "agent", 1, {"agent": Voter()})
    check_env(Remembering(SingleEnv(seat)), skip_render_check=True)
    vector = Remembering(
        VectorView(ControlledAgent(social_bandit_v0.population(3, **SOCIAL), "agent", 0, {"agent": Voter()}))
    )
    wide, _ = vector.reset(seed=0)
    assert wide.shape == (3, vector.single_observation_space.shape[0])
    rows = RowsVecEnv(Remembering(population("social", 2)), seed=0)
    PPO("MlpPolicy", rows, n_steps=8, batch_size=80, device="cpu", seed=0).learn(100)


@pytest.mark.parametrize("name", WORLDS)
def test_a_run_that_begins_anew_remembers_nothing(name: str) -> None:
    env, rng = Remembering(population(name, 3)), np.random.default_rng(0)
    first = env.reset(seed=5)[0]
    for _ in range(12):
        last = env.step(some_actions(env, rng)).observation
    memory = slice(env.inner.roles["agent"].layout.size, None)
    where = np.array([False, True, False])
    again = env.reset(where=where)[0]
    np.testing.assert_array_equal(again[~where], last[~where])
    fields = seen(env, again[where])
    assert not any(fields[key].any() for key in ("hits", "misses", "turns", "uploaded") if key in fields)
    assert (last[..., memory] != first[..., memory]).any()
    copy = pickle.loads(pickle.dumps(env))
    actions = some_actions(env, rng)
    np.testing.assert_array_equal(copy.step(actions).observation, env.step(actions).observation)


def test_replicas_that_wait_learn_nothing() -> None:
    env, rng = Remembering(population("social", 2)), np.random.default_rng(0)
    before = env.reset(seed=0)[0]
    after = env.step(some_actions(env, rng), where=np.array([True, False])).observation
    assert (after[0] != before[0]).any()
    np.testing.assert_array_equal(after[1], before[1])


def test_other_worlds_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="env must be of one of gossip_bandit, social_bandit, federated_bandit for"):
        Remembering(round_stopping_v0.population(1))
    with pytest.raises(ValueError, match="not of arm_elimination"):
        Remembering(arm_elimination_v0.population(1))
    with pytest.raises(ValueError, match=r"env must have one role for its agents to remember, not \['platform'"):
        Remembering(elicitation_v0.population(1))
    with pytest.raises(ValueError, match="reward must be 'pull' for agents to remember signals, not 'preference'"):
        Remembering(gossip_bandit_v0.population(1, reward="preference"))
    with pytest.raises(ValueError, match="topology must be 'server' for agents to remember uploads, not 'ring'"):
        Remembering(federated_bandit_v0.population(1, num_agents=4, topology="ring"))
    with pytest.raises(ValueError, match="env must be a population or a bare environment of this suite"):
        Remembering(Privatize(gossip_bandit_v0.env(**GOSSIP), "preference", BITS))


def test_privacy_inside_or_around_is_the_same_run() -> None:
    runs = []
    for env in (Remembering(population("gossip")), Privatize(Remembering(gossip_bandit_v0.population(2, **GOSSIP)),
                                                             "preference", BITS)):  # fmt: skip
        run = taciturn.simulate(env, Voter(), seed=1, record=["popularity"], until=[3.0, 9.0])
        runs.append((run.trace["popularity"], run.metrics["epsilon_basic"]))
    np.testing.assert_equal(runs[0], runs[1])
    assert np.isfinite(runs[0][1]).all()
