"""What the interfaces do beyond what `taciturn.testing.interfaces` checks of every world: info, seats, parameters,
masks."""

import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pettingzoo
import pytest
import worlds as tiny
from cases import CASES, MADE, ONE_ROLE

from taciturn import registry
from taciturn.envs.core import AECView, ControlledAgent, ParallelView, SingleEnv, World, fields
from taciturn.policies import PPCL
from taciturn.testing.cases import by_agent, holds, named, random_actions
from taciturn.validation import Bools
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Blocks,
    Budget,
    Byzantine,
    Churn,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LossyChannel,
    Memoized,
    MessageLimit,
    NoPrivacy,
    Scheduled,
    Stragglers,
    TreeAggregation,
    UnaryEncoding,
)
from taciturn.wrappers.channels import as_described, described
from taciturn.wrappers.sb3 import RowsVecEnv


@dataclass(frozen=True)
class Parity(tiny.Opinions):
    even: Bools = fields.public()


def forget(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    state.even = state.time % 2 == 0
    return tiny.sway(state, arrays, params, rng, reward)


class Forgetful(tiny.Consensus):
    """Does not tell the time at every step."""

    state_type = Parity
    info_valid_if: ClassVar[dict[str, str]] = tiny.Consensus.info_valid_if | {"time": "even"}
    functions = tiny.Consensus.functions._replace(receive=forget)


def test_what_a_turn_leaves_out_is_filled_in() -> None:
    population = World(Forgetful, tiny.Params).population(2)
    population.reset(seed=0)
    for time in range(1, 5):
        info = population.step(np.zeros((2, 4), np.int64)).info
        told = time % 2 == 0
        assert info["_time"].tolist() == [told] * 2
        assert info["time"].tolist() == [time if told else 0] * 2


def test_gossips_pettingzoo_forms_say_who_acts() -> None:
    for name in ("gossip", "gossip_bandit_v0"):
        env, rng = CASES[name].parallel_env(), np.random.default_rng(0)
        _, infos = env.reset(seed=0)
        for _ in range(30):
            (acting,) = (agent for agent, info in infos.items() if info["acting"])
            assert env.population.acting("agent")[0, 0] == env.possible_agents.index(acting)  # type: ignore[index]
            _, rewards, *_, infos = env.step(by_agent(random_actions(env.population, rng)))
            assert not any(reward for agent, reward in rewards.items() if agent != acting)
            if not env.agents:
                _, infos = env.reset()
        aec = CASES[name].env()
        aec.reset(seed=0)
        assert [agent for agent, info in aec.infos.items() if info["acting"]] == [aec.agent_selection]


# Spaces and pictures.


def test_everything_that_can_stand_on_a_channel_has_a_plain_form() -> None:
    class Own(LossyChannel):
        pass

    everything = [
        BitwiseRandomizedResponse(1.0),
        KaryRandomizedResponse(1.0, 4),
        UnaryEncoding(1.0, "symmetric"),
        Laplace(1.0, sensitivity=2.0),
        Gaussian(1.0, 1e-5),
        Exponential(0.5),
        TreeAggregation(1.0, 8),
        Blocks(1.0),
        NoPrivacy(),
        Memoized(BitwiseRandomizedResponse(1.0)),
        Scheduled(BitwiseRandomizedResponse(1.0), at=7),
        Byzantine(0.2, "constant", (0.0, 2.0)),
        Churn(0.1, 0.2),
        LossyChannel(0.1),
        MessageLimit(2),
        Stragglers((0.5, 0.2)),
        Budget(3.0, 1e-6, method="zcdp"),
    ]
    for one in everything:
        assert as_described(json.loads(json.dumps(described(one), allow_nan=False))) == one
    assert described(Own(0.1))["name"].endswith("_has_a_plain_form.<locals>.Own")
    assert as_described({"name": "taciturn.privacy.calibrated_noise:Laplace", "epsilon": 1.0}) == Laplace(1.0)


# One agent's seat.


def test_a_seat_waits_for_its_turn_in_every_replica() -> None:
    """Replicas tick at different times: at each step it is the agent's turn in all of them, and who waits is not
    charged."""
    env: Any = gymnasium.make_vec(
        "taciturn/GossipBandit-v0", num_envs=20, others="PPCL", agent=3, **CASES["gossip_bandit_v0"].params
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    inner, ended = env.unwrapped.population.inner, np.zeros(20, np.bool_)
    for _ in range(60):
        assert (inner.state.ticker[~inner.done, 0] == 3).all()
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        assert not terminated.any()
        assert (info["messages"] == 6 * (inner.state.ticks + ~inner.done)).all()
        ended |= truncated
    assert ended.all()


def test_a_seat_says_what_it_cannot_be() -> None:
    make = partial(gymnasium.make, "taciturn/GossipBandit-v0")
    with pytest.raises(
        ValueError, match=r"gossip_bandit_v0 has many agents: give others=.* or use .*gossip_bandit_v0\.parallel_env"
    ):
        make()
    with pytest.raises(ValueError, match="agent must be an integer >= 0 and <= 399, not 400"):
        make(others="PPCL", agent=400)
    with pytest.raises(ValueError, match="unknown policy 'PPCI': did you mean PPCL"):
        make(others="PPCI")
    with pytest.raises(ValueError, match="a policy without memory in 2 replicas of gossip_bandit_v0, not IsolatedUCB"):
        gymnasium.make_vec("taciturn/GossipBandit-v0", num_envs=2, others="IsolatedUCB")
    with pytest.raises(ValueError, match="horizon must be long enough for agent_3 to act, not 1e-06"):
        make(others="PPCL", agent=3, horizon=1e-6).reset(seed=0)
    # A run without a tick of the agent is drawn again.
    env = make(others="PPCL", agent=3, num_agents=6, horizon=0.5)
    for seed in range(20):
        env.reset(seed=seed)
        env.step(env.action_space.sample())
    with pytest.raises(ValueError, match="population must have no turns, and auction has: use Controlled"):
        ControlledAgent(CASES["auction"].population(), "individual", 0, {})


# Parameters.


def test_an_unknown_parameter_is_a_type_error_and_names_the_nearest() -> None:
    """TorchRL looks for a TypeError with these words, and the rest of the suite for a ValueError."""
    for entry in registry.WORLDS:
        world, (first, *_) = entry.world, entry.world.parameters
        policy: dict[str, Any] = {"others": entry.others} if entry.others else {}
        wrong: dict[str, Any] = {f"{first}x": 3}
        said = f"unexpected keyword argument '{first}x': did you mean '{first}'"
        ways: list[Callable[..., Any]] = [
            world.population,
            world.parallel_env,
            world.env,
            partial(gymnasium.make, entry.id, **policy),
            partial(gymnasium.make_vec, entry.id, num_envs=2, **policy),
        ]
        if hasattr(pettingzoo, "make"):
            ways += [partial(pettingzoo.make, kind, entry.id) for kind in ("parallel", "aec")]
        for way in ways:
            for kind in (TypeError, ValueError):
                with pytest.raises(kind, match=said):
                    way(**wrong)
    for one, nearest in ((PPCL, None), (Laplace, "epsilon"), (LossyChannel, "probability"), (Budget, "epsilon")):
        wrong = {f"{nearest}x": 1.0}
        for kind in (TypeError, ValueError):
            with pytest.raises(
                kind,
                match=f"{one.__name__} got an unexpected keyword argument .*" + (f"'{nearest}'" if nearest else ""),
            ):
                one(**wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'epsilon'") as error:
        Laplace()  # type: ignore[call-arg]
    assert not isinstance(error.value, ValueError)
    assert list(inspect.signature(Laplace).parameters) == ["epsilon", "sensitivity", "sampler"]
    with pytest.raises(TypeError, match=r"elicitation got an .* 'individual': did you mean 'individuals'"):
        gymnasium.make("taciturn/Elicitation-v0", individual="Truthful")


@pytest.mark.api
def test_gymnasium_makes_a_world_without_import() -> None:
    code = "import gymnasium; print(gymnasium.make('taciturn:taciturn/RoundStopping-v0').reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(5,)\n", "")


# Masks.


def test_masks_are_claimed_where_actions_are_finite() -> None:
    """Of MultiDiscrete actions those of all dimensions one after another; for Box actions sb3-contrib must not find
    any."""
    supported = pytest.importorskip("sb3_contrib.common.maskable.utils").is_masking_supported
    vec = pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv
    rows = pytest.importorskip("taciturn.wrappers.sb3").RowsVecEnv
    met = set()
    for name in ONE_ROLE:
        env = rows(CASES[name].population(2), seed=0)
        env.reset()
        space = env.action_space
        met.add(type(space))
        assert supported(env) is not isinstance(space, gymnasium.spaces.Box)
        if supported(env):
            size = space.nvec.sum() if isinstance(space, gymnasium.spaces.MultiDiscrete) else space.n
            masks = env.action_masks()
            assert (masks.shape, masks.dtype) == ((env.num_envs, size), np.bool_)
            assert (np.stack(env.env_method("action_masks")) == masks).all()
    for name in MADE:
        made = CASES[name].make()
        box = isinstance(made.action_space, gymnasium.spaces.Box)
        assert supported(made) is not box
        assert supported(vec([lambda made=made: made])) is not box
    assert met == {gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete}


def test_masks_can_be_asked_for_from_another_process() -> None:
    env: Any = CASES["corridor"].single_env()
    env.reset(seed=0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(env.action_masks))(), env.action_masks())


def test_a_masked_action_does_nothing() -> None:
    population = CASES["corridor"].population(num_envs=50)
    population.reset(seed=0)
    met = 0
    while not population.done.all():
        place = population.state.place
        mask = population.action_mask("walker")
        assert mask is not None
        masked = (mask[:, 0, 0] == 0) & ~population.done
        met += int(masked.sum())
        population.step(np.zeros((50, 1), np.int64))
        np.testing.assert_array_equal(population.state.place[masked], place[masked])
    assert met > 50


def test_masks_are_in_every_info() -> None:
    case = CASES["corridor"]
    for _, info in (case.single_env().reset(seed=0), case.single_env().reset(seed=1)):
        assert info["action_mask"].dtype == np.int8
    vector = case.vector_env(num_envs=3, autoreset_mode="SameStep")
    infos = [vector.reset(seed=0)[1]] + [vector.step(np.full(3, 2))[4] for _ in range(20)]
    for info in infos:
        assert info["action_mask"].shape == (3, 3)
    assert any("action_mask" in info.get("final_info", {}) for info in infos)
    parallel_env = case.parallel_env()
    assert parallel_env.reset(seed=0)[1]["walker_0"]["action_mask"].tolist() == [1, 1, 1]
    assert parallel_env.step({"walker_0": 2})[4]["walker_0"]["action_mask"].dtype == np.int8


def test_views_refuse_what_they_cannot_show() -> None:
    with pytest.raises(ValueError, match="SingleEnv needs a population of one agent, not 4 x agent"):
        CASES["consensus"].single_env()
    with pytest.raises(ValueError, match="VectorView needs a population of one agent, not 1 x platform, 4 x individ"):
        CASES["auction"].vector_env()
    for view in (SingleEnv, ParallelView, AECView):
        with pytest.raises(ValueError, match="needs a population of one replica, but num_envs is 2"):
            view(CASES["corridor"].population(num_envs=2))


def test_an_agent_that_a_caller_took_from_the_list_is_still_asked_for() -> None:
    env = CASES["consensus"].parallel_env()
    env.reset(seed=0)
    env.agents.remove("agent_1")
    with pytest.raises(ValueError, match="an action for every live agent, but 'agent_1' is missing"):
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})


@pytest.mark.parametrize("make", ["single_env", "vector_env", "parallel_env", "env"])
def test_a_seed_may_be_of_numpys_integers(make: str) -> None:
    env: Any = getattr(CASES["corridor"], make)()
    told = [env.reset(seed=seed) or env.last()[::4] for seed in (3, np.int64(3), np.uint8(3))]
    assert repr(told[0]) == repr(told[1]) == repr(told[2])


def test_a_wrong_shape_is_told_as_it_was_given() -> None:
    env: Any = CASES["corridor"].single_env()
    env.reset(seed=0)
    parallel, aec = CASES["consensus"].parallel_env(), CASES["consensus"].env()
    parallel.reset(seed=0)
    aec.reset(seed=0)
    vector: Any = CASES["corridor"].vector_env(num_envs=3)
    vector.reset(seed=0)
    rows = RowsVecEnv(CASES["consensus"].population(2), seed=0)
    rows.reset()
    one = np.array(parallel.action_space("agent_0").sample())
    told = f"action of role 'agent' must have shape {one.shape}, not {(1, *one.shape)}"
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: env.step([0]), "action of role 'walker' must have shape (), not (1,)"),
        (lambda: env.step(7), "but action is 7"),
        (lambda: parallel.step({agent: [one] for agent in parallel.agents}), told),
        (lambda: aec.step([one]), told),
        (lambda: vector.step([[0], [0], [0]]), "actions must have shape (3,), not (3, 1)"),
        (lambda: vector.step(0), "actions must have shape (3,), not ()"),
        (lambda: rows.step(np.zeros((2, 4))), f"actions must have shape {(8, *one.shape)}, not (2, 4)"),
    ]
    for step, told in wrong:
        with pytest.raises(ValueError, match=re.escape(told)):
            step()


class Skips(pettingzoo.utils.BaseParallelWrapper[str, Any, Any]):  # type: ignore[misc]
    """As SuperSuit's `frame_skip_v0` does it: how often an action is repeated is drawn from the environment's own
    random numbers."""

    def step(self, actions: dict[str, Any]) -> Any:
        for _ in range(int(self.env.unwrapped.np_random.integers(1, 3))):
            found = super().step(actions)
            if not self.agents:
                break
        return found


@pytest.mark.parametrize("name", CASES)
def test_wrappers_find_random_numbers_that_follow_the_seed(name: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        env = wrap(CASES[name].parallel_env())
        env.reset(seed=3)
        draws = [env.unwrapped.np_random.random() for _ in range(3)]
        actions = {agent: CASES[name].parallel_env().action_space(agent) for agent in env.agents}
        for space in actions.values():
            space.seed(0)
        return [draws, *(env.step({agent: space.sample() for agent, space in actions.items()})[:2] for _ in range(2))]

    assert str(run(Skips)) == str(run(Skips))
    aec = CASES[name].env()
    aec.reset(seed=3)
    assert aec.unwrapped.np_random.random() == run(Skips)[0][0]


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_meaning_yet_is_zero_or_says_none(name: str) -> None:
    """As in Gymnasium's infos of vectors; -1 stands for no option and no agent."""
    population = CASES[name].population(2)
    info = population.reset(seed=0)[1]
    for key in named(info):
        if not holds(info, key, 2).any():
            values = info[key].values() if isinstance(info[key], dict) else [info[key]]
            for value in map(np.asarray, values):
                assert (value == 0).all() or ((value == -1).all() and value.dtype.kind == "i"), key
