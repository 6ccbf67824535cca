"""The auditor: it certifies most of what is true, never more than a sound mechanism's claim, and catches planted
faults.

False alarms: the share certified falls short with probability 1e-4 by the choice of trials (`trials_for`); a
certificate exceeds the truth with probability 1e-3, and more than `binom.isf(1e-4, 200, 1e-3)` = 3 of 200 do with less
than 1e-4. Seeds are fixed.
"""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom
from worlds import Consensus, Params, auction_v0, consensus_v0

from taciturn.adjacent import Site, adjacent_messages, adjacent_pair
from taciturn.cli.audit import audit as command
from taciturn.cli.audit import audit_all
from taciturn.compiling import compiled
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Array, Channel, ChannelConfig, Controlled
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import FixedCount, Random
from taciturn.privacy import mechanisms
from taciturn.privacy.audit_result import AuditResult, audit_table, plot_audits
from taciturn.privacy.certifying import certify, certify_one_run, trials_for
from taciturn.registry import make_world
from taciturn.testing.cases import fingerprint
from taciturn.wrappers import Accountant, Budget, Byzantine, Faulty, LossyChannel, Privatize
from taciturn.wrappers.audit import audit
from taciturn.wrappers.channels import on_channel

Method = Any
FIRST, SECOND = np.eye(2, dtype=np.int64)
METHODS = ("white", "black", "one-run")
SEEDS = 81
"""As many as three false alarms at 99.9% fit into 1e-4: an audit that is wrong in 4% of the runs is found."""


@dataclass(frozen=True)
class Bits:
    """Each bit of a one-hot message flipped with probability 1 / (e^level + 1): `2 level`-DP, sound if level = epsilon
    / 2."""

    epsilon: float
    level: float

    def perturb(self, x: Array, rng: np.random.Generator) -> Array:
        return x ^ (rng.random(x.shape) < 1 / (math.exp(self.level) + 1))

    def log_likelihood_ratio(self, y: Array, x0: Array, x1: Array) -> Array:
        return self.level * ((y == x0).astype(float) - (y == x1)).sum(-1)


@dataclass(frozen=True)
class Noise:
    """Laplace noise of this scale on a number that one unit moves by 1: 1 / scale-DP, as of real numbers."""

    idealised: ClassVar[bool] = True
    epsilon: float
    scale: float

    def perturb(self, x: Array, rng: np.random.Generator) -> Array:
        return x + rng.laplace(0, self.scale, x.shape)

    def log_likelihood_ratio(self, y: Array, x0: float, x1: float) -> Array:
        return (np.abs(y - x1) - np.abs(y - x0)) / self.scale


def bits(epsilon: float) -> tuple[Bits, tuple[Any, Any]]:
    return Bits(epsilon, epsilon / 2), (FIRST, SECOND)


def noise(epsilon: float) -> tuple[Noise, tuple[Any, Any]]:
    return Noise(epsilon, 1 / epsilon), (0.0, 1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("made", [bits, noise])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_certifies_most_of_the_truth(epsilon: float, made: Callable[[float], Any], method: Method) -> None:
    mechanism, pair = made(epsilon)
    found = audit(mechanism, pair, trials_for(epsilon, 0.999), confidence=0.999, method=method)
    assert found.certified >= 0.8 * epsilon
    assert found.certified <= found.cap
    assert found.verdict == "consistent"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("made", [bits, noise])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_never_exceeds_a_sound_claim(epsilon: float, made: Callable[[float], Any], method: Method) -> None:
    mechanism, pair = made(epsilon)
    found = [audit(mechanism, pair, 2_000, 0.999, seed, method, batch=2_000) for seed in range(SEEDS)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, SEEDS, 1e-3)


SOUND = (
    "BitwiseRandomizedResponse:1.0",
    "BitwiseRandomizedResponse:1.0,sampler=exact",
    "UnaryEncoding:1.0",
    "KaryRandomizedResponse:2.0,num_values=4",
    "Laplace:1.0",
    "Laplace:1.0,sensitivity=0.5,sampler=exact",
    "Gaussian:1.0,delta=0.01",
    "Exponential:1.0",
    "TreeAggregation:1.0,horizon=1",
    "TreeAggregation:1.0,horizon=7",
    "Blocks:1.0",
)


@pytest.mark.parametrize("spec", SOUND)
def test_what_mechanisms_claim(spec: str) -> None:
    mechanism = parse_mechanism(spec)
    pair = adjacent_pair(mechanism)
    told = getattr(mechanism, "sensitivity", None) or 1.0
    more: dict[str, Any] = {"method": "white", "sensitivity": told, "batch": 100_000}
    assert audit(mechanism, pair, 200_000, 0.999, **more).share > 0.75
    found = [audit(mechanism, pair, 4_000, 0.999, seed, **more) for seed in range(SEEDS)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, SEEDS, 1e-3)


def test_trials_serve_once() -> None:
    """In worlds that are the same, a classifier of 50 features fits the 30 held-out trials perfectly, and must certify
    nothing."""

    def pure_noise(x: int, rng: np.random.Generator, trials: int) -> Array:
        return rng.standard_normal((trials, 50))

    found = [audit(pure_noise, (0, 1), 60, 0.95, seed, claimed=0) for seed in range(SEEDS)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, SEEDS, 0.05)


def test_that_a_value_changed_is_no_secret_of_memoized_answers() -> None:
    """Two answers that differ can only come of two values: the accountant's count of new answers does not cover it,
    says `Memoized`."""
    memoized = mechanisms.Memoized(mechanisms.KaryRandomizedResponse(2.0, num_values=4))

    def transcript(values: tuple[int, int], rng: np.random.Generator, trials: int) -> Array:
        state = memoized.start((trials,))
        return np.stack([memoized.step(np.full(trials, value), rng, state) for value in values], 1)

    found = audit(transcript, ((0, 0), (0, 1)), 20_000, 0.999, claimed=2 * memoized.epsilon)
    assert found.verdict == "violated"


class Ballots(Consensus):
    """Consensus whose tallies are of votes that a mechanism perturbed."""

    mechanism = Bits(1.0, 0.5)

    def between(self, live: Array) -> None:
        one_hot = (self.column("vote")[:, :, None] == np.arange(3)).astype(np.int64)
        self.tally = self.mechanism.perturb(one_hot, self.stream("ballots")).sum(1)
        super().between(live)


class Voter(Random):
    """Votes at random, all but agent 0, who votes `vote`."""

    def __init__(self, vote: int) -> None:
        self.vote = vote

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        actions = super().act(obs, mask)
        actions[:, 0] = self.vote
        return actions


@pytest.mark.parametrize("leak", [False, True])
def test_a_whole_run_of_ones_own_population(leak: bool) -> None:
    """What a server reads in three rounds, in worlds where one agent votes for the first option or for the second
    throughout."""

    def transcript(policy: Callable[[], Voter], rng: np.random.Generator, trials: int) -> Array:
        population = Ballots(Params(num_agents=2), num_envs=trials)
        acts = policy()
        obs = population.reset(seed=int(rng.integers(2**31)))[0]
        acts.reset(population, population.stream("voter"))
        read = []
        for _ in range(3):
            actions = acts.act(obs)
            obs = population.step(actions)[0]
            read.append(actions[:, :1] if leak else population.tally)
        return np.stack(read, 1)

    worlds = (lambda: Voter(0), lambda: Voter(1))
    found = audit(transcript, worlds, 8_000, 0.999, claimed=3.0, batch=2_000)
    assert found.method == "black"
    assert found.certified > 0.5
    assert found.verdict == ("violated" if leak else "consistent")


class Outspoken(Random):
    """Votes for the second option, so that everyone tells an opinion."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.ones(obs.shape[:2], np.int64)


class Mute(Random):
    """Votes for the first option, and tells no opinion."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.zeros(obs.shape[:2], np.int64)


class Careless(mechanisms.BitwiseRandomizedResponse):
    """Flips with probability 1 / (e^epsilon + 1)."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return mechanisms.BitwiseRandomizedResponse(2 * self.epsilon).perturb(x, rng)


class Halved(mechanisms.Laplace):
    """Adds noise for half the sensitivity that it is told."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return super().perturb(x, rng, sensitivity / 2)


class Rewound(mechanisms.Laplace):
    """Adds the same noise in every message of a run."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return super().perturb(x, copy.deepcopy(rng), sensitivity)


class ForgetsVotes(Accountant):
    """Does not charge what passes on `vote`."""

    def charge(self, channel: str, loss: Any, *counts: Any, **named: Any) -> None:
        if channel == "vote":
            super().charge(channel, loss)
        else:
            super().charge(channel, loss, *counts, **named)


class ForgetsRounds(Accountant):
    """Charges the first message only."""

    def charge(self, channel: str, loss: Any, *counts: Any, **named: Any) -> None:
        first = not any(account.channel == channel for account in self.accounts)
        super().charge(channel, loss, *(counts if first else ()), **(named if first else {}))


VOTES = {"vote": (np.eye(3, dtype=np.int64)[0], np.eye(3, dtype=np.int64)[2])}
OPINIONS = {"opinion": (0.0, 1.0)}


def consensus(accountant: Any = Accountant, num_agents: int = 4, **distributions: Any) -> Any:
    class Charged(Consensus):
        def make_channels(self) -> tuple[Channel, ...]:
            payload: Any = (
                "stream" if isinstance(distributions.get("opinion"), mechanisms.TreeAggregation) else "bounded"
            )
            return Channel("opinion", payload, observer="neighbour", unit="event"), super().make_channels()[1]

        def make_accountant(self) -> Accountant:
            made: Accountant = accountant(self.num_envs, num_agents, self.channels.values())
            return made

    env: Any = Charged(Params(num_agents=num_agents))
    for channel, distribution in distributions.items():
        env = on_channel(
            env, channel, distribution if isinstance(distribution, ChannelConfig) else ChannelConfig(distribution)
        )
    return env


def audited(env: Any, pair: Any, trials: int = 40_000, confidence: float = 0.999, **more: Any) -> AuditResult:
    return audit(env, pair, trials, confidence, **{"policy": Outspoken(), "steps": 3, **more})


BITWISE = mechanisms.BitwiseRandomizedResponse(0.5)
LAPLACE = mechanisms.Laplace(0.5)
RUNS: dict[str, tuple[dict[str, Any], Any, float]] = {
    "votes": ({"vote": BITWISE}, VOTES, 1.5),
    "opinions": ({"opinion": LAPLACE}, OPINIONS, 1.5),
    "both": ({"vote": BITWISE, "opinion": LAPLACE}, VOTES | OPINIONS, 3.0),
}


@pytest.mark.parametrize("name", RUNS)
def test_certifies_most_of_what_the_accountant_totals(name: str) -> None:
    """Three rounds at 0.5 a message and channel."""
    distributions, pair, total = RUNS[name]
    found = audited(consensus(**distributions), pair, 160_000, batch=10_000)
    assert found.method == "both"
    assert [part.method for part in found.parts] == ["white", "black"]
    assert found.certified == max(part.certified for part in found.parts)
    assert {part.claimed for part in found.parts} == {found.claimed}
    assert found.claimed == pytest.approx(total)
    assert 0.65 * total < found.certified <= total


@pytest.mark.parametrize("method", ["white", "black"])
@pytest.mark.parametrize("unit", ["user", "event"])
def test_never_exceeds_a_sound_accountant(unit: Any, method: Method) -> None:
    wrong = []
    for name, (distributions, pair, total) in RUNS.items():
        env = consensus(**distributions)
        found = [audited(env, pair, 1_000, seed=seed, unit=unit, method=method) for seed in range(SEEDS // len(RUNS))]
        assert {round(one.claimed, 9) for one in found} == {total if unit == "user" else total / 3}, name
        wrong += [(name, seed) for seed, one in enumerate(found) if one.verdict == "violated"]
    assert len(wrong) <= binom.isf(1e-4, SEEDS, 1e-3), wrong


BROKEN: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "flips too seldom": (consensus(vote=Careless(0.5)), consensus(vote=BITWISE), VOTES, {}),
    "half the sensitivity": (consensus(opinion=Halved(0.5)), consensus(opinion=LAPLACE), OPINIONS, {}),
    "noise used again": (
        consensus(opinion=Rewound(0.5)),
        consensus(opinion=LAPLACE),
        OPINIONS,
        {"unit": "event", "method": "black"},
    ),
    "a forgotten channel": (
        consensus(ForgetsVotes, vote=BITWISE, opinion=LAPLACE),
        consensus(vote=BITWISE, opinion=LAPLACE),
        VOTES | OPINIONS,
        {},
    ),
    "forgotten rounds": (consensus(ForgetsRounds, vote=BITWISE), consensus(vote=BITWISE), VOTES, {}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_faults_in_an_environment_are_caught(name: str) -> None:
    broken, sound, pair, more = BROKEN[name]
    assert audited(sound, pair, **more).verdict == "consistent"
    assert audited(broken, pair, **more).verdict == "violated"


def test_noise_used_again_tells_all_but_by_its_own_law() -> None:
    broken, _, pair, more = BROKEN["noise used again"]
    black, white = (audited(broken, pair, **more | {"method": method}) for method in ("black", "white"))
    assert black.certified > 0.9 * black.cap
    assert white.verdict == "consistent", "the mechanism's own law does not know of it"


class Weary(mechanisms.Laplace):
    """Adds a tenth of the noise after 100 calls, which `calls`, a list, counts."""

    calls: ClassVar[list[int]] = [0]

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        self.calls[0] += 1
        epsilon = self.epsilon * (10 if self.calls[0] > 100 else 1)
        return mechanisms.Laplace(epsilon, self.sensitivity).perturb(x, rng, sensitivity)


class Replayed(Consensus):
    """Draws from the same generators after every reset, whatever the seed."""

    def reset(self, *, seed: int | None = None, **more: Any) -> Any:
        return super().reset(seed=0, **more)


class Continued(Consensus):
    """A reset without a seed begins again with the last one."""

    last: int | None = None

    def reset(self, *, seed: int | None = None, **more: Any) -> Any:
        self.last = self.last if seed is None else seed
        return super().reset(seed=self.last, **more)


class Common(mechanisms.Laplace):
    """Adds the same noise to the messages of all agents that send at once in a replica."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        x = np.asarray(x, np.float64)
        one = super().perturb(np.zeros(-(-x.size // 4)), rng, sensitivity)
        return x + np.repeat(one, 4)[: x.size].reshape(x.shape)


@dataclass(frozen=True)
class Stuck:
    """Adds Laplace noise that it draws from a generator of its own, made anew in each call, or once for all rows of a
    call."""

    epsilon: float
    once: bool

    def perturb(self, x: Array, rng: np.random.Generator) -> Array:
        own = rng if self.once else np.random.default_rng(0)
        return x + own.laplace(0, 1 / self.epsilon, 1 if self.once else len(x))


@pytest.mark.parametrize("method", [None, "white", "black"])
def test_noise_that_drops_after_a_hundred_calls_is_caught(method: Method) -> None:
    Weary.calls[0] = 0
    assert audit(Weary(0.5, sensitivity=1.0), (0.0, 1.0), 10_000, 0.999, method=method).verdict == "violated"
    Weary.calls[0] = 0
    runs = audited(consensus(opinion=Weary(0.5)), OPINIONS, 40_000, method=method)
    assert runs.verdict == "violated"


@pytest.mark.parametrize("world", [Consensus, Replayed, Continued])
def test_a_generator_that_begins_again_at_each_reset_is_caught(world: Any) -> None:
    """A message whose secret is known tells the noise, and thereby the other message."""
    env = on_channel(world(Params(num_agents=4)), "opinion", ChannelConfig(LAPLACE))
    more: dict[str, Any] = {"unit": "event", "steps": 1, "trials": 8_000}
    found = audited(env, OPINIONS, references=True, **more)
    assert found.verdict == ("consistent" if world is Consensus else "violated")
    assert found.claimed == 0.5
    alone = audited(env, OPINIONS, method="black", **more)
    expected = "violated" if world is Replayed else "consistent"
    assert alone.verdict == expected, (
        "noise that is the same in all runs repeats; that of a next run, one run cannot tell"
    )


@pytest.mark.parametrize("distribution", [mechanisms.Laplace, Common])
@pytest.mark.parametrize("unit", ["event", "user"])
def test_noise_shared_between_agents_is_caught(distribution: Any, unit: Any) -> None:
    env, more = consensus(opinion=distribution(0.5)), {"unit": unit, "steps": 2, "trials": 8_000}
    found = audited(env, OPINIONS, references=True, **more)
    assert found.verdict == ("consistent" if distribution is mechanisms.Laplace else "violated")
    assert found.claimed == (0.5 if unit == "event" else 1.0)
    assert audited(env, OPINIONS, method="black", **more).verdict == "consistent", "one agent cannot tell"


@pytest.mark.parametrize("once", [False, True])
def test_mechanisms_that_use_their_noise_again_are_caught(once: bool) -> None:
    sound = audit(*noise(0.5), 8_000, 0.999, references=True)
    found = audit(Stuck(0.5, once), (0.0, 1.0), 8_000, 0.999, references=True)
    assert (sound.verdict, found.verdict) == ("consistent", "violated")
    assert sound.certified > 0.25


def test_functions_that_use_their_noise_again_are_caught() -> None:
    def transcript(x: float, rng: np.random.Generator, trials: int) -> Array:
        return x + np.random.default_rng(0).laplace(0, 2.0, trials)

    found = audit(transcript, (0.0, 1.0), 8_000, 0.999, claimed=0.5, references=True, batch=8_000)
    assert found.verdict == "violated"


@dataclass(frozen=True)
class Mumbled(Noise):
    """A ratio that says nothing."""

    def log_likelihood_ratio(self, y: Array, x0: float, x1: float) -> Array:
        return np.zeros(len(y))


def test_scores_that_are_all_equal_have_no_power() -> None:
    """A tenth of the noise, and a ratio that always says 0: by itself it has no power; by default the classifier sees
    the noise."""
    broken = Mumbled(1.0, 0.1)
    white = audit(broken, (0.0, 1.0), 10_000, 0.999, method="white")
    assert (white.verdict, white.distinguished, white.certified) == ("no power", False, 0.0)
    found = audit(broken, (0.0, 1.0), 10_000, 0.999)
    assert (found.method, found.verdict) == ("both", "violated")
    assert [part.verdict for part in found.parts] == ["no power", "violated"]
    nothing = audit(lambda x, rng, trials: np.zeros(trials), (0, 1), 1_000, claimed=1.0)
    assert nothing.verdict == "no power"
    assert "no power" in nothing.table()
    assert "no power" not in audit(*noise(1.0), 1_000).table()


def test_two_attackers_share_the_error_probability() -> None:
    """By default each has half: their certificates are those of single audits at that confidence."""
    mechanism, pair = noise(1.0)
    found = audit(mechanism, pair, 5_000, 0.9)
    assert [part.confidence for part in found.parts] == pytest.approx([0.95, 0.95])
    singles = [audit(mechanism, pair, 5_000, 0.95, method=part.method).certified for part in found.parts]
    assert [part.certified for part in found.parts] == pytest.approx(singles)
    assert (found.certified, found.confidence) == (max(singles), 0.9)
    assert len(found.table().splitlines()) == 1 + 3 + 1 + 1, "the last line says that the lowest bits were not read"
    wide = audit(Noise(1.0, 1.0), (np.zeros(65), np.eye(65)[0]), 100)
    assert (wide.method, wide.parts) == ("white", ())


def test_both_attackers_together_certify_too_much_no_more_often_than_one() -> None:
    """400 audits at 95% of a claim that is exact: at most `binom.isf(1e-4, 400, 0.05)` = 37 exceed it."""
    mechanism, pair = bits(1.0)
    found = [audit(mechanism, pair, 400, 0.95, seed, batch=400) for seed in range(400)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 400, 0.05)


def test_an_open_channel_is_no_claim() -> None:
    """Votes are private to the server; to whoever also hears opinions, nothing is, and no claim is made."""
    env = consensus(vote=BITWISE)
    assert audited(env, VOTES, 4_000).verdict == "consistent"
    both = audited(env, VOTES | OPINIONS, 4_000, method="black")
    assert both.verdict == "no claim"
    assert both.certified > 0.9 * both.cap
    assert audited(consensus(), OPINIONS, 4_000).verdict == "no claim"


def test_every_interface_beside_faults() -> None:
    """Half of the messages are lost, and those who lie are overruled: what arrives is audited, what was sent is
    claimed."""
    small: dict[str, Any] = {"num_clients": 3, "clip_norm": 1.0, "compute_probability": 0.5, "horizon": 1.0}
    world = federated_training_v0
    direction = np.full(650, 650**-0.5)
    forms = [world.population(**small), world.single_env(**small), world.vector_env(1, **small)]
    found = []
    for bare in [*forms, world.parallel_env(**small), world.env(**small)]:
        env = Privatize(Faulty(bare, "update", LossyChannel(0.5)), "update", mechanisms.Laplace(300.0))
        env = Faulty(env, "update", Byzantine(1.0, "constant"))
        found.append(audit(env, {"update": (-direction, direction)}, 100, policy=FixedCount(2), steps=20))
    assert len(set(map(repr, found))) == 1
    assert found[0].claimed % 300 == 0
    assert 0.5 < found[0].certified <= found[0].cap
    alone = Controlled(auction_v0.population(), "platform", {"individual": Random()})
    distribution = mechanisms.KaryRandomizedResponse(2.0, num_values=2)
    one = audited(Privatize(alone, "purchase", distribution), {"purchase": (0, 1)}, policy=Random(), steps=4)
    assert one.claimed == pytest.approx(2 * distribution.epsilon)
    assert one.share > 0.75


def test_an_audit_leaves_the_environment_alone() -> None:
    env = consensus(vote=BITWISE)
    env.reset(seed=0)
    before = fingerprint(env)
    first = audited(env, VOTES, 1_000)
    assert fingerprint(env) == before
    assert audited(env, VOTES, 1_000) == first


def test_memoised_answers_and_streams() -> None:
    """Under a budget of one answer it is given three times, costs one, and certifies one; neither has ratios that add
    up."""
    distribution = mechanisms.Memoized(mechanisms.BitwiseRandomizedResponse(1.0))
    assert audited(consensus(vote=distribution), VOTES, 80).claimed == np.inf
    memoized = audited(consensus(vote=ChannelConfig(distribution, Budget(1.0))), VOTES, 80_000)
    assert memoized.method == "black"
    assert memoized.claimed == pytest.approx(1.0)
    assert memoized.share > 0.8
    tree = audited(consensus(opinion=mechanisms.TreeAggregation(1.0, horizon=12)), OPINIONS, 80_000, unit="event")
    assert tree.method == "black"
    assert tree.claimed == pytest.approx(1.0)
    assert 0.2 < tree.share <= 1


def test_one_run_in_which_everyone_is_a_canary() -> None:
    found = audited(consensus(num_agents=5_000, vote=BITWISE), VOTES, 5_000, method="one-run")
    assert found.method == "one-run"
    assert found.claimed == pytest.approx(1.5)
    assert 0.5 < found.certified <= 1.5
    broken = consensus(num_agents=5_000, vote=Careless(0.5))
    assert audited(broken, VOTES, 5_000, method="one-run").verdict == "violated"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"policy": None}, "policy must be given"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"agent": 4}, "agent must be an integer >= 0 and <= 3, not 4"),
        ({"unit": "session"}, "unit must be one of"),
        ({"pair": (0, 1)}, r"pair must be {channel: \(x0, x1\)} for an environment"),
        ({"pair": {}}, r"pair must be {channel: \(x0, x1\)} for an environment"),
        ({"pair": {"gossip": (0, 1)}}, "channel must be one of 'opinion', 'vote', not 'gossip'"),
        ({"pair": {"vote": (0, 1, 2)}}, "pair must be two messages of one shape on channel 'vote'"),
        ({"pair": {"vote": ([0, 1], 1)}}, "pair must be two messages of one shape on channel 'vote'"),
        ({"pair": {"vote": ("a", "b")}}, "pair must be two messages of one shape on channel 'vote'"),
        ({"pair": {"vote": (0, 1)}}, r"pair must hold messages of shape \(3,\), not \(\)"),
        ({"pair": OPINIONS, "policy": Mute()}, "steps must be enough for a message of agent 0 on channel 'opinion'"),
        ({"method": "one-run"}, "trials must be the number of senders, 4, in one run, not 100"),
    ],
)
def test_mistakes_about_environments_are_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        audited(consensus(vote=BITWISE), **{"pair": VOTES, "trials": 100, **change})


def test_agents_of_one_run_may_depend_on_each_other() -> None:
    """Everyone's noisy number, and the exact sum of those of the even agents: one run in which each agent is a
    canary."""
    calls = []

    def transcript(x: Array, rng: np.random.Generator, agents: int) -> Array:
        calls.append(agents)
        y = x + rng.laplace(0, 1.0, agents)
        return np.stack([y, np.full(agents, y[::2].sum())], 1)

    more: dict[str, Any] = {"claimed": 1.0, "bits": False}
    found = [audit(transcript, (0.0, 1.0), 5_000, 0.999, seed, "one-run", **more) for seed in range(50)]
    assert calls == [5_000] * 50
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 50, 1e-3)
    assert np.median([one.certified for one in found]) > 0.6


@dataclass(frozen=True)
class Slip:
    """A bit through randomised response, which is told outright with probability delta: (epsilon, delta)-DP and no
    better."""

    epsilon: float
    delta: float

    def perturb(self, x: Array, rng: np.random.Generator) -> Array:
        told = rng.random(x.shape) < self.delta
        return np.where(told, x + 2, x ^ (rng.random(x.shape) < 1 / (math.exp(self.epsilon) + 1)))

    def log_likelihood_ratio(self, y: Array, x0: int, x1: int) -> Array:
        return np.array([self.epsilon, -self.epsilon, np.inf, -np.inf])[y]


@pytest.mark.parametrize(
    ("method", "delta", "least"), [("white", 0.01, 0.8), ("black", 0.01, 0.8), ("one-run", 1e-6, 0.75)]
)
def test_delta(method: Method, delta: float, least: float) -> None:
    mechanism = Slip(1.0, delta)
    found = [audit(mechanism, (0, 1), 8_000, 0.999, seed, method, delta=delta, batch=8_000) for seed in range(100)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 100, 1e-3)
    assert np.median([one.certified for one in found]) > least
    if delta == 0.01:
        pure = audit(mechanism, (0, 1), 40_000, 0.999, method=method, delta=0, claimed=1.0)
        assert pure.verdict == "violated"


def binomial(n: int, p: float) -> list[float]:
    """P(X = k) for X of Binomial(n, p), term by term."""
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize(("correct", "guesses", "agents"), [(45, 50, 60), (30, 40, 200), (12, 12, 30), (90, 120, 120)])
@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-4])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_p_value_of_one_run_by_hand(correct: int, guesses: int, agents: int, delta: float, alpha: float) -> None:
    """Steinke, Nasr & Jagielski 2023, Theorem 5.2: with X of Binomial(r, q), P(correct >= v) is at most
    P(X >= v) + 2 m delta max over i of P(v - i <= X < v) / i."""

    def p_value(epsilon: float) -> float:
        distribution = binomial(guesses, 1 / (1 + math.exp(-epsilon)))
        free = max(math.fsum(distribution[correct - i : correct]) / i for i in range(1, correct + 1))
        return math.fsum(distribution[correct:]) + 2 * agents * delta * free

    found = certify_one_run(correct, guesses, agents, alpha, delta)
    if p_value(0.0) > alpha:
        assert found == 0
        return
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= alpha else (low, middle)
    assert found == pytest.approx(low, abs=1e-5)
    assert found < certify(correct, guesses, agents, alpha, 0.0)


def test_one_run_that_tells_all_or_nothing_certifies_nothing() -> None:
    """A run that tells every coin with probability delta is (0, delta)-DP, and all guesses are right that often."""
    for alpha in (0.05, 0.01):
        assert certify_one_run(100, 100, 100, alpha, alpha) == 0
        assert certify_one_run(100, 100, 100, alpha, alpha / 1e6) > 0.9


@pytest.mark.parametrize(("correct", "guesses", "trials"), [(900, 1_000, 4_000), (60, 61, 500), (500, 900, 1_000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_free_wins_by_hand(correct: int, guesses: int, trials: int, delta: float) -> None:
    """A tenth of alpha bounds the wins that delta gives: they and as many guesses go, and the rest is that of Clopper &
    Pearson."""
    from scipy.optimize import brentq
    from scipy.special import gammaln

    alpha = 0.05

    def tail(n: int, p: float, least: int) -> float:
        k = np.arange(least, n + 1)
        logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        return float(np.exp(logs).sum())

    free = next(k for k in range(trials) if tail(trials, delta, k + 1) <= alpha / 10)
    assert free > trials * delta
    right, of = correct - free, guesses - free
    share = brentq(lambda p: tail(of, p, right) - 0.9 * alpha, 1e-9, 1 - 1e-9, xtol=1e-14)
    expected = max(math.log(share / (1 - share)), 0.0)
    assert certify(correct, guesses, trials, alpha, delta) == pytest.approx(expected, abs=1e-6)


def test_free_wins_of_a_mechanism_that_gives_delta_away() -> None:
    """Of 300 audits of (epsilon, delta) that hold with equality, at most `binom.isf(1e-4, 300, 0.05)` = 29 certify
    more: free wins are counted as such in the choice of the threshold and in the certificate."""
    found = [audit(Slip(0.3, 0.05), (0, 1), 2_000, 0.95, seed, "white", delta=0.05, batch=2_000) for seed in range(300)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 300, 0.05)
    assert np.median([one.certified for one in found]) > 0


def test_a_certificate_by_hand() -> None:
    """Right on all n guesses: p = (1 - confidence)^(1/n), whose logit is the cap to first order."""
    found = audit(lambda x, rng, trials: np.full(trials, x), (0, 1), 10_000)
    p = 0.05 ** (1 / 5_000)
    assert (found.certifying, found.guesses, found.correct) == (5_000, 5_000, 5_000)
    assert found.certified == pytest.approx(math.log(p / (1 - p)), rel=1e-9)
    assert found.cap == pytest.approx(math.log(5_000 / math.log(20)))
    assert found.certified == pytest.approx(found.cap, rel=1e-3)


def test_abstains_where_nothing_is_told() -> None:
    """Two bits of randomised response: half the answers, (0, 0) and (1, 1), tell nothing."""
    found = audit(*bits(1.0), trials=20_000)
    assert found.threshold == pytest.approx((-1.0, 1.0))
    flip = 1 / (math.exp(0.5) + 1)
    assert found.guesses / found.certifying == pytest.approx(flip**2 + (1 - flip) ** 2, abs=0.03)


def test_either_sign_of_the_ratio_and_outputs_of_one_world() -> None:
    """A ratio the wrong way round, infinite, or not a number is no way to hide."""

    def told(x: int, rng: np.random.Generator, trials: int) -> Array:
        return np.where(rng.random(trials) < 0.1, x, 2)

    for values in ([np.inf, -np.inf, np.nan], [-np.inf, np.inf, 0.0], [1.0, -1.0, 0.0]):
        ratio = partial(_look_up, np.array(values))
        found = audit(told, (0, 1), 10_000, log_likelihood_ratio=ratio, claimed=1.0)
        assert (found.verdict, found.guesses) == ("violated", found.correct)


def _look_up(table: Array, y: Array, x0: int, x1: int) -> Array:
    return table[y]


def test_progress_counts_trials() -> None:
    seen: list[int] = []
    audit(*noise(1.0), trials=1_000, batch=200, progress=seen.append)
    assert seen == [200, 400, 500, 700, 900, 1_000]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"trials": 3}, "trials must be an integer >= 4 and <= 1000000000, not 3"),
        ({"trials": 10**400}, "trials must be an integer >= 4 and <= 1000000000, not an integer of 1329 bits"),
        ({"sensitivity": 1e300, "mechanism": mechanisms.Laplace(1.0)}, "sensitivity must lie between"),
        ({"claimed": 10**400}, "claimed must be"),
        (
            {"method": "both", "mechanism": lambda x, rng, trials: np.zeros(trials)},
            "method must be 'black' or 'one-run'",
        ),
        ({"method": "white", "references": True}, "method must be 'black' with references, not 'white'"),
        ({"confidence": 1.0}, "confidence must be a finite number > 0 and < 1, not 1.0"),
        ({"delta": -0.1}, "delta"),
        ({"held_out": 0}, "held_out"),
        ({"claimed": -1}, "claimed"),
        ({"claimed": math.nan}, "claimed"),
        ({"seed": -1}, "seed"),
        ({"batch": 0}, "batch"),
        ({"method": "grey"}, "method must be one of None, 'white', 'black', 'one-run', 'both', not 'grey'"),
        ({"pair": (0.0,)}, "pair must be two adjacent worlds"),
        ({"mechanism": 3}, "mechanism must have"),
        (
            {"mechanism": lambda x, rng, trials: np.zeros(trials), "method": "white"},
            "method must be 'black' or 'one-run'",
        ),
        ({"mechanism": lambda x, rng, trials: np.zeros(3)}, r"a transcript must be an array \[trials, ...\]"),
        ({"mechanism": lambda x, rng, trials: np.zeros((trials, 1 + int(x)))}, "the same shape in both worlds"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], named: str) -> None:
    arguments: dict[str, Any] = dict(zip(("mechanism", "pair", "trials"), (*noise(1.0), 100), strict=True))
    with pytest.raises(ValueError, match=named):
        audit(**{**arguments, **change})


def results() -> list[AuditResult]:
    sound = audit(*noise(1.0), trials=2_000)
    broken = audit(Noise(0.5, 0.5), (0.0, 1.0), trials=10_000, name="half")
    free = audit(lambda x, rng, trials: x + rng.normal(size=trials), (0.0, 1.0), 2_000, name="no claim", delta=0.01)
    return [sound, broken, free]


def test_table_says_it_all() -> None:
    found = results()
    text = audit_table(found)
    assert len(text.splitlines()) == 1 + 7 + 2 + 1, (
        "two audits with a row for each method and one for both, and one of a single method; three notes"
    )
    assert [" violated" in line for line in text.splitlines()[1:8]] == [False] * 3 + [True] * 3 + [False]
    assert "at delta = 0.01" in text
    assert "ln(n / ln 40)" in found[0].table(), "both methods, each with half of the error probability"
    assert "ln(n / ln 20)" in found[-1].table()
    json.dumps(found[0].as_dict())
    assert found[0].as_dict()["verdict"] == "consistent"


def test_plot_to_a_file_and_to_axes(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    found = results()
    plot_audits(found, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    axes = Figure().add_subplot()
    assert plot_audits(found[:1], axes) is axes
    assert axes.get_xlabel() == "claimed epsilon"


def test_the_command_prints_a_table_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    specs = ["BitwiseRandomizedResponse:1.0", "Laplace:0.5,sensitivity=2", "NoPrivacy"]
    told: list[tuple[str, float]] = []
    found = audit_all(specs, progress=lambda spec, done: told.append((spec, done)))
    assert told[0][0] == specs[0]
    assert told[-1] == ("NoPrivacy", 1.0)
    command(specs, plot=tmp_path / "audit.svg")
    out, err = capsys.readouterr()
    assert out.rstrip("\n") == audit_table(found)
    assert err == ""
    assert (tmp_path / "audit.svg").stat().st_size > 0
    assert [one.verdict for one in found] == ["consistent", "consistent", "no claim"]
    assert found[0].share > 0.7
    assert found[0].trials == trials_for(1.0, 0.95)


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    command(["NoPrivacy", "Gaussian:1,delta=1e-5"], trials=1_000, confidence=0.999, method="one-run", as_json=True)
    nothing, gaussian = json.loads(capsys.readouterr().out)["audits"]
    assert (nothing["claimed"], nothing["verdict"]) == (None, "no claim")
    assert (gaussian["claimed"], gaussian["delta"], gaussian["method"]) == (1, 1e-5, "one-run")


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("Laplas:1", "did you mean Laplace"),
        ("Memoized:1", "unknown mechanism"),
        ("Mechanism", "unknown mechanism"),
        ("Laplace", "Laplace must have epsilon"),
        ("Laplace:-1", "epsilon must be a finite number > 0, not -1"),
        ("Laplace:one", "epsilon"),
        ("Laplace:1,scale=2", "parameters of Laplace must be epsilon, sensitivity, sampler"),
        ("Laplace:1,epsilon=2", "each once"),
        ("NoPrivacy:1", "without a level"),
        ("KaryRandomizedResponse:1", "num_values must be given"),
    ],
)
def test_the_command_names_mistakes(spec: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        audit_all([spec], trials=100)


def test_the_command_audits_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)  # each of many plays is short
    site = Site(consensus_v0.population(), Outspoken(), "opinion", steps=3)
    specs = ["Laplace:0.5", "Laplace:0.5,sensitivity=2", "Gaussian:2.0,delta=1e-5", "NoPrivacy"]
    found = audit_all(specs, site, trials=20_000, confidence=0.999)
    assert [one.name for one in found] == [f"opinion={spec}" for spec in specs]
    assert [one.verdict for one in found] == ["consistent"] * 3 + ["no claim"]
    assert [one.claimed for one in found[:2]] == pytest.approx([1.5, 1.5])
    assert found[0].certified > 1.5 * found[1].certified, "noise for more than the world states"
    assert found[0].share > 0.6
    (site_of_votes,) = audit_all(["UnaryEncoding:2.0"], Site(consensus_v0.population(), Random(), "vote", 1))
    assert (site_of_votes.trials, site_of_votes.verdict) == (10_000, "consistent")
    assert site_of_votes.share > 0.7


class Talk(Consensus):
    """Consensus with a channel for what is said to it, of one payload or another."""

    payload: Any = "scores"
    shape: tuple[int, ...] = (3,)
    stated: float | None = 0.5

    def make_channels(self) -> tuple[Channel, ...]:
        return (*super().make_channels(), Channel("talk", self.payload, observer="public", unit="event"))

    def between(self, live: Array) -> None:
        shape = self.num_envs, self.params.num_agents, *self.shape
        self.channels["talk"].send(np.zeros(shape), None, self.stated, norm=2)
        super().between(live)


@pytest.mark.parametrize(
    ("payload", "shape", "expected"),
    [
        ("scores", (3,), ([0.5, 0, 0], [0, 0.5, 0.5])),
        ("vector", (4,), ([-0.125] * 4, [0.125] * 4)),
        ("stream", (), (0.0, 0.5)),
    ],
)
def test_adjacent_messages(
    payload: Any, shape: tuple[int, ...], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Talk, "payload", payload)
    monkeypatch.setattr(Talk, "shape", shape)
    site = Site(Talk(Params()), Random(), "talk", 1)
    for message, one in zip(adjacent_messages(site, LAPLACE), expected, strict=True):
        np.testing.assert_allclose(message, one)
    monkeypatch.setattr(Talk, "stated", None)
    with pytest.raises(ValueError, match="env must state the sensitivity of messages on channel 'talk'"):
        adjacent_messages(site, LAPLACE)


@pytest.mark.parametrize(
    ("site", "named"),
    [
        (Site(consensus_v0.population(), Random()), "channel must be one of opinion, vote, not None"),
        (Site(consensus_v0.population(), Random(), "gossip"), "channel must be one of opinion, vote, not 'gossip'"),
        (
            Site(consensus_v0.population(), Mute(), "opinion"),
            "steps must be enough for a message of agent 0 on channel 'opinion'",
        ),
        (
            Site(federated_training_v0.population(clip_norm=1.0), FixedCount(5), steps=1),
            "steps must be enough for a message on channel 'update', not 1",
        ),
    ],
)
def test_the_command_names_mistakes_about_environments(site: Site, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        audit_all(["Laplace:1"], site)


@pytest.mark.parametrize("change", [None, (0, 1)])
def test_a_name_is_no_policy(change: Any) -> None:
    env = make_world("gossip_bandit").population(1, num_agents=3, horizon=2.0)
    pair = None if change else {"preference": (np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0]))}
    with pytest.raises(ValueError, match="policy must have the methods reset and act, which 'Random' has not"):
        audit(env, pair, policy="Random", change=change, trials=1000)
