"""Worlds whose observers do not learn who has said what: shuffled answers in gossip, random clients in training."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import federated_training_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.federated_training.datasets import samples_of_class
from taciturn.policies import PPCL, FewRounds, FixedCount, Listener
from taciturn.policies.designed.listener import shuffled_level
from taciturn.privacy.composition import ORDERS, rdp_epsilon
from taciturn.privacy.sampling import SampledLoss
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    CentralSum,
    Faulty,
    Gaussian,
    LossyChannel,
    MessageLimit,
    Privatize,
    Scheduled,
    Shuffled,
    audit,
)

BITS = BitwiseRandomizedResponse(1.5)
GOSSIP: dict[str, Any] = {"num_agents": 12, "num_options": 3, "qualities": (0.8, 0.5, 0.2), "horizon": 6.0}
TRAINING: dict[str, Any] = {
    "num_clients": 12,
    "clip_norm": 0.1,
    "compute_probability": 0.2,
    "horizon": 12.0,
    "weighting": "uniform",
}


def test_shuffled_answers_are_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shuffler changes no sum: with the same seed, and if both draw noise from one stream, the same run."""
    monkeypatch.setattr("taciturn.channels.channel.described", lambda value: "")
    runs = [
        taciturn.simulate(
            gossip_bandit_v0.population(num_envs=3, **GOSSIP), PPCL(), seed=4, privacy={"preference": distribution}
        )
        for distribution in (BITS, Shuffled(BITS))
    ]
    for name in ("regret", "messages"):
        np.testing.assert_array_equal(runs[0].metrics[name], runs[1].metrics[name])


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("distribution", [Shuffled(BITS), Scheduled(Shuffled(BITS), at=30)], ids=["fresh", "one"])
def test_each_answer_costs_as_one_of_eleven(distribution: Any, fast: bool) -> None:
    """All 12 agents answer at each tick; whoever reads the answers knows its own."""
    env = gossip_bandit_v0.population(num_envs=3, **GOSSIP)
    run = taciturn.simulate(env, Listener(), seed=4, privacy={"preference": distribution}, fast=fast)
    assert run.accountant is not None
    (account,) = run.accountant.accounts_of("preference")
    assert account.loss == Shuffled(BITS).summed_loss(11)
    charged = account.messages() + np.zeros((3, 12), np.int64)
    if isinstance(distribution, Scheduled):
        np.testing.assert_array_equal(charged, 1)
    else:
        np.testing.assert_array_equal(charged, env.channels["preference"].messages())
        assert charged.min() > 12
    total = run.accountant.epsilon(1e-5, method="rdp")
    bare = taciturn.simulate(
        env, Listener(), seed=4, privacy={"preference": getattr(distribution, "mechanism", distribution) and BITS}
    )
    if not isinstance(distribution, Scheduled):
        assert bare.accountant is not None
        assert (total < bare.accountant.epsilon(1e-5, method="rdp")).all()


def test_jumps_charge_shuffled_answers() -> None:
    env = gossip_bandit_v0.population(num_envs=3, **GOSSIP)
    run = taciturn.simulate(env, PPCL(), seed=4, privacy={"preference": Shuffled(BITS)})
    assert run.accountant is not None
    (account,) = run.accountant.accounts_of("preference")
    assert account.loss == Shuffled(BITS).summed_loss(11)
    np.testing.assert_array_equal(account.messages() + np.zeros((3, 12)), env.channels["preference"].messages())


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Privatize(gossip_bandit_v0.population(asks="one", **GOSSIP), "preference", Shuffled(BITS)),
        lambda: Privatize(social_bandit_v0.population(num_agents=4), "preference", Shuffled(BITS)),
        lambda: Privatize(gossip_bandit_v0.population(**GOSSIP), "preference", Shuffled(BITS), Budget(20.0)),
        lambda: Faulty(
            Privatize(gossip_bandit_v0.population(**GOSSIP), "preference", Shuffled(BITS)),
            "preference",
            LossyChannel(0.1),
        ),
        lambda: Privatize(
            Faulty(gossip_bandit_v0.population(**GOSSIP), "preference", MessageLimit(3)),
            "preference",
            Scheduled(Shuffled(BITS), at=3),
        ),
    ],
)
def test_sums_of_some_answers_would_give_the_others_away(refused: Any) -> None:
    with pytest.raises(ValueError, match="mechanism on channel 'preference' must not be shuffled"):
        refused()


def test_agents_who_may_be_silent_have_no_total() -> None:
    env = gossip_bandit_v0.population(**GOSSIP, initial_preferences="none")
    run = taciturn.simulate(env, PPCL(), seed=0, privacy={"preference": Shuffled(BITS)})
    assert run.accountant is not None
    assert run.accountant.epsilon(1e-5).max() == math.inf


def test_an_attacker_reads_the_sum_and_not_the_answers() -> None:
    """One answer of 40 agents, epsilon 2 alone; whole runs, in which one agent's first option and signals differ. Read
    one by one, the answers refute the claim for shuffled ones; their sum does not."""
    distribution = BitwiseRandomizedResponse(2.0)
    env = gossip_bandit_v0.population(**GOSSIP | {"num_agents": 40})
    shuffled = Privatize(env, "preference", Scheduled(Shuffled(distribution), at=1))
    alone = Privatize(env, "preference", Scheduled(distribution, at=1))
    given: dict[str, Any] = {"policy": PPCL(), "change": (0, 1), "trials": 6_000, "steps": 2, "confidence": 0.9999}
    hidden, open_ = (audit(one, delta=1e-5, **given) for one in (shuffled, alone))
    assert hidden.verdict != "violated"
    assert open_.verdict != "violated"
    assert hidden.certified < hidden.claimed < open_.certified < open_.claimed


def test_a_listener_spends_its_total_on_a_clearer_answer() -> None:
    env = gossip_bandit_v0.population(num_envs=2, **GOSSIP | {"num_agents": 100})
    policy = Listener(trust_model="shuffle")
    distribution = policy.within(env.view(policy), 1.0)["preference"]
    assert isinstance(distribution, Scheduled)
    assert distribution.epsilon == pytest.approx(2.54, abs=0.05)
    run = taciturn.simulate(env, policy, seed=0, privacy={"preference": distribution})
    assert run.accountant is not None
    assert run.accountant.epsilon(1e-5).max() == pytest.approx(1.0, abs=0.01)
    assert run.accountant.epsilon(1e-5).max() <= 1.0


# Random clients.


def closed(env: Any, k: int, rounds: int) -> Any:
    """The session after so many rounds of k updates."""
    env.reset(seed=2)
    while (env.state.rounds < rounds).any() and not env.done.all():
        env.step(np.where((env.state.received >= k) & (env.state.rounds < rounds), 0, 1)[:, None])
    return env


def test_an_average_of_random_clients_costs_all_clients_alike() -> None:
    distribution = Gaussian.from_rho(0.5)
    env = closed(Privatize(federated_training_v0.population(2, **TRAINING), "update", CentralSum(distribution)), 3, 2)
    (account,) = env.accountant.accounts_of("update")
    assert account.loss == SampledLoss(distribution.loss(), 3 / 11)
    np.testing.assert_array_equal(account.messages() + np.zeros((2, 12)), 2)
    np.testing.assert_array_equal(env.channels["update"].messages().sum(1), 6)
    total = env.accountant.epsilon(1e-5, method="rdp")
    assert (total < rdp_epsilon(2 * distribution.loss().rdp(ORDERS), 1e-5)).all()


@pytest.mark.parametrize(
    ("change", "fault"),
    [({"weighting": "samples"}, None), ({}, LossyChannel(0.1))],
    ids=["weights", "lost"],
)
def test_no_amplification_where_averages_may_tell_who_is_in_them(change: dict[str, Any], fault: Any) -> None:
    distribution = Gaussian.from_rho(0.5)
    env: Any = Privatize(federated_training_v0.population(2, **TRAINING | change), "update", CentralSum(distribution))
    env = closed(env if fault is None else Faulty(env, "update", fault), 3, 1)
    losses = {account.loss for account in env.accountant.accounts_of("update")}
    assert losses == {distribution.loss()}
    np.testing.assert_array_equal(env.accountant.messages("update"), env.channels["update"].messages())


def test_a_round_that_the_end_cuts_off_is_not_averaged() -> None:
    env = federated_training_v0.population(1, **TRAINING)
    run = taciturn.simulate(
        env, FixedCount(12), seed=0, privacy={"update": CentralSum(Gaussian.from_rho(0.5))}, until=0.1
    )
    assert env.state.received.max() > 0
    assert run.metrics["messages"].max() == 0


def test_a_client_who_reads_knows_whether_it_was_drawn() -> None:
    """Of two clients one is drawn: whoever was not knows that the other one was."""
    distribution = Gaussian.from_rho(0.5)
    env = federated_training_v0.population(2, **TRAINING | {"num_clients": 2})
    (account,) = closed(Privatize(env, "update", CentralSum(distribution)), 1, 2).accountant.accounts_of("update")
    assert account.loss == distribution.loss()


def test_a_budget_stops_averages_of_all_at_once() -> None:
    distribution = Gaussian.from_rho(0.05)
    total = Budget(1.0, 1e-5, method="rdp")
    fit = int(total.messages(SampledLoss(distribution.loss(), 3 / 11)))
    assert fit >= 1
    env = Privatize(
        federated_training_v0.population(3, **TRAINING | {"horizon": 200.0}), "update", CentralSum(distribution), total
    )
    run = taciturn.simulate(env, FixedCount(3), seed=0)
    assert run.accountant is not None
    np.testing.assert_array_equal(run.accountant.messages("update"), fit)
    np.testing.assert_array_equal(env.channels["update"].messages().sum(1), 3 * fit)
    assert run.accountant.epsilon(1e-5).max() <= 1.0


@pytest.mark.parametrize("total", [1.0, 10.0])
def test_few_rounds_keep_within_a_total(total: float) -> None:
    policy = FewRounds(4, rounds=6, trust_model="central")
    env = federated_training_v0.population(2, **TRAINING | {"horizon": 40.0})
    configs = policy.within(env.view(policy), total)
    assert configs is not None
    run = taciturn.simulate(
        Privatize(env, "update", configs["update"].mechanism, configs["update"].budget), policy, seed=0
    )
    assert run.accountant is not None
    spent = run.accountant.epsilon(1e-5).max()
    assert 0.7 * total < spent <= total
    assert policy.within(taciturn.registry.make_world("round_stopping_v0").population(1).view(policy), total) is None


def test_whole_sessions_with_random_clients_are_audited() -> None:
    """A client's images are all of one class or of another; it is in each round with probability 1/4. Nobody tells the
    attacker in which: its claim holds, and is far below that of a client who is known to be there."""
    env = federated_training_v0.population(**TRAINING | {"num_clients": 4, "horizon": 8.0, "compute_probability": 0.6})
    distribution = Gaussian.from_rho(8.0)
    private = Privatize(env, "update", CentralSum(distribution))
    change = (samples_of_class(env, 0), samples_of_class(env, 1))
    found = audit(private, policy=FixedCount(1), change=change, trials=400, delta=1e-5, seed=0)
    assert found.verdict != "violated"
    assert found.claimed > 1


@pytest.mark.parametrize(("others", "level"), [(19, 1.3), (99, 2.5), (999, 5.7)])
def test_what_a_total_of_one_buys(others: int, level: float) -> None:
    """The numbers of docs/privacy.md, at delta 1e-5."""
    assert round(shuffled_level(1.0, 1e-5, others), 1) == level
