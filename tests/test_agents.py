"""Agents from outside act as the policies do: functions, models of learning libraries, and the files that these have
saved."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from cases import CASES, platform_side
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.vec_env import VecNormalize
from tensordict.nn import TensorDictModule, TensorDictSequential

import taciturn
from taciturn.agents import bring, bring_all, saved_at
from taciturn.envs import elicitation_v0, federated_bandit_v0, gossip_bandit_v0, round_stopping_v0
from taciturn.envs.core import Array, Population
from taciturn.policies import PPCL, FixedCount, OptimalStopping, Policy
from taciturn.policies.external.rows import Predictor, RowFunction
from taciturn.registry import UnknownName
from taciturn.wrappers.sb3 import RowsVecEnv

STOPPING: dict[str, Any] = {"num_clients": 6, "slot_time": 0.1, "horizon": 20.0}


def stopping(num_envs: int = 3) -> Population[Any]:
    return round_stopping_v0.population(num_envs, **STOPPING)


def rate(agent: Any, env: Population[Any] | None = None, **others: Any) -> list[float]:
    found = taciturn.simulate(env or stopping(), agent, seed=4, **others).metrics
    return [float(x) for x in found["rate" if "rate" in found else "regret"]]


def until_three(rows: Array) -> Array:
    return (rows[:, 0] < 3).astype(np.int64)


class Three(Policy):
    """Waits for a number of updates."""

    def __init__(self, k: int = 3) -> None:
        self.k = k

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return (obs[..., 0] < self.k).astype(np.int64)


class Predicts:
    """The least that has `predict`."""

    def predict(self, observation: Array) -> Array:
        return until_three(observation)


@pytest.mark.parametrize(
    "agent", [until_three, Predicts(), Three, Three(), "test_agents:Three", "test_agents:until_three"]
)
def test_whatever_acts_is_played(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_agents", sys.modules[__name__])
    assert rate(agent) == rate(FixedCount(3))


def test_parameters_are_for_names_and_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_agents", sys.modules[__name__])
    assert [one.k for one in (bring(Three, k=5), bring("test_agents:Three", k=5), bring("FixedCount", k=5))] == [
        5,
        5,
        5,
    ]
    for agent in (Three(), until_three, Predicts()):
        with pytest.raises(ValueError, match=r"policy must be a name or a class to take \{'k': 5\}"):
            bring(agent, k=5)
    unknown: list[dict[str, Any]] = [{"j": 1}, {"k": 1, "l": 2}]
    for given in unknown:
        with pytest.raises(ValueError, match=r"Three got an unexpected keyword argument .*: it has k"):
            bring(Three, **given)
    assert bring_all({"a": Three, "b": Three}).keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("PPCLL", "unknown policy 'PPCLL': did you mean PPCL"),
        ("nowhere:Agent", "there is no module 'nowhere'"),
        ("math:nothing", "module:name must be a name that the module has, not 'math:nothing'"),
        ("math:pi", "or an object with predict\\(\\), not 3.14"),
        (7, "a policy, its name or class, a function of observations or an object with predict\\(\\), not 7"),
        (np.random.Generator, r"Generator needs bit_generator: write Generator\(bit_generator=...\), or --set policy"),
        ("sb3:nowhere.zip", "must name a model.zip of Stable-Baselines3, and there is none at 'nowhere.zip'"),
        ("onnx:nowhere.onnx", "must name an ONNX file, and there is none at 'nowhere.onnx'"),
    ],
)
def test_what_does_not_act_is_refused_before_the_run(agent: Any, message: str) -> None:
    env = stopping()
    env.reset(seed=9)
    state = env.state
    with pytest.raises((ValueError, UnknownName), match=message):
        taciturn.simulate(env, agent, seed=0)
    assert env.state is state


def test_saved_agents_are_found_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "agent").mkdir()
    (tmp_path / "model.zip").touch()
    assert saved_at("~/agent") == tmp_path / "agent"
    assert saved_at("sb3:~/model.zip") == tmp_path / "model.zip"
    for name in ("~/model.zip", Path("~/model.zip"), tmp_path / "model.zip"):
        with pytest.raises(ValueError, match=f"policy must say what .* is: sb3:{tmp_path}/model.zip"):
            bring(name)
    for name in ("~nobody_of_this_name/agent", Path("~nobody_of_this_name/agent"), "sb3:~nobody_of_this_name/m.zip"):
        with pytest.raises(ValueError, match="nobody_of_this_name"):
            bring(name)


def test_actions_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"policy must give actions of shape \(3,\), one for each row, not \(2,\)"):
        rate(lambda rows: np.zeros(2, np.int64))


def first_open(rows: Array, masks: Array) -> Array:
    return masks.argmax(1)


class FirstOpen:
    """The same with `predict`."""

    def predict(self, observation: Array, action_masks: Array | None = None) -> tuple[Array, None]:
        assert action_masks is not None
        assert action_masks.dtype == np.bool_
        return action_masks.argmax(1), None


def walked(agent: Any) -> list[float]:
    """What an agent earns in a corridor, where moving left is masked at the left end."""
    env = CASES["corridor"].population(6)
    run = taciturn.simulate(env, agent, seed=2)
    return [float(x) for x in run.metrics["earned"]]


def test_masks_are_shown_to_those_that_ask() -> None:
    def left(rows: Array) -> Array:
        return np.where(rows[:, 0] == 1, 1, 0)  # at the left end, stay

    assert walked(first_open) == walked(FirstOpen()) == walked(left)
    assert walked(left) != walked(lambda rows: np.full(len(rows), 2))


def made(algorithm: Any, env: Population[Any], policy: str = "MlpPolicy", **others: Any) -> Any:
    return algorithm(policy, RowsVecEnv(env, seed=0), seed=3, device="cpu", **others)


@pytest.mark.parametrize(
    ("algorithm", "policy", "others"),
    [
        (PPO, "MlpPolicy", {}),
        (A2C, "MlpPolicy", {"policy_kwargs": {"net_arch": [5]}}),
        (DQN, "MlpPolicy", {}),
        (RecurrentPPO, "MlpLstmPolicy", {}),
    ],
    ids=["PPO", "A2C", "DQN", "RecurrentPPO"],
)
@pytest.mark.parametrize("saved", [False, True])
def test_models_of_stable_baselines_act_as_by_hand(
    algorithm: Any, policy: str, others: Any, saved: bool, tmp_path: Path
) -> None:
    model, env = made(algorithm, stopping(), policy, **others), stopping()
    env.reset(seed=4)
    state, start, actions = None, np.ones(3, np.bool_), []
    while not env.done.all():
        action, state = model.predict(env.observe()[:, 0], state=state, episode_start=start, deterministic=True)
        env.step(action[:, None])
        actions.append(action)
        start = np.zeros(3, np.bool_)
    assert len(np.unique(np.concatenate(actions))) == 2 or len(actions) > 3
    model.save(tmp_path / "model.zip")
    agent = f"sb3:{tmp_path}/model.zip" if saved else model
    assert rate(agent) == [float(x) for x in env.metrics()["rate"]]
    # Other runs begin anew, also with other numbers of rows.
    again = bring(agent)
    assert len(rate(again, stopping(5))) == 5
    assert rate(again) == rate(again) == rate(agent)


def test_continuous_actions_and_masks(tmp_path: Path) -> None:
    model = made(SAC, platform_side(2, num_individuals=4))
    model.save(tmp_path / "sac.zip")
    env = platform_side(2, num_individuals=4)
    for agent in (model, f"sb3:{tmp_path}/sac.zip"):
        run = taciturn.simulate(env, agent, seed=0)
        assert np.isfinite(run.metrics["payment"]).all()
    bandit = federated_bandit_v0.population(2, num_agents=3, num_arms=4, horizon=10)
    masked = made(MaskablePPO, bandit, n_steps=8, batch_size=8)
    masked.save(tmp_path / "masked.zip")
    one, other = (taciturn.simulate(bandit, agent, seed=0) for agent in (masked, f"sb3:{tmp_path}/masked.zip"))
    np.testing.assert_array_equal(one.metrics["regret"], other.metrics["regret"])


def test_the_statistics_of_training_are_used(tmp_path: Path) -> None:
    """A model that saw normalised observations sees them again, whether it comes as an object or from its folder."""
    rows = VecNormalize(RowsVecEnv(stopping(), seed=0))
    model = PPO("MlpPolicy", rows, n_steps=64, batch_size=64, seed=0, device="cpu")
    model.learn(400)
    model.save(tmp_path / "model.zip")
    with pytest.raises(ValueError, match=r"model\.zip: policy must come with the statistics of its training"):
        bring(f"sb3:{tmp_path}/model.zip")
    with pytest.raises(ValueError, match="policy must come with the statistics of its training"):
        bring(PPO.load(tmp_path / "model.zip"))
    plain = rate(bring(f"sb3:{tmp_path}/model.zip", normalize=False))
    rows.save(str(tmp_path / "vecnormalize.pkl"))
    beside = rate(f"sb3:{tmp_path}/model.zip")
    rows.training = False
    assert beside == rate(model)
    moved = tmp_path / "elsewhere.pkl"
    (tmp_path / "vecnormalize.pkl").rename(moved)
    assert rate(bring(f"sb3:{tmp_path}/model.zip", normalize=str(moved))) == beside
    seen: list[Array] = []
    rate(Predictor(SeesAll(seen), normalize=rows.normalize_obs))
    first = stopping().reset(seed=4)[0][:, 0]
    np.testing.assert_array_equal(seen[0], rows.normalize_obs(first))
    assert not np.array_equal(seen[0], first)
    assert plain != beside
    # Of the model, by its name or a callback's, and of another one.
    for name, statistics in (
        ("model", "model_vecnormalize.pkl"), ("ppo_400_steps", "ppo_vecnormalize_400_steps.pkl"),
        ("best", "vec_normalize.pkl"),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / f"{name}.zip")
        shutil.copy(moved, tmp_path / name / statistics)
        assert rate(f"sb3:{tmp_path / name / name}.zip") == beside


def moments(mean: Any, var: Any, **changes: Any) -> Any:
    """The statistics of a VecNormalize, without an environment."""
    found: Any = VecNormalize(RowsVecEnv(stopping(), seed=0))
    found.obs_rms.mean, found.obs_rms.var = np.array(mean), np.array(var)
    vars(found).update(changes)
    return found


def test_statistics_are_the_models_own(tmp_path: Path) -> None:
    """A model that saw plain observations does without those of another one; one that saw normalised ones is refused
    with them."""
    (role,) = stopping().roles.values()
    space = role.layout.space()
    far, size = np.full(space.shape, 1e6), np.ones(space.shape)
    model = made(PPO, stopping(), n_steps=4, batch_size=4)
    model.learn(4)
    model.save(tmp_path / "plain.zip")
    plain = rate(model)
    model._last_obs = model._last_obs * 0 - 1
    model.save(tmp_path / "normal.zip")
    moments(far, size).save(str(tmp_path / "vecnormalize.pkl"))
    assert rate(f"sb3:{tmp_path}/plain.zip") == plain
    with pytest.raises(ValueError, match=r"normal\.zip must come with its own statistics: without"):
        bring(f"sb3:{tmp_path}/normal.zip")
    for name in ("plain", "normal"):
        with pytest.raises(ValueError, match=rf"{name}\.zip must come with its own statistics: without"):
            bring(f"sb3:{tmp_path}/{name}.zip", normalize=tmp_path / "vecnormalize.pkl")
    moments([0.0, 1.0], [1.0, 1.0]).save(str(tmp_path / "vecnormalize.pkl"))
    assert rate(f"sb3:{tmp_path}/plain.zip") == plain
    with pytest.raises(ValueError, match=r"has statistics of shape \(2,\), and the model observes \(5,\)"):
        bring(f"sb3:{tmp_path}/normal.zip")
    # Rewards alone were normalised.
    found = VecNormalize(RowsVecEnv(stopping(), seed=0), norm_obs=False)
    found.save(str(tmp_path / "vecnormalize.pkl"))
    assert rate(f"sb3:{tmp_path}/plain.zip") == plain
    with pytest.raises(ValueError, match="statistics of its training"):
        bring(f"sb3:{tmp_path}/normal.zip")


def test_what_a_model_draws_follows_the_seed_of_the_run(tmp_path: Path) -> None:
    made(PPO, stopping()).save(tmp_path / "model.zip")
    agents = [bring(f"sb3:{tmp_path}/model.zip", deterministic=False) for _ in range(2)]
    before = torch.get_rng_state()
    one, again, repeated = map(rate, (*agents, agents[0]))
    assert one == again == repeated
    assert torch.equal(before, torch.get_rng_state()), "nobody else's numbers are drawn"
    assert taciturn.simulate(stopping(), agents[0], seed=5).metrics["rate"].tolist() != one


def test_a_space_without_bounds_is_not_an_environments_own() -> None:
    """As that of Gymnasium's NormalizeObservation."""
    model = made(PPO, stopping())
    model.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, model.observation_space.shape)
    with pytest.raises(ValueError, match="statistics of its training"):
        bring(model)
    bring(Predictor(model, normalize=lambda rows: rows))
    bring(Predictor(model, normalize=False))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("base.zip", "sb3:base.zip"), ("base", "sb3:base.zip"), ("./base.zip", "sb3:base.zip"),
        (" base.zip ", "sb3:base.zip"),
        ("net.onnx", "onnx:net.onnx"), ("actor.pt", "torchrl:actor.pt"), ("nowhere.zip", "sb3:nowhere.zip"),
        ("mine.py", "mine:NAME, of a class or function in it"), ("mine", "mine:NAME"),
    ],
)  # fmt: skip
def test_a_files_name_alone_is_answered_with_what_to_write(
    name: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("base.zip", "mine.py"):
        Path(file).write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"policy must say what {name.strip()!r} is: {wanted}")):
        bring(name)


def test_names_are_read_without_spaces_around_them_and_models_without_their_ending(tmp_path: Path) -> None:
    made(PPO, stopping()).save(tmp_path / "model.zip")
    assert isinstance(bring(" PPCL"), PPCL)
    assert rate(f"sb3: {tmp_path}/model") == rate(f"sb3:{tmp_path}/model.zip")


class SeesAll:
    """Keeps what it is shown."""

    def __init__(self, seen: list[Array]) -> None:
        self.seen = seen

    def predict(self, observation: Array, deterministic: bool = False) -> tuple[Array, None]:
        self.seen.append(observation)
        return np.zeros(len(observation), np.int64), None


def test_a_model_for_other_spaces_is_refused() -> None:
    model = made(PPO, stopping())
    message = (
        r"policy must have the spaces of role 'agent' of 'gossip_bandit', which observes and acts in Box\(.*\) and "
        r"MultiDiscrete.*; it was made for Box\(.*\) and Discrete\(2\)"
    )
    with pytest.raises(ValueError, match=message):
        taciturn.simulate(gossip_bandit_v0.population(), model, seed=0)
    # Only the upper bounds of its observations are others: another number of clients.
    rate(model, round_stopping_v0.population(2, num_clients=50, slot_time=0.1, horizon=20.0))


def linear(weights: Array, path: Path) -> str:
    """An ONNX file that multiplies rows by `weights`."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    size, actions = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["scores"])],
        "linear",
        [helper.make_tensor_value_info("rows", kind, ["n", size])],
        [helper.make_tensor_value_info("scores", kind, ["n", actions])],
        [helper.make_tensor("weights", kind, weights.shape, weights.ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return f"onnx:{path}"


# Scores of 'stop' and 'wait': updates received, and 2.5 slots' worth of nothing.
WEIGHTS = np.array([[1, 0], [0, 0], [0, 0], [0, 0], [0, 0.1]], np.float32)


def by_weights(rows: Array) -> Array:
    return (rows @ WEIGHTS).argmax(1)


def test_networks_in_onnx(tmp_path: Path) -> None:
    assert rate(linear(WEIGHTS, tmp_path / "net.onnx")) == rate(by_weights)
    # All actions are worth the same: of those that the mask leaves, the first is taken.
    flat, env = bring(linear(np.zeros((7, 3), np.float32), tmp_path / "flat.onnx")), CASES["corridor"].population(2)
    flat.reset(env, np.random.default_rng(0))
    masks = np.array([[[0, 1, 1]], [[1, 0, 1]]], np.int8)
    assert flat.act(env.reset(seed=0)[0], masks).tolist() == [[1], [0]]


class Best(torch.nn.Module):
    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.argmax(-1)


def test_actors_of_torchrl(tmp_path: Path) -> None:
    network = torch.nn.Linear(5, 2, bias=False)
    network.weight.data = torch.as_tensor(WEIGHTS.T.copy())
    actor = TensorDictSequential(
        TensorDictModule(network, ["observation"], ["scores"]), TensorDictModule(Best(), ["scores"], ["action"])
    )
    torch.save(actor, tmp_path / "actor.pt")
    assert rate(bring(f"torchrl:{tmp_path}/actor.pt", trust=True)) == rate(actor) == rate(by_weights)


class Both(torch.nn.Module):
    """Scores, and something else that a library's actor gives with them."""

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, None]:
        return rows @ torch.as_tensor(WEIGHTS), None


def test_plain_networks_act() -> None:
    network = torch.nn.Linear(5, 2, bias=False)
    network.weight.data = torch.as_tensor(WEIGHTS.T.copy())
    assert rate(network) == rate(Both()) == rate(by_weights)
    assert repr(bring(network)) == "Network(Linear)"


def test_scores_of_several_choices_and_of_a_box() -> None:
    """MultiDiscrete actions have scores one after another; what lies outside a Box is moved to its edge."""
    gossip = gossip_bandit_v0.population(2, num_agents=6)
    choices = gossip.roles["agent"].action_space
    assert isinstance(choices, gymnasium.spaces.MultiDiscrete)
    first, second, third = choices.nvec.tolist()
    network = torch.nn.Linear(gossip.roles["agent"].layout.size, first + second + third)
    policy = bring(network)
    policy.reset(gossip, np.random.default_rng(0))
    seen = gossip.reset(seed=0)[0]
    with torch.no_grad():
        scores = network(torch.as_tensor(seen[:, 0])).numpy()
    wanted = [[row[:first].argmax(), row[first:-third].argmax(), row[-third:].argmax()] for row in scores]
    assert policy.act(seen)[:, 0].tolist() == wanted
    platform = CASES["platform"].population(2)
    (role,) = platform.roles.values()
    seen, space = platform.reset(seed=0)[0], role.action_space
    assert isinstance(space, gymnasium.spaces.Box)
    for bias, edge in ((1e3, space.high), (-1e3, space.low)):
        network = torch.nn.Linear(role.layout.size, space.shape[0])
        network.bias.data[:] = bias
        policy = bring(network)
        policy.reset(platform, np.random.default_rng(0))
        np.testing.assert_array_equal(policy.act(seen), np.broadcast_to(edge, (*seen.shape[:2], *space.shape)))


class First(torch.nn.Module):
    """Gives every agent of a group the action of what the first of them sees, where the mask allows it."""

    def forward(self, seen: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        assert seen.ndim == 3
        assert mask.dtype == torch.bool
        chosen = seen[:, :1, 0].long().expand(seen.shape[:2])
        return torch.where(mask.gather(-1, chosen[..., None])[..., 0], chosen, mask.long().argmax(-1))


def test_actors_of_a_group_see_all_its_agents() -> None:
    actor = TensorDictModule(First(), [("agent", "observation"), ("agent", "action_mask")], [("agent", "action")])
    env = federated_bandit_v0.population(2, num_agents=3, num_arms=4, horizon=10)
    policy = bring(actor)
    policy.reset(env, np.random.default_rng(0))
    seen, masks = env.reset(seed=0)[0], np.ones((2, 3, 8), np.int8)
    seen[:, :, 0] = [[3, 1, 1], [2, 0, 0]]
    masks[0, 2, 3] = 0
    assert policy.act(seen, masks).tolist() == [[3, 3, 0], [2, 2, 2]]
    with pytest.raises(ValueError, match=r'policy must be an actor from "observation" to "action", not from'):
        bring(TensorDictModule(First(), ["pixels", "mask"], ["action"]))


def test_the_command_line_takes_agents_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Any) -> None:
    """A module in the current folder, a saved network, and roles."""
    (tmp_path / "own_agent.py").write_text(
        "def act(rows):\n    return (rows[:, 0] < 3).astype(int)\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    printed = []
    for policy in ("own_agent:act", "FixedCount --set policy.k=3"):
        words = f"run round_stopping --set horizon=20 --set slot_time=0.1 --seeds 3 --policy {policy}"
        code, out, _ = command(*words.split())
        assert code == 0
        printed.append(out.splitlines()[1:])
    assert printed[0] == printed[1]


def test_every_role_is_brought() -> None:
    env = elicitation_v0.population(2, num_individuals=4)
    run = taciturn.simulate(env, {"platform": "Wintall", "individual": "Truthful"}, seed=0)
    assert run.metrics["payment"].shape == (2,)
    with pytest.raises(ValueError, match="policy must be a dict with the roles"):
        taciturn.simulate(env, "Wintall", seed=0)


def test_policies_are_not_wrapped() -> None:
    for policy in (PPCL(), OptimalStopping()):
        assert bring(policy) is policy
    assert isinstance(bring(until_three), RowFunction)
    assert repr(bring(until_three)) == "RowFunction(until_three)", "the same in every run"
