"""The epsilon and the delta that a mechanism or a policy takes are those that the accountant charges: against a table
of what the papers say, kept by itself."""

import inspect
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn import policies
from taciturn.channels.config import require_fit
from taciturn.envs.core import Channel, ChannelConfig, Streams
from taciturn.policies import (
    CDPMAB,
    DDPMAB,
    HDPMAB,
    PPCL,
    CommunicationEfficientCDPMAB,
    DividedPlan,
    EliminationSchedule,
    FewRounds,
    GrowingSchedule,
    Listener,
    OneAnswerOracle,
    PrivateSocialLearning,
    PublicPlan,
    TPriDO,
)
from taciturn.privacy.accountant import Accountant
from taciturn.registry import make_world
from taciturn.testing.cases import chosen, random_actions
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Blocks,
    CentralSum,
    DistributedSum,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Scheduled,
    TreeAggregation,
    UnaryEncoding,
)

MEASURED = {
    "tests/test_bandits.py": ["DPSuccessiveElimination"],
    "tests/test_designed_recommender.py": ["BlockListener", "PeakListener"],
    "tests/test_train.py": ["TrainedAgent"],
    "tests/test_level_choice.py": ["ConstantLevel"],
}
"""Policies whose noise, or whose levels, are measured elsewhere."""
NOT_PRIVACY = {
    "epsilon": {"IsolatedEpsilonGreedy"},  # probability of exploring
    "delta": {"SuccessiveElimination"},  # probability of failing
    "e": {"Truthful"},  # an individual's own budget, paid for
    "prescribes": {"Replicator", "SingleAgent"},  # nothing
}

FEDERATED: dict[str, Any] = {"num_agents": 4, "num_arms": 3, "horizon": 400}
HYBRID = FEDERATED | {"topology": [("ring", 3), ("star", 1)]}
SOCIAL: dict[str, Any] = {"num_agents": 6, "horizon": 5, "without_preference": "zeros"}
SHOP: dict[str, Any] = {"num_agents": 4, "horizon": 20}
RUNS: list[tuple[str, dict[str, Any], Any, dict[str, tuple[float, str]]]] = [
    # World, its parameters, policy; epsilon of a message, or of all an agent's messages, on each channel.
    ("gossip_bandit", SOCIAL, PPCL(1.7), {"preference": (1.7, "message")}),  # Chen et al., equation 5
    ("social_bandit", SOCIAL, PrivateSocialLearning(epsilon=0.6), {"preference": (0.6, "message")}),  # Tao et al., 6
    ("social_bandit", SOCIAL, PrivateSocialLearning(0.6), {"preference": (1.0, "message")}),
    ("social_bandit", SOCIAL, Listener(2.5, 2.0), {"preference": (2.5, "run")}),
    ("social_bandit", SOCIAL, OneAnswerOracle(1.5, 2.0), {"preference": (1.5, "shared mind")}),
    # Li & Song 2022, Algorithm 1: noise of 1 / (N epsilon n) on means of n rewards, so N epsilon.
    ("federated_bandit", FEDERATED, CDPMAB(0.5), {"means": (4 * 0.5, "message")}),
    ("federated_bandit", FEDERATED, CommunicationEfficientCDPMAB(0.5, 2, 0.4), {"means": (2 * 0.4, "message")}),
    ("federated_bandit", FEDERATED | {"topology": "ring"}, DDPMAB(0.5), {"means": (4 * 0.5, "message")}),
    (
        "federated_bandit",
        FEDERATED | {"topology": [("ring", 3), ("star", 1)]},
        HDPMAB(0.5),
        {"means": (4 * 0.5, "message")},
    ),
    ("arm_elimination", FEDERATED, EliminationSchedule(0.5, 0.5), {"means": (2 * 0.5, "message")}),
    # Zhou et al. 2021: a stream costs epsilon, and so does a selection.
    ("recommender", SHOP, TPriDO(epsilon=0.8), {"statistics": (0.8, "message"), "selection": (0.8, "message")}),
]


# World, its parameters, policy, delta; what `within` a total of 2 costs: an event, or a run at delta.
TOTAL = 2.0
SESSION: dict[str, Any] = {"num_clients": 8, "horizon": 40.0, "clip_norm": 1.0, "weighting": "uniform"}
WITHIN: list[tuple[str, dict[str, Any], Any, float, str]] = [
    ("social_bandit", SOCIAL, Listener(9.0, 2.0), 0.0, "run"),
    ("gossip_bandit", SOCIAL | {"num_agents": 12}, Listener(9.0, 1.0, trust_model="shuffle", delta=1e-3), 1e-3, "run"),
    ("federated_training", SESSION, FewRounds(4, 2, "central", 1e-7), 1e-7, "run"),
    ("federated_bandit", FEDERATED, PublicPlan(), 0.0, "event"),
    ("federated_bandit", FEDERATED, PublicPlan(trust_model="central"), 0.0, "event"),
    ("federated_bandit", FEDERATED, PublicPlan(trust_model="distributed"), 0.0, "event"),
    ("federated_bandit", FEDERATED, DividedPlan(), 0.0, "event"),
    ("arm_elimination", FEDERATED, GrowingSchedule(), 0.0, "event"),
]


@pytest.mark.parametrize(("world", "params", "policy", "stated"), RUNS, ids=lambda value: str(value)[:40])
def test_a_policy_is_charged_what_its_paper_prescribes(world: str, params: Any, policy: Any, stated: Any) -> None:
    accountant = taciturn.simulate(
        make_world(world).population(2, **params), policy, seed=0, privacy="paper"
    ).accountant
    for channel, (epsilon, per) in stated.items():
        assert accountant.per_message[channel].epsilon == pytest.approx(epsilon)
        if per == "run":
            np.testing.assert_allclose(accountant.epsilon(0.0, "max", "basic", channel=channel), epsilon)
        if per == "shared mind":
            assert np.isinf(accountant.epsilon(0.0, "max", "basic", channel=channel)).all()


@pytest.mark.parametrize(("world", "params", "policy", "delta", "unit"), WITHIN, ids=lambda value: str(value)[:40])
def test_a_policy_spends_the_whole_total_at_its_delta(
    world: str, params: Any, policy: Any, delta: float, unit: str
) -> None:
    """And more than that at a smaller delta, so that no other delta will do. Where a budget stops messages, it is of
    that total and delta. Actions are random: whatever happens, no agent spends more."""
    env: Any = make_world(world).population(2, **params)
    mechanisms = policy.within(env.view(policy), TOTAL)
    configs = {
        name: mechanism if isinstance(mechanism, ChannelConfig) else ChannelConfig(mechanism)
        for name, mechanism in mechanisms.items()
    }
    rng = np.random.default_rng(0)
    env.reset(seed=0, options={"public_schedule": True, "channels": configs})
    for _ in range(40):
        if not env.done.all():
            env.step(chosen(env, random_actions(env, rng)))
    accountant = env.accountant
    method, of = "rdp" if delta else "basic", "event" if unit == "event" else None

    def spent(delta: float) -> float:
        private = [name for name, channel in accountant.channels.items() if channel.config.mechanism is not None]
        return float(sum(accountant.epsilon(delta, "max", method, unit=of, channel=name) for name in private).max())

    budgets = {channel.config.budget for channel in accountant.channels.values()} - {None}
    assert {(budget.epsilon, budget.delta) for budget in budgets} <= {(TOTAL, delta)}
    assert (0.2 if budgets else 0.99) * TOTAL <= spent(delta) <= TOTAL * (1 + 1e-9)
    if delta and not budgets:
        assert spent(delta / 2) > 1.01 * TOTAL


def test_every_policy_with_an_epsilon_or_a_delta_is_in_a_table() -> None:
    """Or derived from one that is."""
    known = {type(row[2]).__name__ for row in (*RUNS, *WITHIN)}
    known = known.union(*MEASURED.values(), *NOT_PRIVACY.values())
    hooks = "prescribes", "within"
    for name, policy in vars(policies).items():
        if inspect.isclass(policy) and issubclass(policy, policies.Policy):
            own = any(getattr(policy, hook) is not getattr(policies.Policy, hook) for hook in hooks)
            if own or {"epsilon", "delta"} & {*inspect.signature(policy).parameters}:
                assert known & {base.__name__ for base in policy.__mro__}, name


# Mechanisms.


@pytest.mark.parametrize(
    "mechanism",
    [
        BitwiseRandomizedResponse(0.7),
        UnaryEncoding(0.7),
        KaryRandomizedResponse(epsilon=0.7, num_values=3),
        Laplace(0.7),
        Gaussian(0.7, 1e-4),
        Gaussian(0.7, 0.03),
        Exponential(0.7),
        TreeAggregation(0.7, horizon=9),
        Blocks(0.7),
        Scheduled(Laplace(0.7)),
        CentralSum(Laplace(0.7)),
        CentralSum(Gaussian(0.7, 1e-4)),
        DistributedSum(0.7),
    ],
    ids=repr,
)
def test_one_message_is_charged_at_the_epsilon_and_delta_of_its_mechanism(mechanism: Any) -> None:
    """By the simplest composition; of Gaussian noise at its delta, and more at a smaller one."""
    payload: Any = next(
        one for one in ("one_hot", "categorical", "bounded", "stream", "scores") if one in mechanism.payloads
    )
    channel = Channel("x", payload, observer="server", unit="event", num_senders=2, averaged=mechanism.averages)
    require_fit(channel, ChannelConfig(mechanism))
    for seed in range(2):
        accountant = Accountant(1, 2, [channel])
        channel.install(ChannelConfig(mechanism), accountant)
        channel.draw_from(Streams(seed))
        channel.reset(1)
        shape = (1, 2, 3) if payload in ("one_hot", "scores") else (1, 2)
        channel.send(np.zeros(shape, np.int64), None, 1.0)
        delta = getattr(getattr(mechanism, "mechanism", mechanism), "delta", 0.0)
        np.testing.assert_allclose(accountant.epsilon(delta, method="basic"), 0.7, rtol=1e-6)
        if delta:
            assert (accountant.epsilon(delta / 2, method="basic") > 0.71).all()
