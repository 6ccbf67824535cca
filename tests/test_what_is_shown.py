"""What totals of the recommender protect: one feedback, given what was shown. Exact log-likelihood ratios of answers,
by a replay in which everybody hears what it heard before.

With Laplace noise, answers whose noisy sums move by D in a stream of level epsilon have a log-likelihood ratio of up to
epsilon |D|, and reach it.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import taciturn
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.policies import BlockListener, DTPriDO, PeakListener, Random, TPriDO
from taciturn.privacy.mechanisms import Blocks, Exponential, TreeAggregation

SHOP: dict[str, Any] = {"num_agents": 4, "num_items": 40, "repository": 20, "horizon": 16, "graph": "complete"}
LEVELS = {"statistics": 0.5, "counts": 0.25}
SHARING = tuple(LEVELS)


class Told(NamedTuple):
    """An answer: the channel, the round, who asked about which streams, the exact numbers, and what was heard."""

    channel: str
    time: int
    asked: Array
    streams: Array
    exact: Array
    received: Any


class Played(NamedTuple):
    told: list[Told]
    actions: list[Array]
    accountant: Any


def play(
    policy: Any,
    mechanism: Any,
    *,
    before: Played | None = None,
    as_before: bool = True,
    at: tuple[int, int] = (-1, 0),
    change: str = "value",
) -> Played:
    """A run of one replica.

    Args:
        policy: who acts.
        law: of the mechanism on both channels.
        before: a run whose answers everybody hears again.
        as_before: whether the same items are also shown as in that run.
        at: the round and the agent of a feedback that changes.
        change: of its "value"; or it is "missing", or of another "visit", to an item that was not shown.
    """
    time = 0

    def private(_: Any, likes: Array, agents: Any = None) -> Array:
        turned = likes.copy()
        if time == at[0] and change == "value":
            turned[agents == at[1]] ^= True
        return turned

    env = recommender_v0.population(1, **SHOP).alike(1, private=private)
    configs = {name: ChannelConfig(mechanism(level)) for name, level in LEVELS.items()}
    obs, _ = env.reset(seed=5, options={"channels": configs, "public_schedule": True})
    told: list[Told] = []

    def listen(name: str) -> None:
        answer = env.channels[name].answer

        def answers(x: Array, asked: Array, reply: Any, about: Any = None) -> Any:
            received = answer(x, asked, reply, about) if before is None else before.told[len(told)].received
            told.append(Told(name, time, asked.copy(), about.copy(), x.copy(), received))
            return received

        env.channels[name].answer = answers  # type: ignore[method-assign]

    for name in LEVELS:
        listen(name)
    policy.reset(env, np.random.default_rng(1))
    actions: list[Array] = []
    while not env.done.all():
        action = policy.act(obs, env.action_mask("agent"))
        if before is not None and as_before:
            action = before.actions[time].copy()
        own = env.state.active[0, at[1]]
        if time == at[0] and change == "visit":
            action[0, at[1]] = np.flatnonzero(own & (np.arange(own.size) != action[0, at[1]]))[-1]
        step = env.step(action)
        learned = action.copy()
        if time == at[0] and change == "missing":
            learned[0, at[1]] = np.flatnonzero(~own)[0]  # it has no such item
        policy.update(obs, learned, step.reward, step.terminated | step.truncated)
        obs, time = env.observe(), time + 1
        actions.append(action)
    return Played(told, actions, env.accountant)


def ratio(one: Played, other: Played) -> float:
    """The largest log-likelihood ratio of two runs' answers, where one record has changed; they must be about the same
    streams at the same times."""
    moved: dict[tuple[str, int], float] = {}
    for x, y in zip(one.told, other.told, strict=True):
        assert (x.channel, x.time) == (y.channel, y.time)
        np.testing.assert_array_equal(x.asked, y.asked)
        who = np.broadcast_to(x.asked[:, :, None], x.streams.shape)
        np.testing.assert_array_equal(x.streams[who], y.streams[who])
        for stream, by in zip(x.streams[who].tolist(), np.abs(x.exact - y.exact)[who].tolist(), strict=True):
            moved[x.channel, stream] = max(moved.get((x.channel, stream), 0.0), by)
    return sum(LEVELS[name] * by for (name, _), by in moved.items())


def total(run: Played, channel: Any) -> Array:
    """Of each agent."""
    found: Array = run.accountant.epsilon(0.0, "agent", "basic", unit="event", channel=channel)[0]
    return found


def ratios(policy: Any, mechanism: Any, first: Played, rounds: Any, **how: Any) -> Array:
    """The largest ratio for each agent, over feedbacks of these rounds."""
    changed = [
        [ratio(first, play(policy, mechanism, before=first, at=(when, agent), **how)) for when in rounds]
        for agent in range(SHOP["num_agents"])
    ]
    return np.max(changed, 1)


LISTENER = BlockListener(8, first=6, worlds=20, rounds=20)
BY_ANSWERS: list[tuple[Any, Any]] = [
    (TPriDO(2.0, rate=2.0), TreeAggregation),
    (DTPriDO(2.0, rate=2.0), Blocks),
    (Random(), TreeAggregation),
]
"""Policies that act on answers and public numbers alone."""


@pytest.mark.parametrize(
    ("policy", "mechanism"),
    [(LISTENER, Blocks), (PeakListener(8, first=6, particles=8, steps=4), Blocks), *BY_ANSWERS],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_a_feedback_costs_its_total_given_what_was_shown(policy: Any, mechanism: Any) -> None:
    """Its value changes the sums by 1 in each stream that it entered, and no count. The worst feedback reaches what
    the accountant charges."""
    first = play(policy, mechanism)
    found, charged = ratios(policy, mechanism, first, (0, 5)), total(first, "statistics")
    assert (found <= charged + 1e-9).all()
    assert (found > charged - 1e-9).any()
    np.testing.assert_allclose(total(first, SHARING), total(first, "statistics") + total(first, "counts"))
    assert np.isinf(total(first, None)).all(), "what is shown is public"


def test_an_agent_that_learns_from_its_own_feedbacks_tells_more_by_what_it_shows() -> None:
    """One feedback changes what is shown later, and so the streams of later feedbacks: the total of the answers holds
    only given what was shown. The accountant says so, and has no finite total of all channels."""
    first = play(LISTENER, Blocks)
    assert (ratios(LISTENER, Blocks, first, (0,), as_before=False) > 2 * total(first, SHARING)).any()
    assert np.isinf(total(first, None)).all()
    notes = {row["channel"]: row["note"] for row in first.accountant.table()}
    assert all("given what was shown" in notes[name] for name in SHARING)


@pytest.mark.parametrize(
    ("policy", "mechanism"), BY_ANSWERS, ids=lambda one: getattr(one, "__name__", type(one).__name__)
)
def test_what_is_shown_by_answers_alone_tells_nothing_more(policy: Any, mechanism: Any) -> None:
    first = play(policy, mechanism)
    found = ratios(policy, mechanism, first, (1,), as_before=False)
    assert (found <= total(first, "statistics") + 1e-9).all()


def test_a_missing_feedback_is_hidden_by_noise_on_counts_and_another_visit_is_not() -> None:
    """Of an agent whose questions are always about all streams. Another visit changes two streams on each channel."""
    first = play(LISTENER, Blocks)
    charged = total(first, SHARING)
    missing = ratios(LISTENER, Blocks, first, (2,), change="missing")
    assert (missing > LEVELS["counts"]).all(), "the count, and the sum"
    assert (missing <= charged + 1e-9).all()
    assert (ratios(LISTENER, Blocks, first, (0, 5), change="visit") > charged + 0.1).any()


def test_where_everything_is_selected_the_total_covers_all_channels() -> None:
    env = recommender_v0.population(1, **SHOP)
    mechanisms = {"statistics": TreeAggregation(0.5), "counts": TreeAggregation(0.25), "selection": Exponential(0.125)}
    run = taciturn.simulate(env, TPriDO(2.0, rate=2.0), seed=0, privacy=mechanisms)
    played = Played([], [], run.accountant)
    np.testing.assert_allclose(total(played, None), total(played, SHARING) + 0.125 * SHOP["horizon"])
    np.testing.assert_allclose(total(played, ["selection"]), 0.125 * SHOP["horizon"])
    for bad, message in (((), "at least one channel"), (("counts", "vote"), "must be one of"), (3, "must be one of")):
        with pytest.raises(ValueError, match=message):
            run.accountant.epsilon(channel=bad)
