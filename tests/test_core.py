"""What every world is made of: layouts, roles, streams, channels, populations; what is refused, and that nothing has
moved then."""

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

import taciturn
from taciturn import registry
from taciturn.envs.core import (
    Array,
    ChannelConfig,
    Controlled,
    Fast,
    Layout,
    Population,
    PublicView,
    Role,
    Rollout,
    Streams,
    World,
    choice,
    integer,
    number,
    vector,
)
from taciturn.envs.core.controlled import apart
from taciturn.policies import FixedCount, Policy, Random
from taciturn.simulation import Run
from taciturn.testing.cases import fingerprint
from taciturn.wrappers import BitwiseRandomizedResponse, Budget, LossyChannel, Memoized, NoPrivacy

# Layouts.

FIELDS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(1, 4), st.integers(-50, 0), st.integers(1, 50)),
    min_size=1,
)


@given(fields=FIELDS, seed=st.integers(0, 2**32), scale=st.sampled_from([0.5, 1e6]))
def test_packed_fields_lie_in_the_space_and_unpack(
    fields: dict[str, tuple[int, int, int]], seed: int, scale: float
) -> None:
    layout, rng = Layout(**fields), np.random.default_rng(seed)
    values = {name: scale * rng.normal(size=(2, 3, size)) for name, (size, _, _) in fields.items()}
    packed = layout.pack(**{name: x[:, :, 0] if x.shape[2] == 1 else x for name, x in values.items()})
    assert packed.shape == (2, 3, layout.size)
    assert all(layout.space().contains(row) for replica in packed for row in replica)
    for name, part in layout.unpack(packed).items():
        size, low, high = fields[name]
        assert part.shape == ((2, 3) if size == 1 else (2, 3, size))
        np.testing.assert_array_equal(part.reshape(2, 3, size), np.clip(values[name].astype(np.float32), low, high))


@pytest.mark.parametrize(
    "field", [(0, 0, 1), (1, 1, 1), (1, 2, 1), (1, 0, np.inf), (1, np.nan, 1), (1, 0, 1e39), (1, 1, 1 + 1e-9)]
)
def test_layout_refuses(field: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="field 'x' must be"):
        Layout(x=field)


def test_pack_wants_exactly_the_fields() -> None:
    layout = Layout(a=(1, 0, 1), b=(2, 0, 1))
    with pytest.raises(ValueError, match=re.escape("fields must be exactly ['a', 'b'], not ['a']")):
        layout.pack(a=np.zeros((1, 1)))


# Roles.


def role(space: gymnasium.Space[Any]) -> Role:
    return Role("agent", 2, Layout(x=(1, 0, 1)), space)


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (Discrete(3), [0, 2], [[0, 3], [-1, 0], [0.0, 1.0], [np.nan, 0], [True, False], [None, 0], ["a", "b"]]),
        (Discrete(3, start=1), [1, 3], [[0, 1], [1, 4]]),
        (MultiDiscrete([2, 3]), [[1, 2], [0, 0]], [[[2, 0], [0, 0]], [[0, 0], [0, -1]], [[0.5, 0], [0, 0]]]),
        (
            Box(0.1, 1.0, (1,), np.float32),
            [[0.1], [1.0]],
            [
                [[0.09], [1]],
                [[0.5], [1.01]],
                [[np.nan], [1]],
                [[np.inf], [1]],
                [[1e300], [1]],
                [["a"], ["b"]],
                [[None], [1]],
                [[1j], [1]],
            ],
        ),
        (Box(0, 5, (1,), np.int64), [[0], [5]], [[[0.5], [1.0]], [[6], [1]]]),
    ],
    ids=str,
)
def test_role_checks_actions(space: gymnasium.Space[Any], good: Any, bad: list[Any]) -> None:
    checked = role(space).check([good], (1, 2))
    assert checked.shape == (1, 2, *(space.shape or ()))
    assert isinstance(space, Discrete) or checked.dtype == space.dtype
    for actions in bad:
        with pytest.raises(ValueError, match="actions of role 'agent' must"):
            role(space).check([actions], (1, 2))
    for shape in ((2, 2), (1, 3)):
        with pytest.raises(ValueError, match=r"actions of role 'agent' must have shape \(\d, \d.*\), not"):
            role(space).check([good], shape)


def test_role_points_at_the_wrong_action() -> None:
    with pytest.raises(
        ValueError, match=re.escape("actions of role 'agent' must lie in Discrete(3), but actions[1, 0] is 7")
    ):
        role(Discrete(3)).check(np.array([[0, 1], [7, 2]]), (2, 2))


# Checks of parameters.


@pytest.mark.parametrize(
    "value", [np.nan, np.inf, -np.inf, None, "1", True, np.True_, 0.0, 1.5, 1j, [0.5], np.zeros(1)]
)
def test_number_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="rate must be a finite number > 0 and <= 1, not "):
        number("rate", value, above=0, at_most=1)


@given(st.one_of(st.integers(1, 10), st.floats(0.5, 10), st.floats(0.5, 10).map(np.float64)))
def test_number_keeps(value: Any) -> None:
    kept = number("rate", value, at_least=0.5, below=10.5)
    assert type(kept) is float
    assert kept == value


@pytest.mark.parametrize("value", [0, 11, 1.0, 1.5, None, "1", True, np.nan, np.float64(2)])
def test_integer_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="count must be an integer >= 1 and <= 10, not "):
        integer("count", value, at_least=1, at_most=10)
    assert type(integer("count", np.int32(3), at_least=1)) is int


def test_choice() -> None:
    assert choice("kind", "a", ("a", "b")) == "a"
    for value in ("c", None, ["a"], 1):
        with pytest.raises(ValueError, match="kind must be one of 'a', 'b', not "):
            choice("kind", value, ("a", "b"))
    with pytest.raises(ValueError, match="kind must be one of 1, not True"):
        choice("kind", True, (1,))


@pytest.mark.parametrize("value", [[1, np.nan], [[1, 2]], "ab", None, [1, None], [1, 2, 3], 5, [1, [2]]])
def test_vector_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="table must "):
        vector("table", value, size=2)


def test_vector_is_fresh() -> None:
    given_array = np.ones(2)
    vector("table", given_array)[0] = 5
    assert given_array.tolist() == [1, 1]


# Streams.


@given(seed=st.integers(0, 2**64), elsewhere=st.integers(0, 20))
def test_a_stream_is_not_moved_by_another(seed: int, elsewhere: int) -> None:
    one, other = Streams(seed), Streams(seed)
    one["noise"].random(elsewhere)
    np.testing.assert_array_equal(one["rewards"].random(5), other["rewards"].random(5))
    one["ties"].random(elsewhere)
    np.testing.assert_array_equal(one["rewards"].random(5), other["rewards"].random(5))


def test_streams_differ_by_name_and_seed() -> None:
    drawn = {Streams(seed)[name].integers(2**62) for seed in (0, 1, 2**40) for name in ("a", "b", "policy/a")}
    assert len(drawn) == 9
    fresh = Streams()
    assert isinstance(fresh.entropy, int)
    assert Streams(fresh.entropy)["a"].integers(2**62) == fresh["a"].integers(2**62)


def test_streams_do_not_look_alike() -> None:
    """Correlation of two streams' 100,000 uniforms: |r| < 4.5 / sqrt(n), false-alarm rate 7e-6."""
    streams, n = Streams(0), 100_000
    assert abs(np.corrcoef(streams["a"].random(n), streams["b"].random(n))[0, 1]) < 4.5 / n**0.5


def test_streams_survive_pickling() -> None:
    streams = Streams(3)
    streams["a"].random(7)
    again = pickle.loads(pickle.dumps(streams))
    for name in "ab":
        assert streams[name].random() == again[name].random()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, np.float64(1)])
def test_seed_must_be_a_whole_number(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must be an integer >= 0, not "):
        Streams(seed)


# Channels.


@pytest.mark.parametrize(
    "config", [ChannelConfig(), ChannelConfig(NoPrivacy()), ChannelConfig(faults=(LossyChannel(0.0),))], ids=repr
)
def test_what_is_not_sent_is_read_as_zero(config: ChannelConfig) -> None:
    """Whatever stands on the channel; so a world that forgets who sent leaks nothing."""
    population = tiny.consensus_v0.population(num_envs=2)
    population.reset(seed=0, options={"channels": {"opinion": config}})
    before = population.state.opinion
    votes = np.array([[0, 1, 2, 0], [0, 0, 0, 1]])
    population.step(votes)
    np.testing.assert_array_equal(population.state.delivered, np.where(votes > 0, before, 0.0))


# States.


# Populations refuse what is wrong, and nothing has moved then.


def test_partial_reset_waits_for_the_cycle_of_turns() -> None:
    population = CASES["auction"].population(num_envs=2)
    population.reset(seed=0)
    population.step({"platform": np.full((2, 1, 1), 0.5)})
    before = fingerprint(population)
    with pytest.raises(ValueError, match="where needs the cycle of turns to be complete, but it is the turn of"):
        population.reset(where=np.array([True, False]))
    assert fingerprint(population) == before
    population.reset(where=np.array([True, True]))
    assert population.turn == ("platform",)


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_what_stops_a_partial_reset_leaves_the_turn_where_it_was(stop: type[BaseException]) -> None:
    population = CASES["auction"].population(num_envs=2)
    population.reset(seed=0)
    population.step({"platform": np.full((2, 1, 1), 0.5)})
    before = population.turn

    def stopped() -> None:
        with apart(population, np.array([True, False])):
            assert population.turn == ("platform",)
            raise stop

    with pytest.raises(stop):
        stopped()
    assert population.turn == before != ("platform",)


def test_views_refuse_wrong_actions_and_change_nothing() -> None:
    parallel, aec = tiny.auction_v0.parallel_env(), tiny.auction_v0.env()
    good = {"platform_0": np.array([0.5], np.float32)} | {f"individual_{i}": 1 for i in range(4)}
    parallel.reset(seed=0)
    aec.reset(seed=0)
    before = fingerprint(parallel.population), fingerprint(aec.population)
    for wrong in ({"platform_0": np.array([np.nan])}, {"platform_0": 0.5}, {"individual_2": 2}, {"individual_0": 1.0}):
        with pytest.raises(ValueError, match=r"action of role '\w+' must"):
            parallel.step(good | wrong)
    with pytest.raises(ValueError, match="must hold an action for every live agent, but 'individual_3' is missing"):
        parallel.step({agent: action for agent, action in good.items() if agent != "individual_3"})
    for action in (None, 0.5, np.array([2.0]), np.array([np.nan]), "x"):
        with pytest.raises(ValueError, match="action of role 'platform' must"):
            aec.step(action)
    assert (fingerprint(parallel.population), fingerprint(aec.population)) == before


def test_horizon_of_a_reset() -> None:
    population = tiny.consensus_v0.population()
    for options, steps in (({"horizon": 3}, 3), (None, 12), ({"horizon": np.int64(2)}, 2)):
        population.reset(seed=0, options=options)
        population.advance(random_policy(population))
        assert population.clock().tolist() == [steps]
    population.reset(options={"horizon": 3})
    population.reset(where=np.array([True]))
    population.advance(random_policy(population), steps=2)
    assert population.clock().tolist() == [2]
    population.advance(random_policy(population), until=2.0)
    assert population.clock().tolist() == [2]
    population.advance(random_policy(population))
    assert population.clock().tolist() == [3]


def random_policy(population: Population[Any]) -> Random:
    policy = Random()
    policy.reset(population, np.random.default_rng(0))
    return policy


def test_unknown_measure() -> None:
    population = tiny.consensus_v0.population()
    population.reset(seed=0)
    with pytest.raises(ValueError, match=r"consensus measures .*earned, time, not 'luck'"):
        population.measure("luck")
    population.measure("earned")[:] = 99
    assert population.state.earned.tolist() == [0]
    assert population.describe() == "consensus earned=0.0 time=0"


def test_a_summary_gives_means_and_intervals_by_hand() -> None:
    """Student's quantile for 3 degrees of freedom is 3.182446; mean 2.5, standard error (5 / 3)^0.5 / 2 = 0.645497."""
    metrics = {
        "regret": np.array([1.0, 2.0, 3.0, 4.0]),
        "epsilon": np.array([1.0, np.inf, 1.0, 1.0]),
        "rate": np.array([np.nan, 2.0, np.nan, np.nan]),
        "never": np.full(4, np.nan),
    }
    run = Run(metrics, {}, np.zeros(0), seed=7)
    assert [line.split() for line in run.summary().splitlines()] == [
        ["metric", "mean", "95%", "interval", "replicas"],
        ["regret", "2.5", "0.44574", "to", "4.55426", "4"],
        ["epsilon", "inf", "4"],
        ["rate", "2", "1", "of", "4"],
        ["never", "nan", "0", "of", "4"],
    ]
    assert "80% interval" in run.summary(confidence=0.8)
    with pytest.raises(ValueError, match="confidence must be a finite number > 0 and < 1, not 95"):
        run.summary(95)
    assert repr(run) == "<Run of 4 replicas, seed 7: regret, epsilon, rate, never>"


def test_roles_must_be_shared_out() -> None:
    auction = tiny.auction_v0.population()
    for name, others in (("nobody", {}), ("platform", {}), ("platform", {"platform": Random()})):
        with pytest.raises(ValueError, match=re.escape("share out the roles ['platform', 'individual'], not")):
            Controlled(auction, name, others)
    with pytest.raises(ValueError, match="num_envs must be an integer >= 1, not 0"):
        tiny.auction_v0.population(num_envs=0)
    with pytest.raises(ValueError, match="consensus has no default action for role 'agent'"):
        tiny.consensus_v0.population().default_action("agent")


# Runs.


def test_a_run_has_its_metrics_and_the_end() -> None:
    run = taciturn.simulate(tiny.consensus_v0.population(num_envs=3), Random(), seed=0, record=["time", "earned"])
    assert run.trace["time"].tolist() == [[12, 12, 12]]
    assert run.times.tolist() == [12]
    np.testing.assert_array_equal(run.trace["earned"][0], run.metrics["earned"])
    assert run.seed == 0


def test_what_is_recorded_at_a_time_is_what_stood_then() -> None:
    times = [0.5, 1, 3.7, 11.999, 12]
    run = taciturn.simulate(tiny.consensus_v0.population(num_envs=2), Random(), seed=0, until=times, record=["time"])
    assert run.trace["time"][:, 0].tolist() == [0, 1, 3, 11, 12]
    assert run.times.tolist() == times


@dataclass(frozen=True, kw_only=True)
class Continuous(tiny.Params):
    """A clock that does not count steps."""

    horizon: float = 12.0  # type: ignore[assignment]

    def __post_init__(self) -> None:
        number("horizon", self.horizon, above=0)


class Uneven(tiny.Consensus):
    """Consensus whose time is what was earned, so that every replica's clock moves by its own luck."""

    def clock(self) -> Array:
        return self.state.earned.copy()


@given(seed=st.integers(0, 1000), times=st.lists(st.floats(0.1, 30), min_size=1, max_size=5, unique=True).map(sorted))
def test_each_replica_has_its_own_clock(seed: int, times: list[float]) -> None:
    population = World(Uneven, Continuous).population(num_envs=3)
    run = taciturn.simulate(population, Random(), seed=seed, until=times, record=["earned", "time"])
    history = clocks(seed, steps=int(np.ceil(times[-1])))
    for i, time in enumerate(times):
        for replica in range(3):
            past = history[history[:, replica] <= time * (1 + 1e-9), replica]
            assert run.trace["earned"][i, replica] == past[-1]
            assert run.trace["time"][i, replica] == len(past) - 1


def clocks(seed: int, steps: int) -> Array:
    """What three replicas of `Uneven` have earned after each step, [steps + 1, 3]."""
    population, policy = World(Uneven, Continuous).population(num_envs=3, horizon=steps), Random()
    population.reset(seed=seed)
    policy.reset(population, population.stream("policy/agent"))
    history = [population.clock()]
    while not population.done.all():
        population.advance(policy, steps=1)
        history.append(population.clock())
    return np.array(history)


@pytest.mark.parametrize("until", [5, 5.0, [2, 5], np.array([1.0, 5.0])])
def test_recording_does_not_change_the_run(until: Any) -> None:
    worlds = tiny.consensus_v0.population(num_envs=2), tiny.consensus_v0.parallel_env()
    for env in worlds:
        plain = taciturn.simulate(env, Random(), seed=7, until=until)
        recorded = taciturn.simulate(env, Random(), seed=7, until=until, record=["earned", "time", "earned"])
        assert plain.trace == {}
        np.testing.assert_array_equal(plain.metrics["earned"], recorded.metrics["earned"])
        assert (recorded.trace["time"][-1] == 5).all()
        assert list(recorded.trace) == ["earned", "time"]


def test_roles_play_together_or_one_is_controlled() -> None:
    both = {"platform": Random(), "individual": Random()}
    one = taciturn.simulate(tiny.auction_v0.population(num_envs=2), both, seed=3)
    again = taciturn.simulate(tiny.auction_v0.population(num_envs=2), both, seed=3)
    np.testing.assert_array_equal(one.metrics["earned"], again.metrics["earned"])
    for role_name in both:
        others = {name: policy for name, policy in both.items() if name != role_name}
        controlled = Controlled(tiny.auction_v0.population(num_envs=2), role_name, others)
        run = taciturn.simulate(controlled, both[role_name], seed=3)
        np.testing.assert_array_equal(run.metrics["earned"], one.metrics["earned"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until": 0}, "until must be a positive time or increasing positive times, not 0"),
        ({"until": -2.0}, "until must be a positive time"),
        ({"until": [1, 1]}, "until must be a positive time or increasing"),
        ({"until": [3, 2]}, "until must be a positive time or increasing"),
        ({"until": [1, np.nan]}, "until must hold finite numbers only"),
        ({"until": "soon"}, "until must be a sequence of numbers"),
        ({"until": [[1, 2]]}, "until must be a flat sequence"),
        ({"record": ["luck"]}, "epsilon_zcdp, earned, time, not 'luck'"),
        ({"seed": -1}, "seed must be an integer >= 0, not -1"),
        ({"policy": {"nobody": Random()}}, "policy must be a dict with the roles"),
        ({"env": tiny.consensus_v0}, "env must be a population or a view of one, not World"),
        ({"env": tiny.auction_v0.population()}, "must be a dict with the roles ['platform', 'individual'], not Random"),
        ({"privacy": {"vote": 1}}, "mechanism must be one of taciturn.wrappers' mechanisms, not 1"),
        ({"privacy": {"voice": NoPrivacy()}}, "consensus has the channels opinion, vote, not 'voice'"),
        ({"privacy": "papers"}, "privacy must be a dict {channel: mechanism} or \"paper\", not 'papers'"),
        ({"privacy": "paper"}, 'Random prescribes no mechanism: privacy="paper" has no meaning with it'),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_simulate_refuses(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"env": tiny.consensus_v0.population(), "policy": Random(), "seed": 0}
    with pytest.raises(ValueError, match=re.escape(message)):
        taciturn.simulate(**usual | arguments)


def test_a_papers_privacy_is_the_policys_to_name() -> None:
    class Careful(Random):
        def prescribes(self, view: PublicView) -> dict[str, Any]:
            return {"vote": BitwiseRandomizedResponse(epsilon=1.0)}

    run = taciturn.simulate(tiny.consensus_v0.population(), Careful(), seed=0, privacy="paper")
    assert run.accountant.per_message["vote"].epsilon == 1.0
    named = {"vote": BitwiseRandomizedResponse(epsilon=1.0)}
    same = taciturn.simulate(tiny.consensus_v0.population(), Random(), seed=0, privacy=named)
    np.testing.assert_array_equal(run.metrics["earned"], same.metrics["earned"])


@dataclass(frozen=True)
class Steps(Fast):
    """Stands for any fast form: `Jumping` plays step by step all the same."""


class Jumping(tiny.Consensus):
    """Consensus that fast-forwards, by steps, and counts how often it was asked to."""

    jumps: Mapping[str, type[Fast]] = {"agent": Steps}
    asked = 0

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Any], until: float) -> None:
        rollout = Rollout(self, policies)
        while (self.clock() < np.floor(until)).any() and not self.done.all():
            rollout.play()
        self.asked += 1


class Quick(Random):
    def fast(self, view: PublicView) -> Steps:
        return Steps()


def test_a_run_by_fast_forward_is_recorded_as_one_by_steps() -> None:
    jumping = Jumping(tiny.Params(), 3)
    for until in ([2, 3.5, 7], [5.0, 12], 4):
        jumping.asked = 0
        run = taciturn.simulate(jumping, Quick(), seed=1, until=until, record=["earned", "time"])
        assert jumping.asked == np.size(until)
        stepped = taciturn.simulate(jumping, Quick(), seed=1, until=until, record=["earned", "time"], fast=False)
        assert jumping.asked == np.size(until)
        for name, values in stepped.trace.items():
            np.testing.assert_array_equal(run.trace[name], values)
        np.testing.assert_array_equal(run.metrics["earned"], stepped.metrics["earned"])
    policy = Quick()
    jumping.reset(seed=0)
    policy.reset(jumping, jumping.stream("policy"))
    jumping.advance(policy, until=6.0)
    assert (jumping.clock() == 6).all()


class Overridden(Quick):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.ones(obs.shape[:2], np.int64)


class Reclaimed(Overridden):
    def fast(self, view: PublicView) -> Steps:
        return Steps()


class Renamed(Quick):
    """Neither parameters nor what is prescribed change how it acts."""

    def __init__(self, colour: str = "red") -> None:
        self.colour = colour

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        return {}


def test_a_fast_form_does_not_outlive_an_override() -> None:
    def asked(policy: Random, **options: Any) -> int:
        jumping = Jumping(tiny.Params(), 2)
        taciturn.simulate(jumping, policy, seed=0, until=5, **options)
        return jumping.asked

    assert (asked(Quick()), asked(Reclaimed()), asked(Renamed())) == (1, 1, 1)
    assert (asked(Overridden()), asked(Random()), asked(Quick(), fast=False)) == (0, 0, 0)
    patched = Quick()
    patched.act = lambda obs, mask=None: np.zeros(obs.shape[:2], np.int64)  # type: ignore[method-assign]
    assert asked(patched) == 0


def test_nothing_is_fast_forwarded_that_the_law_of_sums_does_not_know() -> None:
    bits = BitwiseRandomizedResponse(1.0)
    for configs, plays in (
        ({"vote": ChannelConfig(bits)}, 1),
        ({"vote": ChannelConfig(Memoized(bits))}, 0),
        ({"vote": ChannelConfig(bits, Budget(3.0))}, 0),
        ({"vote": ChannelConfig(faults=(LossyChannel(0.1),))}, 0),
    ):
        jumping = Jumping(tiny.Params(), 2)
        jumping.channel_configs = configs
        taciturn.simulate(jumping, Quick(), seed=0, until=5)
        assert jumping.asked == plays, configs
        jumping.jump_sends_messages = True
        taciturn.simulate(jumping, Quick(), seed=0, until=5)
        assert jumping.asked == plays + 1


def test_a_policy_learns_from_what_it_did() -> None:
    class Diary(Random):
        def begin(self, view: PublicView) -> None:
            super().begin(view)
            self.pages: list[tuple[Array, Array, Array, Array]] = []

        def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
            self.pages.append((obs, action, reward, done))

    policy = Diary()
    run = taciturn.simulate(tiny.consensus_v0.population(num_envs=2), policy, seed=0)
    assert [page[3].all() for page in policy.pages] == [False] * 11 + [True]
    np.testing.assert_allclose(sum(page[2].sum(1) for page in policy.pages), run.metrics["earned"])
    assert {page[0].shape for page in policy.pages} == {(2, 4, 5)}


# Names.


def test_a_phased_policy_learns_what_came_later() -> None:
    """The platform earns in the individuals' turn: its policy is told of all of it, before it acts again."""

    class Bookkeeper(Random):
        def begin(self, env: Any) -> None:
            super().begin(env)
            self.earned, self.calls = 0.0, 0

        def update(self, obs: Any, action: Any, reward: Any, done: Any) -> None:
            self.earned, self.calls = self.earned + reward.sum(), self.calls + 1

    for controlled in (False, True):
        env: Any = tiny.auction_v0.population(2, num_agents=3, horizon=7)
        platform, individual = Bookkeeper(), Bookkeeper()
        if controlled:
            env = Controlled(env, "individual", {"platform": platform})
        taciturn.simulate(env, individual if controlled else {"platform": platform, "individual": individual}, seed=0)
        assert platform.calls == individual.calls == 7
        assert platform.earned == pytest.approx(env.state.earned.sum())
        assert platform.earned > 0


def test_worlds_have_many_names() -> None:
    world = registry.worlds()["round_stopping_v0"]
    for name in (
        "round_stopping_v0",
        "round_stopping",
        "taciturn/RoundStopping-v0",
        "RoundStopping-v0",
        "RoundStopping",
    ):
        assert registry.make_world(name) is world
    assert repr(world) == "<world round_stopping>"


@pytest.mark.parametrize("name", ["round_stoping", "RoundStoping", "taciturn/RoundStopping-v1", "", "zzz", None])
def test_unknown_world(name: Any) -> None:
    with pytest.raises(taciturn.UnknownName, match=r"unknown environment .*: (did you mean .*ound|there are .*round)"):
        registry.make_world(name)


def test_policies_are_made_by_name() -> None:
    assert isinstance(registry.make_policy("FixedCount", k=3), FixedCount)
    assert "Policy" not in registry.policies()
    assert all(issubclass(policy, Policy) for policy in registry.policies().values())
    with pytest.raises(taciturn.UnknownName, match="unknown policy 'FixdCount': did you mean FixedCount"):
        registry.make_policy("FixdCount")
    with pytest.raises(ValueError, match="FixedCount got an unexpected keyword argument 'colour': it has k"):
        registry.make_policy("FixedCount", colour="red")


class Greeting(tiny.Consensus):
    """Everyone says its opinion once before the first step."""

    def on_reset(self, where: Array) -> None:
        opinion = self.column("opinion")
        self.channels["opinion"].send(opinion, opinion > 0.5)


def test_what_is_said_before_the_first_step_counts() -> None:
    population = World(Greeting, tiny.Params).population(num_envs=3)
    population.reset(seed=0)
    channel = population.channels["opinion"]
    first = population.state.opinion > 0.5
    np.testing.assert_array_equal(channel.messages(), first)
    population.reset(where=np.array([True, False, False]))
    again = population.state.opinion > 0.5
    assert (again[0] != first[0]).any()
    np.testing.assert_array_equal(again[1:], first[1:])
    np.testing.assert_array_equal(channel.messages(), again)
