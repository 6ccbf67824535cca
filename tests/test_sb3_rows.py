"""Rows for Stable-Baselines3: what each row is told belongs to it, also where replicas end at different times, and
seeds are used once.

The world here is deterministic: every number that a row sees says which replica, which agent and which step it belongs
to.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Array, Functions, Layout, Replicas, Role, World, fields, fill, integer
from taciturn.validation import Bools, Floats, Ints

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.vec_env import VecVideoRecorder

from taciturn.wrappers.sb3 import RowsVecEnv

REPLICAS, AGENTS = 4, 3
LENGTHS = np.array([2, 5, 3, 5])  # of the episodes of each replica
CUT = np.array([False, True, True, False])  # whether they are truncated


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = AGENTS
    horizon: int = 10

    def __post_init__(self) -> None:
        integer("horizon", self.horizon, at_least=1)


@dataclass(frozen=True)
class Tagged:
    replica: Ints = fields.public()
    length: Ints = fields.hidden()  # of this replica's episodes,
    cut: Bools = fields.hidden()  # and whether they are truncated
    time: Ints = fields.public()
    luck: Floats = fields.own(lambda p: p.num_agents)  # drawn at reset


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    fill(arrays.luck, rng, 0)


def act(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    state.time += 1
    for agent in range(params.num_agents):
        arrays.reward[agent] = 100.0 * state.replica + 10 * agent + state.time + actions[agent] / 10


def end(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = state.time >= state.length
    return over and not state.cut, over and state.cut


def observe(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1], out[2], out[3] = seen.replica, seen.agent, seen.time, seen.luck


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    info.ended_after = state.time


class Tags(Replicas[Tagged]):
    """Agents observe replica, agent, time and luck; they earn 100 replica + 10 agent + time + action / 10."""

    name = "tags"
    params: Params
    state_type, sources = Tagged, ("luck",)
    functions = Functions(reset=begin, act=act, receive=end, observe=observe, info=fill_info)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(replica=(1, 0, 9), agent=(1, 0, 9), time=(1, 0, 99), luck=(1, 0, 1))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(5)),)

    def on_reset(self, where: Array) -> None:
        tags = {"replica": np.arange(self.num_envs), "length": LENGTHS, "cut": CUT}
        for name, values in tags.items():
            self.column(name)[where] = values[: self.num_envs][where]

    def empty_info(self) -> dict[str, Any]:
        return {"ended_after": 0}

    def action_mask(self, role: str) -> Array | None:
        """In replica r agent i may not take action (r + i) mod 5."""
        size, agents = self.num_envs, self.params.num_agents
        mask = np.ones((size, agents, 5), np.int8)
        replica, agent = np.indices((size, agents))
        mask[replica, agent, (replica + agent) % 5] = 0
        return mask


tags_v0 = World(Tags, Params)


def rows() -> RowsVecEnv:
    return RowsVecEnv(tags_v0.population(REPLICAS), seed=5)


def test_every_row_is_told_what_is_its_own() -> None:
    """Twelve steps, in which replicas end in turn: observations, rewards, ends and their infos, row by row."""
    env = rows()
    before: Any = env.reset()
    time, ends = np.zeros(REPLICAS, int), 0
    lucks = [before[:, 3].copy()]
    for step in range(12):
        actions = (np.arange(12) + step) % 5
        stepped: Any = env.step(actions)
        after, reward, done, infos = stepped
        time += 1
        ended = time == LENGTHS
        for row in range(12):
            replica, agent = divmod(row, AGENTS)
            assert reward[row] == np.float32(100 * replica + 10 * agent + time[replica] + actions[row] / 10)
            assert bool(done[row]) is bool(ended[replica])
            shown = after[row]
            assert shown[:3].tolist() == [replica, agent, 0 if ended[replica] else time[replica]]
            if not ended[replica]:
                assert infos[row] == {"ended_after": time[replica], "TimeLimit.truncated": False}
                assert shown[3] == before[row, 3]
                continue
            ends += 1
            last = infos[row]["terminal_observation"]
            assert last[:3].tolist() == [replica, agent, LENGTHS[replica]]
            assert last[3] == before[row, 3]
            assert infos[row]["TimeLimit.truncated"] is bool(CUT[replica])
            assert infos[row]["ended_after"] == LENGTHS[replica]
            assert shown[3] != before[row, 3]
        time[ended] = 0
        before = after
        lucks.append(after[:, 3].copy())
    assert ends == AGENTS * (6 + 2 + 4 + 2)
    # Every episode of every row had luck of its own.
    assert len(np.unique(np.concatenate(lucks))) == 12 + ends


def test_masks_are_those_of_the_rows() -> None:
    env = rows()
    env.reset()
    masks = env.action_masks()
    for row in range(12):
        replica, agent = divmod(row, AGENTS)
        assert np.flatnonzero(~masks[row]).tolist() == [(replica + agent) % 5]
        np.testing.assert_array_equal(env.env_method("action_masks", indices=[row])[0], masks[row])
        np.testing.assert_array_equal(env.get_attr("action_masks", indices=[row])[0](), masks[row])


def luck(env: RowsVecEnv) -> Array:
    observation: Any = env.reset()
    return np.asarray(observation[:, 3]).copy()


def test_methods_and_attributes_heed_indices(tmp_path: Path) -> None:
    rows = RowsVecEnv(round_stopping_v0.population(2, num_clients=5, horizon=9.0), seed=0)
    rows.reset()
    assert rows.render_mode == "rgb_array"
    if importlib.util.find_spec("moviepy") is not None:
        VecVideoRecorder(rows, str(tmp_path), lambda step: False)
    assert rows.env_method("observe", indices=1)[0].shape[0] == 2
    with pytest.raises(ValueError, match="indices must be all rows for 'reset', which changes all, not"):
        rows.env_method("reset", indices=[1])
    with pytest.raises(ValueError, match="indices must be numbers of rows, from 0 to 1, not"):
        rows.get_attr("params", indices=[2])
    assert rows.get_attr("render_mode") == ["rgb_array"] * 2
    assert rows.env_method("render", indices=1)[0].dtype == np.uint8
    with pytest.raises(AttributeError, match="params cannot be set"):
        rows.set_attr("params", None)
    infos = rows.step(np.array([0, 1]))[3]
    assert len({id(info) for info in infos}) == 2


def test_a_seed_holds_for_one_reset() -> None:
    """The seed of the constructor, and that of `seed`, begin one run; the resets that follow go on, and a run can be
    repeated."""
    env, again = rows(), rows()
    runs = [luck(env) for _ in range(3)]
    assert len(np.unique(runs)) == 36
    np.testing.assert_array_equal(runs, [luck(again) for _ in range(3)])
    env.seed(8)
    later = [luck(env) for _ in range(3)]
    assert len(np.unique([*runs, *later])) == 72
    again.seed(8)
    np.testing.assert_array_equal(later, [luck(again) for _ in range(3)])


def test_options_of_a_reset_hold_for_one_reset() -> None:
    env = rows()
    env.set_options({"horizon": 7})
    env.reset()
    assert env.population.params.horizon == 7
    env.reset()
    assert env.population.params.horizon == 10
