"""What an agent scores means something: instances are drawn at reset, and who learned one by heart gains nothing by it.

Statistical tests are seeded; each fails by chance with a probability of at most 1e-4 (|z| < 3.9).
"""

from typing import Any

import numpy as np
import pytest
from cases import platform_side

import taciturn
from taciturn.envs import (
    arm_elimination_v0,
    elicitation_v0,
    federated_bandit_v0,
    gossip_bandit_v0,
    round_stopping_v0,
    social_bandit_v0,
)
from taciturn.envs.core import Array, Population, Rollout, begin
from taciturn.envs.gossip_bandit.world import CHEN2021
from taciturn.envs.round_stopping.model import evaluate
from taciturn.policies import (
    CDPMAB,
    PPCL,
    UCB1,
    BestResponse,
    EliminationSchedule,
    FixedCount,
    OptimalStopping,
    Policy,
    Random,
    TrainedAgent,
    Voter,
    Wintall,
)
from taciturn.wrappers import BitwiseRandomizedResponse, NoPrivacy, NotPrivate, Privatize

Z = 3.9

BEST_FIRST = (0.9, 0.6, 0.3, 0.1)
WORLDS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "gossip": (gossip_bandit_v0, {"num_agents": 12, "horizon": 5.0}, "popularity_regret"),
    "social": (social_bandit_v0, {"num_agents": 12, "copies": 5, "num_options": 4, "horizon": 10}, "pseudo_regret"),
    "federated": (federated_bandit_v0, {"num_agents": 2, "num_arms": 4, "horizon": 20}, "local_regret"),
}
every_bandit = pytest.mark.parametrize("name", WORLDS)


def qualities(population: Any) -> Array:
    """The means that are drawn at reset, [B, K]."""
    found = getattr(population.state, "quality", None)
    return population.state.qualities if found is None else found.mean(1)


def z_score(values: Array) -> float:
    return float(values.mean() / (values.std(ddof=1) / len(values) ** 0.5))


class ByHeart(Policy):
    """A table over the numbers of the options: the agent tries each in many runs, and then plays the one that earned
    most."""

    def __init__(self) -> None:
        self.option = 0

    def begin(self, view: Any) -> None:
        self._space, self._arms = view.roles[self.role].action_space, getattr(view.params, "num_arms", None)

    def learn(self, world: Population[Any], options: int) -> None:
        earned = np.zeros(options)
        for k in range(options):
            self.option = k
            world.reset(seed=k)
            begin(world, dict.fromkeys(world.roles, self))
            rollout = Rollout(world, dict.fromkeys(world.roles, self))
            while not world.done.all():
                earned[k] += rollout.play().reward.sum()
        self.option = int(earned.argmax())

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        plan = np.array(self.option) if self._arms is not None else np.array([self.option, 1, 1])
        return np.broadcast_to(plan, (*obs.shape[:2], *plan.shape)).copy()


def gain_by_heart(name: str, **instance: Any) -> Array:
    """How much less a memoriser loses than Random, in runs that it has not seen; it trains in 100 runs with each
    option."""
    world, params, loss = WORLDS[name]
    memoriser = ByHeart()
    memoriser.learn(world.population(100, **params, **instance), 4)
    fresh = world.population(400, **params, **instance)
    lost = [taciturn.simulate(fresh, one, seed=999).metrics[loss] for one in (Random(), memoriser)]
    return np.asarray(lost[0] - lost[1])


@every_bandit
def test_what_is_learned_by_heart_gains_nothing_in_fresh_runs(name: str) -> None:
    assert z_score(gain_by_heart(name)) < Z
    assert z_score(gain_by_heart(name, qualities=BEST_FIRST)) > 10, "where the best option is always the first, it pays"


@every_bandit
def test_listed_qualities_stay_in_order_unless_shuffled(name: str) -> None:
    world, params, _ = WORLDS[name]
    kept = world.population(50, **params, qualities=BEST_FIRST)
    kept.reset(seed=0)
    np.testing.assert_array_equal(qualities(kept), np.tile(BEST_FIRST, (50, 1)))
    shuffled = world.population(50, **params, qualities=BEST_FIRST, shuffle=True)
    shuffled.reset(seed=0)
    np.testing.assert_array_equal(np.sort(qualities(shuffled)), np.tile(np.sort(BEST_FIRST), (50, 1)))
    assert set(qualities(shuffled).argmax(1)) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "world", [gossip_bandit_v0, social_bandit_v0, federated_bandit_v0, arm_elimination_v0], ids=lambda world: world.name
)
def test_by_default_every_run_draws_its_qualities(world: Any) -> None:
    population = world.population(200, **({} if world in (gossip_bandit_v0, social_bandit_v0) else {"num_arms": 5}))
    population.reset(seed=0)
    first = qualities(population).copy()
    assert len(np.unique(first, axis=0)) == 200
    assert first.min() >= 0
    assert abs(z_score(first.ravel() - 0.5)) < Z, "uniform on [0, 1]"
    assert first.max() <= 1
    population.reset(where=np.arange(200) < 100)
    assert (qualities(population)[:100] != first[:100]).all()
    np.testing.assert_array_equal(qualities(population)[100:], first[100:])


def test_named_instances_are_the_papers() -> None:
    for options, listed in CHEN2021.items():
        gossip = gossip_bandit_v0.population(2, qualities="chen2021", num_options=options)
        gossip.reset(seed=0)
        np.testing.assert_array_equal(gossip.state.qualities, [listed, listed])
    social = social_bandit_v0.population(1, qualities="tao2023", num_options=3)
    social.reset(seed=0)
    np.testing.assert_array_equal(social.state.qualities, [[0.75, 0.5, 0.25]])
    federated = federated_bandit_v0.population(1, qualities="grid", num_arms=2, num_agents=1)
    federated.reset(seed=0)
    np.testing.assert_array_equal(federated.state.quality, [[[0.25, 0.75]]])


@pytest.mark.parametrize("name", ["gossip", "social"])
def test_a_learner_scores_the_same_whatever_the_order(name: str) -> None:
    """Trained briefly, then played on qualities from the best down and from the worst up."""
    world, params, loss = WORLDS[name]
    learner = TrainedAgent(20_000, seed=1).train(world.population(1, **params))
    lost = [
        taciturn.simulate(world.population(1000, **params, qualities=order), learner, seed=seed).metrics[loss]
        for seed, order in enumerate((BEST_FIRST, BEST_FIRST[::-1]))
    ]
    assert abs(z_score(lost[0] - lost[1])) < Z


@pytest.mark.parametrize(
    ("world", "policy"),
    [(federated_bandit_v0, UCB1()), (arm_elimination_v0, EliminationSchedule())],
    ids=["agents", "coordinator"],
)
def test_a_bandit_algorithm_scores_the_same_whatever_the_order(world: Any, policy: Any) -> None:
    params: dict[str, Any] = {"num_agents": 2, "horizon": 3000}
    lost = [
        taciturn.simulate(world.population(800, **params, qualities=order), policy, seed=seed, privacy=NONE).metrics[
            "regret"
        ]
        for seed, order in enumerate((BEST_FIRST, BEST_FIRST[::-1]))
    ]
    assert abs(z_score(lost[0] - lost[1])) < Z


NONE = {"means": NoPrivacy()}


def test_learners_practise_on_permuted_instances() -> None:
    """Of what a user lists, a learner may not learn the order."""
    for world, params, _ in WORLDS.values():
        practice = world.population(1, **params, qualities=BEST_FIRST).view().practice(200)
        practice.reset(seed=0)
        assert set(qualities(practice).argmax(1)) == {0, 1, 2, 3}
    market = elicitation_v0.population(1, num_individuals=2, theta=(0.4, 0.3, 0.2, 0.1)).view().practice(200)
    market.reset(seed=0)
    assert set(market.state.theta.argmax(1)) == {0, 1, 2, 3}


# Elicitation.


class Posted(Policy):
    """A platform that posts one price for the reports of one value: the number of that value is all that it can learn
    by heart."""

    def __init__(self, value: int | None) -> None:
        self.value = value

    def begin(self, view: Any) -> None:
        self._view = view

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        value = np.full(len(obs), self.value) if self.value is not None else self.rng.integers(0, 4, len(obs))
        action: Array = self._view.announce("posted_price", np.ones(len(obs)), np.full(len(obs), 0.5), value)
        return action


def test_the_most_frequent_value_cannot_be_learned_by_heart() -> None:
    def shortfall(platform: Posted, **instance: Any) -> Array:
        world = elicitation_v0.population(
            250,
            num_individuals=10,
            horizon=1,
            target=1.0,
            cost=elicitation_v0.LinearCost(0.05),
            rules=("posted_price",),
            **instance,
        )
        run = taciturn.simulate(world, {"platform": platform, "individual": BestResponse()}, seed=3)
        return np.asarray(run.metrics["total_payment"] + 10 * run.metrics["shortfall"])

    fixed = {"theta": (0.7, 0.1, 0.1, 0.1)}
    values = [shortfall(Posted(k), **fixed).mean() for k in range(4)]
    learned = Posted(int(np.argmin(values)))
    assert z_score(shortfall(Posted(None), **fixed) - shortfall(learned, **fixed)) > 10, "a fixed theta can be learned"
    assert z_score(shortfall(Posted(None)) - shortfall(learned)) < Z
    assert z_score(shortfall(Posted(None), shuffle=True, **fixed) - shortfall(learned, shuffle=True, **fixed)) < Z


def test_elicitation_draws_theta_and_the_desired_budget() -> None:
    world = elicitation_v0.population(300, num_individuals=3)
    world.reset(seed=0)
    assert len(np.unique(world.state.theta, axis=0)) == 300
    np.testing.assert_allclose(world.state.theta.sum(1), 1)
    desired = world.state.desired
    assert ((desired >= 0.5) & (desired <= 2)).all()
    assert abs(z_score(desired - 1.25)) < Z
    layout = world.roles["platform"].layout
    np.testing.assert_allclose(layout.unpack(world.observe()["platform"])["desired"][:, 0], desired, rtol=1e-6)
    with pytest.raises(ValueError, match=r"target\[1\] must be a finite number >= 0.5 and <= 1, not 2.0"):
        elicitation_v0.population(target=(0.5, 2.0), max_epsilon=1.0)
    with pytest.raises(ValueError, match=r"target\[0\] must be a finite number >= 0.01 and <= 1, not 3.0"):
        elicitation_v0.population(target=(3.0, 1.0))


TASK: dict[str, Any] = {"num_individuals": 20, "horizon": 2}


def constant(scale: float) -> Array:
    """The return of a platform that always takes one action in `taciturn/Elicitation-v0`, [B]."""
    side = platform_side(100, **TASK)
    side.reset(seed=7)
    total = np.zeros(100)
    while not side.done.all():
        total += side.step(np.full((100, 1, 1), scale, np.float32)).reward[:, 0]
    return total


def wintall() -> Array:
    """That of WINTALL, which pays the marginal cost at the budget that is desired."""
    side: Any = platform_side(100, **TASK)
    world = elicitation_v0.population(100, params=side.inner.params)
    run = taciturn.simulate(world, {"platform": Wintall(), "individual": BestResponse()}, seed=7)
    return np.asarray(
        -run.metrics["total_payment"] / TASK["num_individuals"] - TASK["horizon"] * run.metrics["shortfall"]
    )


def test_no_constant_beats_wintall() -> None:
    """Not one of 11 from the lowest to the highest, in runs of the same instances."""
    reference = wintall()
    ahead = {scale: z_score(reference - constant(scale)) for scale in np.linspace(-1, 1, 11).tolist()}
    assert min(ahead.values()) > Z, ahead


def test_the_platform_cannot_mislead_about_the_target() -> None:
    side: Any = platform_side(3, **TASK)
    side.reset(seed=0)
    assert side.roles["platform"].action_space.shape == (1,)
    side.step(np.ones((3, 1, 1), np.float32))
    np.testing.assert_allclose(side.inner.state.target, side.inner.state.desired, rtol=1e-6)


# Round stopping.


def discounted(policy: Any, objective: str, gamma: float) -> float:
    world = round_stopping_v0.population(10, objective=objective)
    world.reset(seed=0)
    begin(world, {"server": policy})
    rollout, total, weight = Rollout(world, {"server": policy}), 0.0, 1.0
    while not world.done.all() and weight > 1e-9:
        total, weight = total + weight * rollout.play().reward.mean(), weight * gamma
    return total


def test_differential_rewards_rank_policies_as_the_rate_does() -> None:
    """All time is charged: returns differ by the price of the session, for every policy."""
    price = round_stopping_v0.population().params.price
    for policy in (Random(), FixedCount(5), FixedCount(0)):
        gains = discounted(policy, "rate", 1.0) - discounted(policy, "differential", 1.0)
        assert gains == pytest.approx(price * 100.0)


def test_a_discount_by_the_step_rewards_stopping_at_once_only_without_a_price() -> None:
    assert discounted(FixedCount(0), "rate", 0.99) > 2 * discounted(FixedCount(5), "rate", 0.99)
    assert (
        discounted(FixedCount(0), "differential", 0.99) < -0.3 < -0.01 < discounted(FixedCount(5), "differential", 0.99)
    )


@pytest.mark.parametrize("model", [{}, {"num_clients": 20}, {"broadcast_time": 0.3}, {"upload_probability": 0.05}])
def test_the_price_of_time_is_near_the_best_fixed_count(model: dict[str, Any]) -> None:
    params = round_stopping_v0.Params(**model)
    known = {name: getattr(params, name) for name in ("num_clients", "broadcast_time", "upload_probability")}
    tables = (FixedCount(k).table(params.num_clients) for k in range(16))
    exact = max(evaluate(table, **known).rate for table in tables)
    assert params.price == pytest.approx(exact, rel=0.02)
    assert params.price < 1.02 * OptimalStopping.solve(**known).rate


# A policy that carries an epsilon.


GOSSIP: dict[str, Any] = {"num_agents": 5, "horizon": 2.0}


@pytest.mark.filterwarnings("default::taciturn.wrappers.NotPrivate")
@pytest.mark.parametrize(
    ("world", "policy", "message"),
    [
        (
            gossip_bandit_v0.population(2, **GOSSIP),
            PPCL(2.0),
            r"'preference' .*PPCL\(epsilon=2.0.*Response\(epsilon=2.0",
        ),
        (
            federated_bandit_v0.population(1, num_agents=2, num_arms=2, horizon=9),
            CDPMAB(),
            "'means' .*CDPMAB.*Laplace",
        ),
    ],
    ids=["gossip", "federated"],
)
def test_who_carries_an_epsilon_is_told_once_that_no_noise_is_added(world: Any, policy: Any, message: str) -> None:
    with pytest.warns(NotPrivate, match=message) as told:
        taciturn.simulate(world, policy, seed=0)
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.filterwarnings("error::taciturn.wrappers.NotPrivate")
def test_who_says_what_stands_on_a_channel_is_told_nothing() -> None:
    world = gossip_bandit_v0.population(1, **GOSSIP)
    for privacy in ("paper", {"preference": BitwiseRandomizedResponse(1.0)}, {"preference": NoPrivacy()}):
        taciturn.simulate(world, PPCL(), seed=0, privacy=privacy)
    taciturn.simulate(Privatize(world, "preference", BitwiseRandomizedResponse(1.0)), PPCL(), seed=0)
    taciturn.simulate(world, Voter(), seed=0)
    taciturn.simulate(federated_bandit_v0.population(1, num_agents=2, num_arms=2, horizon=9), UCB1(), seed=0)
    taciturn.simulate(round_stopping_v0.population(horizon=9.0), FixedCount(2), seed=0)
