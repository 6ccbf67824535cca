"""The auditor: it certifies most of what is true, never more than a sound mechanism's claim, and catches planted faults.

False alarms: the share certified falls short with probability 1e-4 by the choice of trials (`trials_for`); a certificate exceeds the truth
with probability 1e-3, and more than `binom.isf(1e-4, 200, 1e-3)` = 3 of 200 do with less than 1e-4. Seeds are fixed.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from worlds import Consensus, Params

from tacit.auditing import adjacent_pair, audit_command, parse_mechanism
from tacit.envs.core import Array
from tacit.policies import Random
from tacit.wrappers.privacy import mechanisms
from tacit.wrappers.privacy.audit import AuditResult, audit, audit_table, plot_audits, trials_for

Method = Any
FIRST, SECOND = np.eye(2, dtype=np.int64)
METHODS = ("white", "black", "one-run")


@dataclass(frozen=True)
class Bits:
    """Each bit of a one-hot message flipped with probability 1 / (e^level + 1): `2 level`-DP, sound if level = epsilon / 2."""

    epsilon: float
    level: float

    def perturb(self, x: Array, rng: np.random.Generator) -> Array:
        return x ^ (rng.random(x.shape) < 1 / (math.exp(self.level) + 1))

    def log_likelihood_ratio(self, y: Array, x0: Array, x1: Array) -> Array:
        return self.level * ((y == x0).astype(float) - (y == x1)).sum(-1)


@dataclass(frozen=True)
class Noise:
    """Laplace noise of this scale on a number that one unit moves by 1: 1 / scale-DP."""

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
    found = [audit(mechanism, pair, 2_000, 0.999, seed, method) for seed in range(200)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 200, 1e-3)


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
)


@pytest.mark.parametrize("spec", SOUND)
def test_what_mechanisms_claim(spec: str) -> None:
    mechanism = parse_mechanism(spec)
    pair = adjacent_pair(mechanism)
    assert audit(mechanism, pair, 200_000, 0.999, sensitivity=1.0).share > 0.75
    found = [audit(mechanism, pair, 4_000, 0.999, seed, sensitivity=1.0) for seed in range(200)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 200, 1e-3)


def test_trials_serve_once() -> None:
    """In worlds that are the same, a classifier of 50 features fits the 30 held-out trials perfectly, and must certify nothing."""

    def pure_noise(x: int, rng: np.random.Generator, trials: int) -> Array:
        return rng.standard_normal((trials, 50))

    found = [audit(pure_noise, (0, 1), 60, 0.95, seed, claimed=0) for seed in range(400)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 400, 0.05)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_wrong_flip_probability_is_caught(epsilon: float, method: Method) -> None:
    assert audit(Bits(epsilon, level=epsilon), (FIRST, SECOND), 20_000, 0.999, method=method).verdict == "violated"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_half_the_sensitivity_is_caught(epsilon: float, method: Method) -> None:
    assert audit(Noise(epsilon, 0.5 / epsilon), (0.0, 1.0), 20_000, 0.999, method=method).verdict == "violated"


def two_messages(mechanism: Any, reused: bool) -> Callable[[Array, np.random.Generator, int], Array]:
    def transcript(x: Array, rng: np.random.Generator, trials: int) -> Array:
        state = rng.bit_generator.state
        first = mechanism.perturb(np.repeat(x[None, 0], trials, 0), rng)
        if reused:
            rng.bit_generator.state = state
        second = mechanism.perturb(np.repeat(x[None, 1], trials, 0), rng)
        return np.stack([first, second], 1)

    return transcript


@pytest.mark.parametrize("made", [bits, noise])
def test_noise_reused_within_a_run_is_caught(made: Callable[[float], Any]) -> None:
    """Of two messages, only the first is private; what it adds to the second tells it."""
    mechanism, (x0, x1) = made(1.0)
    worlds = np.stack([x0, x0]), np.stack([x1, x0])
    sound, broken = (
        audit(two_messages(mechanism, reused), worlds, 20_000, 0.999, claimed=1.0) for reused in (False, True)
    )
    assert (sound.verdict, broken.verdict) == ("consistent", "violated")
    assert sound.certified > 0.8
    assert broken.certified > 0.99 * broken.cap


@pytest.mark.parametrize("made", [bits, noise])
def test_a_forgotten_channel_is_caught(made: Callable[[float], Any]) -> None:
    """A ledger that charges one of two channels."""
    mechanism, (x0, x1) = made(1.0)
    worlds = np.stack([x0, x0]), np.stack([x1, x1])
    found = audit(two_messages(mechanism, False), worlds, 40_000, 0.999, claimed=1.0)
    assert found.verdict == "violated"
    assert audit(two_messages(mechanism, False), worlds, 40_000, 0.999, claimed=2.0).verdict == "consistent"


def test_that_a_value_changed_is_no_secret_of_memoized_answers() -> None:
    """Two answers that differ can only come of two values: the ledger's count of new answers does not cover it, says `Memoized`."""
    memoized = mechanisms.Memoized(mechanisms.KaryRandomizedResponse(2.0, num_values=4))

    def transcript(values: tuple[int, int], rng: np.random.Generator, trials: int) -> Array:
        state = memoized.start((trials,))
        return np.stack([memoized.step(np.full(trials, value), rng, state) for value in values], 1)

    found = audit(transcript, ((0, 0), (0, 1)), 20_000, 0.999, claimed=2 * memoized.epsilon)
    assert found.verdict == "violated"


class Ballots(Consensus):
    """Consensus whose tallies are of votes that a mechanism perturbed."""

    mechanism = Bits(1.0, 0.5)

    def transition(self, state: Any, actions: dict[str, Array]) -> Any:
        one_hot = (actions["agent"][:, :, None] == np.arange(3)).astype(np.int64)
        self.tally = self.mechanism.perturb(one_hot, self.stream("ballots")).sum(1)
        return super().transition(state, actions)


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
    """What a server reads in three rounds, in worlds where one agent votes for the first option or for the second throughout."""

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


def test_agents_of_one_run_may_depend_on_each_other() -> None:
    """Everyone's noisy number, and the exact sum of those of the even agents: one run in which each agent is a canary."""
    calls = []

    def transcript(x: Array, rng: np.random.Generator, agents: int) -> Array:
        calls.append(agents)
        y = x + rng.laplace(0, 1.0, agents)
        return np.stack([y, np.full(agents, y[::2].sum())], 1)

    found = [audit(transcript, (0.0, 1.0), 5_000, 0.999, seed, "one-run", claimed=1.0) for seed in range(50)]
    assert calls == [5_000] * 50
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 50, 1e-3)
    assert np.median([one.certified for one in found]) > 0.6


@dataclass(frozen=True)
class Slip:
    """A bit through randomised response, which is told outright with probability delta: (epsilon, delta)-DP and no better."""

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
    found = [audit(mechanism, (0, 1), 8_000, 0.999, seed, method, delta=delta) for seed in range(100)]
    assert sum(one.verdict == "violated" for one in found) <= binom.isf(1e-4, 100, 1e-3)
    assert np.median([one.certified for one in found]) > least
    if delta == 0.01:
        pure = audit(mechanism, (0, 1), 40_000, 0.999, method=method, delta=0, claimed=1.0)
        assert pure.verdict == "violated"


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


def test_the_same_seed_gives_the_same_result() -> None:
    mechanism, pair = noise(1.0)
    first, second, other = (audit(mechanism, pair, 2_000, seed=seed, method="black") for seed in (0, 0, 1))
    assert first == second != other


def test_progress_counts_trials() -> None:
    seen: list[int] = []
    audit(*noise(1.0), trials=1_000, batch=200, progress=seen.append)
    assert seen == [200, 400, 500, 700, 900, 1_000]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"trials": 3}, "trials must be an integer >= 4, not 3"),
        ({"confidence": 1.0}, "confidence must be a finite number > 0 and < 1, not 1.0"),
        ({"delta": -0.1}, "delta"),
        ({"held_out": 0}, "held_out"),
        ({"claimed": -1}, "claimed"),
        ({"claimed": math.nan}, "claimed"),
        ({"seed": -1}, "seed"),
        ({"batch": 0}, "batch"),
        ({"method": "grey"}, "method must be one of 'white', 'black', 'one-run', not 'grey'"),
        ({"pair": (0.0,)}, "pair must be two adjacent worlds"),
        ({"mechanism": 3}, "mechanism must have"),
        (
            {"mechanism": lambda x, rng, trials: np.zeros(trials), "method": "white"},
            "method must be 'black' or 'one-run'",
        ),
        ({"mechanism": lambda x, rng, trials: np.zeros(3)}, r"a transcript must be an array \[trials, ...\]"),
        ({"mechanism": lambda x, rng, trials: np.zeros((trials, 1 + int(x)))}, "the same shape in both worlds"),
        ({"mechanism": lambda x, rng, trials: np.full(trials, np.nan)}, "finite numbers only"),
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
    assert len(text.splitlines()) == 1 + 3 + 2
    assert "violated" in text.splitlines()[2]
    assert "at delta = 0.01" in text
    assert "ln(n / ln 20)" in found[0].table()
    json.dumps(found[0].as_dict())
    assert found[0].as_dict()["verdict"] == "consistent"


def test_plot_to_a_file_and_to_axes(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    found = results()
    plot_audits(found, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    axes = Figure().add_subplot()
    assert found[0].plot(axes) is axes
    assert axes.get_xlabel() == "claimed epsilon"


def test_the_command_prints_a_table_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    specs = ["BitwiseRandomizedResponse:1.0", "Laplace:0.5,sensitivity=2", "NoPrivacy"]
    told: list[tuple[str, float]] = []
    found = audit_command(specs, plot=tmp_path / "audit.svg", progress=lambda spec, done: told.append((spec, done)))
    assert told[0][0] == specs[0]
    assert told[-1] == ("NoPrivacy", 1.0)
    out, err = capsys.readouterr()
    assert out.rstrip("\n") == audit_table(found)
    assert err == ""
    assert (tmp_path / "audit.svg").stat().st_size > 0
    assert [one.verdict for one in found] == ["consistent", "consistent", "no claim"]
    assert found[0].share > 0.7
    assert found[0].trials == trials_for(1.0, 0.95)


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    audit_command(
        ["NoPrivacy", "Gaussian:1,delta=1e-5"], trials=1_000, confidence=0.999, method="one-run", as_json=True
    )
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
        ("KaryRandomizedResponse:1", "must have num_values"),
    ],
)
def test_the_command_names_mistakes(spec: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        audit_command([spec], trials=100)
