"""What single steps and arrays keep from one step to the next: buffers of observations, and the history of pictures."""

import copy
import re
from typing import Any

import numpy as np
import pytest
from cases import CASES
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from taciturn.envs.core import ChannelConfig, Layout, ParallelView, Role, picture
from taciturn.envs.core.roles import Actions
from taciturn.testing.cases import chosen, dressed, dresses, fingerprint, random_actions


def rows_of(observation: Any) -> dict[str, Any]:
    return observation if isinstance(observation, dict) else {"": observation}


@pytest.mark.parametrize("name", CASES)
def test_a_buffer_holds_what_a_fresh_array_would(name: str) -> None:
    """The same bits in the buffer and in all else, for replicas that end apart, in all dresses."""
    for dress in dresses(CASES[name]):
        plain, kept = (dressed(CASES[name].population(3), CASES[name], dress) for _ in range(2))
        begun = [rows_of(env.reset(seed=4)[0]) for env in (plain, kept)]
        buffers: dict[str, Any] = {role: np.empty_like(rows) for role, rows in begun[0].items()}
        rng = np.random.default_rng(0)
        for turn in range(12):
            if plain.done.all():
                break
            actions, where = chosen(plain, random_actions(plain, rng)), None
            if turn == 5 and plain.turns is None:
                where = np.array([True, False, True])
            fresh = plain.step(actions, where)
            shapes = {role: rows.shape for role, rows in rows_of(fresh.observation).items()}
            ((role, shape),) = shapes.items()
            out = buffers.setdefault(role, np.empty(shape, np.float32))
            step = kept.step(actions, where, out=out)
            ((_, shown),) = rows_of(step.observation).items()
            assert shown is out
            np.testing.assert_array_equal(out, rows_of(fresh.observation)[role])
            np.testing.assert_equal([*step][1:], [*fresh][1:])
            assert fingerprint(kept) == fingerprint(plain)


@pytest.mark.parametrize("name", ["consensus", "auction", "platform", "gossip_bandit_v0", "round_stopping_v0"])
def test_another_buffer_is_refused_before_anything_changes(name: str) -> None:
    env = CASES[name].population(2)
    env.reset(seed=0)
    actions = chosen(env, random_actions(env, np.random.default_rng(0)))
    reference_implementation = CASES[name].population(2)
    reference_implementation.reset(seed=0)
    ((_, rows),) = rows_of(reference_implementation.step(actions).observation).items()
    right, before = np.empty_like(rows), fingerprint(env)
    frozen = right.copy()
    frozen.flags.writeable = False
    wide = np.empty((*right.shape[:-1], 2 * right.shape[-1]), np.float32)
    wrong = (right[:1], right[..., :-1], right.astype(np.float64), right.tolist(), frozen, wide[..., ::2], right[0])
    for out in wrong:
        with pytest.raises(ValueError, match=r"out must be a contiguous array float32\[2, "):
            env.step(actions, out=out)
        assert fingerprint(env) == before
    np.testing.assert_array_equal(rows_of(env.step(actions, out=right).observation).popitem()[1], rows)


def frames(view: ParallelView, ask: bool) -> Any:
    """The picture at the end of 20 steps; with `ask`, one is drawn at their beginning too."""
    view.reset(seed=1)
    if ask:
        picture(view.population)
    for i, agent in enumerate(view.possible_agents):
        view.action_space(agent).seed(i)
    for _ in range(20):
        view.step({agent: view.action_space(agent).sample() for agent in view.agents})
    return picture(view.population)


def test_a_history_is_kept_only_where_something_renders() -> None:
    """A view with a render mode, and one of which a picture was asked, draw the same history; any other keeps none."""
    case = CASES["gossip_bandit_v0"]
    rendered = case.parallel_env(render_mode="rgb_array")
    drawn, asked = frames(rendered, False), frames(case.parallel_env(), True)
    np.testing.assert_array_equal(drawn, asked)
    np.testing.assert_array_equal(drawn, rendered.render())
    silent: Any = case.parallel_env()
    assert (frames(silent, False) != drawn).any()
    assert not silent.population.history.records


@pytest.mark.parametrize("name", ["gossip_bandit_v0", "federated_bandit_v0", "elicitation_v0"])
def test_a_run_does_not_depend_on_those_before_it(name: str) -> None:
    """Neither on their seeds, nor on how long they were, nor on what stood on the channels."""
    case = CASES[name]
    private = privately(next(iter(case.privacy.items())))
    befores: Any = [
        [],
        [{"seed": 1}, {"seed": 2}],
        [{"options": {"horizon": 2}}],
        [{"options": private}],
        [{"options": private}, {}],
    ]
    for options in ({}, private, private | {"horizon": 2}):
        trails = []
        for before in befores:
            env = case.parallel_env()
            for asked in before:
                env.reset(**asked)
                trail(env)
            env.reset(seed=1, options=options)
            trails.append(trail(env))
        for other in trails[1:]:
            np.testing.assert_equal(other, trails[0])


def privately(distribution: Any) -> dict[str, Any]:
    channel, mechanism = distribution
    return {} if mechanism is None else {"channels": {channel: ChannelConfig(mechanism)}}


def trail(env: ParallelView) -> list[Any]:
    """Five steps of the first actions."""
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)
    return [env.step({a: env.action_space(a).sample() for a in env.possible_agents}) for _ in range(5) if env.agents]


SPACES = [
    Discrete(3),
    Discrete(3, start=-1),
    MultiDiscrete([3, 2]),
    MultiDiscrete([3, 2], start=[-2, 1]),
    Box(-1, 2, (2,)),
]
GIVEN: list[Any] = [
    [np.int64(1), np.int64(1)], [np.int64(2), np.int64(3)], [np.int64(-1), np.int64(0)], [1, True], [np.int32(1), 1],
    [np.array([1, 1]), np.array([0, 1])], [np.array([0, 1]), np.array([-2, 2])], [np.array([2, 1]), np.array([2, 2])],
    [np.array([1]), np.array([1, 1, 1])], [[1, 1], (0, 1)], [np.array([1, 1]), np.array([0, 1], np.int32)],
    [np.array([1.0, 1.0]), np.array([0.0, 1.0])], [np.array([1, 2.5], np.float32), np.array([0, -1], np.float32)],
    [np.array([1, 2], np.float32), np.array([0, np.nan], np.float32)], [np.array([1, 2], np.float32)] * 2,
    [np.array([-2, 1]), np.array([0, 2])],
    ["01", "11"], [None, None], [np.array(1), np.array(1)], [np.int64(1)] * 3, [],
    [{0: 1, 1: 1}] * 2,
]  # fmt: skip


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_quick_checks_accept_what_the_check_of_arrays_does(space: Any) -> None:
    role = Role("agent", 2, Layout(x=(1, 0, 1)), space)
    taken = 0
    for given in GIVEN:
        actions = copy.deepcopy(Actions(role, 2))
        try:
            wanted = role.check(given, (1, 2), each=True)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                actions.take(given)
            continue
        actions.take(given)
        np.testing.assert_array_equal(actions.array, wanted)
        taken += 1
    assert taken >= 2
