"""Audits of whole runs (`audit(..., change=...)`). Certificates have confidence 0.9999: a true total is refuted with
probability 1e-4."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from worlds import LUCK, Consensus, Opinions, Params, count, observe_opinions, think

import taciturn
from taciturn import envs, policies
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons.leakage import rows
from taciturn.bench.results import Group, Results
from taciturn.envs.core import Array, Channel, fields, uniform
from taciturn.registry import worlds
from taciturn.validation import Floats
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Laplace,
    LossyChannel,
    MessageLimit,
    Privatize,
    Stragglers,
    audit,
)
from taciturn.wrappers.changed_runs import Transcript

CONFIDENCE = 0.9999


def society(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "num_agents": 6,
        "qualities": (0.8, 0.2),
        "copies": 8,
        "dissemination": "stationary",
        "horizon": 10,
    }
    return envs.social_bandit_v0.population(1, **(given | changes))


def gossip(**changes: Any) -> Any:
    given: dict[str, Any] = {"num_agents": 6, "qualities": (0.8, 0.2), "horizon": 5.0}
    return envs.gossip_bandit_v0.population(1, **(given | changes))


def private(env: Any, mechanism: Any) -> Any:
    return Privatize(env, channel=next(iter(env.channels)), mechanism=mechanism)


@dataclass(frozen=True)
class TooLittleNoise(BitwiseRandomizedResponse):
    """Claims epsilon and flips bits as if it were 40 times as large."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return BitwiseRandomizedResponse(40 * self.epsilon).perturb(x, rng)


def test_who_speaks_tells_who_adopted() -> None:
    """At epsilon = 0.01 a message tells nothing, but an agent whose signals are all 1 speaks nearly always."""
    env = private(society(), BitwiseRandomizedResponse(0.01))
    found = audit(
        env, policy=policies.PrivateSocialLearning(beta=0.95), change=(0, 1), trials=400, confidence=CONFIDENCE
    )
    assert found.certified > 2 > 10 * 0.01
    assert found.claimed == np.inf


def test_an_agent_that_always_answers_reveals_no_more_than_its_answers() -> None:
    """At epsilon = 0.01 for each of some 40 answers the claim is so small that silence, of which 500 trials certify
    more than 2, would break it."""
    env = private(gossip(), BitwiseRandomizedResponse(0.01))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=500, confidence=CONFIDENCE)
    assert 0 < found.claimed < 1
    assert found.certified <= found.claimed


def test_a_run_is_audited_against_all_that_its_agent_has_sent() -> None:
    """Both worlds differ in all rewards of an agent, which enter several messages; each of them enters one."""
    env = private(envs.federated_bandit_v0.population(1, num_agents=4, num_arms=3, horizon=300), Laplace(0.01))
    run = taciturn.simulate(env, policies.CDPMAB(), seed=0)
    event, user = (run.accountant.epsilon(delta=0.0, method="basic", unit=unit).max() for unit in ("event", "user"))
    found = audit(env, policy=policies.CDPMAB(), change=(0, 1), trials=20, confidence=CONFIDENCE, seed=0)
    assert event == 0.01
    assert found.claimed > 20 * event
    assert found.claimed == pytest.approx(user, rel=0.5)


def test_too_little_noise_is_caught_in_a_run() -> None:
    society = {"horizon": 1.0, "num_agents": 3}
    env = private(gossip(**society), TooLittleNoise(0.05))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=1000, confidence=CONFIDENCE)
    honest = private(gossip(**society), BitwiseRandomizedResponse(0.05))
    assert found.certified > 2 * audit(honest, policy=policies.PPCL(), change=(0, 1), trials=1000).certified
    assert found.verdict == "violated"


def test_answers_that_change_tell_that_the_preference_did() -> None:
    env = private(gossip(num_agents=3), taciturn.wrappers.Memoized(BitwiseRandomizedResponse(0.01)))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=1000, confidence=CONFIDENCE)
    assert found.certified > 1
    assert found.claimed == np.inf


def test_every_world_with_a_channel_is_in_the_study() -> None:
    with_channels = {name for name, world in worlds().items() if world.population(1).channels}
    assert with_channels == {config["env"] for config in rows("data", quick=True)}


def test_the_transcript_by_hand() -> None:
    """Two sends of three agents in one replica; the agent is the second."""
    now, rng = np.zeros(1), np.random.default_rng(0)
    heard = Transcript(1, lambda: now)
    for y, sent in (([[0], [5], [7]], [True, False, True]), ([[1], [3], [8]], [True, True, False])):
        who = np.array([sent])
        now = now + 3.0
        heard.deliver(np.array([y]) * who[:, :, None], who, np.asarray(who.any(1)), {}, rng)
    spoke, number, last, messages, special = np.split(heard.features(None)[0], [16, 18, 19, 22])
    np.testing.assert_array_equal(spoke, [0, 1] + [0] * 14)
    np.testing.assert_array_equal(number, [1, 3])
    np.testing.assert_array_equal(last, [7])
    np.testing.assert_allclose(messages, [3, 3, (0 + 7 + 1) / 3])
    assert not special.any()


def test_a_transcript_does_not_depend_on_other_replicas() -> None:
    """Or a world that is played at once would be told from the other by what its replicas share."""
    y, rng = np.ones((2, 2, 1)), np.random.default_rng(0)
    both, alone = Transcript(0, lambda: np.full(2, 5.0)), Transcript(0, lambda: np.full(1, 5.0))
    for who in (np.array([[True, True], [False, False]]), np.array([[False, True], [True, True]])):
        both.deliver(y * who[:, :, None], who, np.asarray(who.any(1)), {}, rng)
    alone.deliver(y[1:], np.ones((1, 2), np.bool_), np.ones(1, np.bool_), {}, rng)
    np.testing.assert_array_equal(both.features(None)[1], alone.features(None)[0])


def test_a_channel_on_which_nothing_is_sent_is_left_out() -> None:
    """DDPMAB sends nothing on the channel `exchange`, which other algorithms use."""
    params: dict[str, Any] = {"num_agents": 4, "num_arms": 3, "horizon": 300, "topology": "ring"}
    env = private(envs.federated_bandit_v0.population(1, **params), Laplace(0.01))
    found = audit(env, policy=policies.DDPMAB(), change=(0, 1), trials=20, confidence=CONFIDENCE, seed=0)
    assert 0 < found.claimed < np.inf


def test_silence_in_one_world_only_is_seen() -> None:
    """Records of equal size, so that runs with and without messages can be compared."""
    spoken, silent = (Transcript(0, lambda: np.zeros(1)) for _ in range(2))
    one = np.ones((1, 2), np.bool_)
    spoken.deliver(np.ones((1, 2, 3)), one, np.ones(1, np.bool_), {}, np.random.default_rng(0))
    for transcript in (spoken, silent):
        transcript.finish(1, 3)
    assert spoken.features(None).shape == silent.features(None).shape
    assert not silent.features(None).any()
    assert spoken.features(None).any()


def test_messages_that_are_no_numbers_are_seen_in_the_transcript() -> None:
    """-0, inf, -inf and NaN of the agent are counted by kind and by place, those of others by kind."""
    heard, rng = Transcript(0, lambda: np.zeros(1)), np.random.default_rng(0)
    for mine, other in (([1.0, np.nan], [-0.0, 2.0]), ([np.inf, 3.0], [-np.inf, np.nan])):
        who = np.ones((1, 2), np.bool_)
        heard.deliver(np.array([[mine, other]]), who, np.asarray(who.any(1)), {}, rng)
    messages, places, own, others = np.split(heard.features(None)[0, 19:], [6, 8, 12])
    np.testing.assert_array_equal(messages, [1, np.nan, 0.5, 1.5, 0, 1])
    np.testing.assert_array_equal(places, [1, 1])
    np.testing.assert_array_equal(own, [0, 1, 0, 1])
    np.testing.assert_array_equal(others, [1, 0, 1, 1])
    assert np.isfinite(heard.features(np.ones(2))).all()


class Ballot(Consensus):
    """Consensus in which whoever votes tells a noised opinion, and nothing else is about opinions."""

    functions = Consensus.functions._replace(receive=count)

    def make_channels(self) -> tuple[Channel, ...]:
        return Channel("opinion", "bounded", observer="neighbour", unit="user"), super().make_channels()[1]


def count_and_show(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = count(state, arrays, params, rng, reward)
    arrays.heard[1] = arrays.opinion[0]
    return over


class Seen(Ballot):
    """The second agent observes what the first one thinks."""

    functions = Ballot.functions._replace(receive=count_and_show)


@dataclass(frozen=True)
class Bits(Opinions):
    bits: Floats = fields.received(lambda p: (p.num_agents, 2))


def think_of_bits(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    think(state, arrays, params, rng)
    bit = uniform(rng, LUCK) < 0.5
    arrays.bits[1, 0], arrays.bits[1, 1] = bit, (arrays.opinion[0] > 0.5) ^ bit


def observe_bits(seen: Any, params: Any, out: Any) -> None:
    observe_opinions(seen, params, out)
    if seen.agent == 1:
        out[:2] = seen.bits


class Masked(Ballot):
    """The second agent observes a random bit, and beside it whether that is what the first one thinks."""

    state_type = Bits
    functions = Ballot.functions._replace(reset=think_of_bits, observe=observe_bits)


class Barred(Ballot):
    """The second agent may vote for the last option if the first one thinks so."""

    def action_mask(self, role: str) -> Array:
        mask = np.ones((self.num_envs, self.params.num_agents, 3), np.int8)
        mask[:, 1, 2] = self.column("opinion")[:, 0] > 0.5
        return mask


def count_and_pay(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = count(state, arrays, params, rng, reward)
    reward[1] += arrays.opinion[0]
    return over


class Paid(Ballot):
    """The second agent earns what the first one thinks."""

    functions = Ballot.functions._replace(receive=count_and_pay)


class Called(Ballot):
    """Whoever thinks less acts first."""

    def acting(self, role: str) -> Array:
        return np.argsort(self.column("opinion"), 1, kind="stable")


def count_and_end(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    terminated, truncated = count(state, arrays, params, rng, reward)
    return terminated or (state.time == 2 and arrays.opinion[0] > 0.5), truncated


class Ended(Ballot):
    """The run ends early if the first agent says so."""

    functions = Ballot.functions._replace(receive=count_and_end)


def count_and_show_late(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = count(state, arrays, params, rng, reward)
    if over[1]:
        arrays.heard[1] = arrays.opinion[0]
    return over


class Twice(Ballot):
    """Others see it in the last turn of the run only."""

    functions = Ballot.functions._replace(receive=count_and_show_late)


def ballot(world: Any, *distributions: Any) -> Any:
    env = world(Params(num_agents=4, horizon=4))
    for channel, distribution in zip(("opinion", "vote"), distributions, strict=True):
        env = Privatize(env, channel=channel, mechanism=distribution)
    return env


@pytest.mark.parametrize("world", [Ballot, Seen, Masked, Barred, Paid, Called, Ended, Twice])
def test_what_others_see_is_audited(world: Any) -> None:
    """A world that shows what one agent thinks, apart from its messages, is refuted by 400 runs; one that does not is
    not (at confidence 0.9999)."""
    env = ballot(world, Laplace(0.01), BitwiseRandomizedResponse(0.01))
    found = audit(env, policy=policies.Random(), change=(0, 1), trials=400, confidence=CONFIDENCE)
    assert 0 < found.claimed <= 0.08 + 1e-9
    assert found.verdict == ("consistent" if world is Ballot else "violated")


class Seeded(Ballot):
    """Tells the mechanisms the seed of the run."""

    def reset(self, *, seed: int | None = None, **more: Any) -> Any:
        FromSeed.run[:] = [seed or 0, 0]
        return super().reset(seed=seed, **more)


@dataclass(frozen=True)
class FromSeed(Laplace):
    """Draws its noise from a stream that the seed of the run decides, and, if `keyed`, also the epsilon."""

    run: ClassVar[list[int]] = [0, 0]
    keyed: bool = False

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        self.run[1] += 1
        own = np.random.default_rng([*self.run, round(1000 * self.epsilon) if self.keyed else 0])
        return super().perturb(x, own, sensitivity)


@pytest.mark.parametrize("keyed", [False, True])
def test_runs_at_several_levels_from_one_seed_share_no_noise(keyed: bool) -> None:
    """Either run alone is right; if the two share their noise, they give the data (at confidence 0.9999)."""
    one, two = (ballot(Seeded, FromSeed(level, keyed=keyed), BitwiseRandomizedResponse(0.01)) for level in (0.2, 0.1))
    given: dict[str, Any] = {"policy": policies.Random(), "change": (0, 1), "trials": 1000, "confidence": CONFIDENCE}
    alone, together = audit(one, **given), audit(one, beside=[two], **given)
    assert alone.verdict == "consistent"
    assert together.verdict == ("consistent" if keyed else "violated")
    assert 0.2 < alone.claimed <= 0.84 + 1e-9
    assert 0.3 < together.claimed <= 1.28 + 1e-9


def test_only_the_same_environment_is_audited_beside() -> None:
    env, other = private(gossip(), BitwiseRandomizedResponse(0.1)), private(society(), BitwiseRandomizedResponse(0.1))
    for beside in (other, private(gossip(num_agents=7), BitwiseRandomizedResponse(0.1)), 3):
        with pytest.raises(ValueError, match=r"beside must hold the environment .* with other mechanisms"):
            audit(env, policy=policies.PPCL(), change=(0, 1), beside=[beside])
    with pytest.raises(ValueError, match="beside must be empty without change"):
        audit(BitwiseRandomizedResponse(1.0), ([0, 1], [1, 0]), beside=[env])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"change": (0, 1, 2)}, "change must be the agent's data in the two worlds"),
        ({"change": (0, 1), "agent": 6}, "agent must be"),
        ({"change": (0, 1), "unit": "event"}, "change must be None"),
        ({"change": (0, 1), "method": "white"}, "change must be None"),
        ({"change": (0, 1), "pair": {"preference": (0, 1)}}, "change must be None"),
        ({}, "pair must be"),
    ],
)
def test_what_cannot_be_audited(changes: dict[str, Any], words: str) -> None:
    env = private(gossip(), BitwiseRandomizedResponse(0.1))
    with pytest.raises(ValueError, match=words):
        audit(env, policy=policies.PPCL(), trials=100, **changes)


def test_worlds_without_channels_and_other_things() -> None:
    with pytest.raises(ValueError, match="env must have a channel"):
        audit(envs.round_stopping_v0.population(1), policy=policies.FixedCount(5), change=(0, 1))
    with pytest.raises(ValueError, match="change must be None unless"):
        audit(BitwiseRandomizedResponse(1.0), change=(0, 1))


@pytest.mark.parametrize("fault", [LossyChannel(1.0), Stragglers((0.0,)), MessageLimit(0)], ids=repr)
def test_faults_strike_before_the_attacker_listens(fault: Any) -> None:
    """Through a channel on which no message arrives, nothing is learned; through a clear one more than 1."""
    env = taciturn.wrappers.Faulty(private(gossip(), BitwiseRandomizedResponse(5.0)), "preference", fault)
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=100, confidence=CONFIDENCE)
    assert found.certified == 0


@pytest.mark.parametrize("fault", [LossyChannel(0.99), Stragglers((0.01,))], ids=repr)
def test_faults_strike_before_a_canary_is_heard(fault: Any) -> None:
    pair = {"preference": (np.array([1, 0]), np.array([0, 1]))}
    clear = private(gossip(horizon=0.3), BitwiseRandomizedResponse(5.0))
    heard, lost = (
        audit(env, pair, policy=policies.PPCL(), trials=1000, confidence=CONFIDENCE).certified
        for env in (clear, taciturn.wrappers.Faulty(clear, "preference", fault))
    )
    assert lost < 0.5 < 1 < heard


@pytest.mark.parametrize(
    ("certified", "total", "cap", "verdict"),
    [
        (1.0, 3.0, 5.0, "holds"),
        (4.0, 3.0, 5.0, "refuted"),
        (1.0, 5.0, 5.0, "no power"),
        (1.0, np.inf, 5.0, "no finite claim"),
    ],
)
def test_a_total_holds_only_if_the_attack_could_have_refuted_it(
    certified: float, total: float, cap: float, verdict: str
) -> None:
    config: dict[str, Any] = {
        "env": "gossip_bandit_v0",
        "env_params": {},
        "policies": {"PPCL": {}},
        "privacy": None,
    }
    known = {"certified": certified, "claimed": total, "cap": cap, "expected": np.inf, "spent": total, "moved": 1.0}
    metrics = {name: np.array([x]) for name, x in known.items()}
    (table,) = load_studies()["leakage"].tables(Results([Group(config, np.arange(1), metrics, {}, np.ones(1))])) or []
    assert [row[-2] for row in table.rows] == [verdict]


@pytest.mark.filterwarnings("error")
def test_a_budget_limits_what_a_run_tells() -> None:
    """One answer at epsilon = 1 fits into a total of 1; all that an agent would give certify more than that."""
    env = private(gossip(horizon=2.5), BitwiseRandomizedResponse(1.0))
    brief = Privatize(gossip(horizon=2.5), "preference", BitwiseRandomizedResponse(1.0), Budget(1.0))
    whole, one = (
        audit(x, policy=policies.PPCL(), change=(0, 1), trials=1500, confidence=CONFIDENCE) for x in (env, brief)
    )
    assert one.claimed <= 1 < whole.claimed
    assert one.certified < 1 < whole.certified
