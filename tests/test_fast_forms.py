"""Fast forms have the law of `act`: every policy that declares one, in every world that can use it, and none that was overridden.

A pair is played twice with different seeds, by its fast form and by steps, to the same overridden horizon and recorded at the same times.
Metrics, records and messages are compared by two-sample Kolmogorov-Smirnov tests, numbers that never vary for equality. All of them
together reject with probability at most 1e-4 if the laws agree (Bonferroni), up to the p-values' own approximation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn import policies, registry
from taciturn.envs.core import Array, Fast, Population, PublicView
from taciturn.envs.core.public import HARMLESS, fast_form
from taciturn.envs.gossip_bandit.ticks import GossipRule
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.wrappers import BitwiseRandomizedResponse

REPLICAS = 300
ALARM = 1e-4
BITS = {"preference": BitwiseRandomizedResponse(2.0)}
GOSSIP: dict[str, Any] = {"num_agents": 12, "horizon": 9.0}
SOCIAL: dict[str, Any] = {"num_agents": 12, "copies": 5, "dissemination": "aggregated", "horizon": 30}
ZEROS = {"without_preference": "zeros", "initial_preferences": "none"}
ARMS: dict[str, Any] = {"num_agents": 3, "qualities": (0.9, 0.5, 0.2), "horizon": 400}
GRAPH = ARMS | {"topology": "ring"}
HYBRID = ARMS | {"topology": [("complete", 2), ("complete", 1)]}
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 60}
MARKET: dict[str, Any] = {
    "num_individuals": 12, "horizon": 8, "belief_concentration": np.inf, "theta": (0.4, 0.3, 0.2, 0.1), "target": 1.0,
}  # fmt: skip

# (world, its parameters, who acts beside the policy, privacy) for each policy, by name.
PLAYS: dict[str, list[tuple[str, dict[str, Any], dict[str, Any], Any]]] = {
    "PPCL": [("gossip_bandit_v0", GOSSIP, {}, None), ("gossip_bandit_v0", GOSSIP | ZEROS | {"flat_actions": True}, {}, BITS)],
    "CBL": [("gossip_bandit_v0", GOSSIP | {"asks": "one", "initial_preferences": "none"}, {}, p) for p in (None, BITS)]
    + [("gossip_bandit_v0", GOSSIP | ZEROS | {"asks": "one"}, {}, BITS)],
    "Voter": [("gossip_bandit_v0", GOSSIP, {}, BITS)],
    "CopyOnReward": [("gossip_bandit_v0", GOSSIP | {"asks": "one"}, {}, BITS)],
    "PrivateSocialLearning": [("social_bandit_v0", SOCIAL, {}, None), ("social_bandit_v0", SOCIAL, {}, BITS)]
    + [("social_bandit_v0", SOCIAL | ZEROS | {"perturbation": form}, {}, BITS) for form in ("per_round", "per_token")],
    "Replicator": [("social_bandit_v0", SOCIAL | {"dissemination": "stationary"}, {}, None)],
    **{name: [("federated_bandit_v0", ARMS, {}, None)] for name in (
        "UCB1", "KLUCB", "MOSS", "ThompsonSampling", "SuccessiveElimination", "DPSuccessiveElimination", "CentralisedOracle", "Fed2UCB",
        "SingleAgent",
    )},
    **{name: [("federated_bandit_v0", GRAPH, {}, None)] for name in ("CoopUCB2", "DDUCB", "GossipUCB")},
    "CDPMAB": [("federated_bandit_v0", ARMS, {}, None), ("federated_bandit_v0", ARMS, {}, "paper")],
    "CommunicationEfficientCDPMAB": [("federated_bandit_v0", ARMS, {}, "paper")],
    "DDPMAB": [("federated_bandit_v0", GRAPH, {}, "paper")],
    "HDPMAB": [("federated_bandit_v0", HYBRID, {}, "paper")],
    **{name: [("recommender_v0", SHOP, {}, None)] for name in ("TPriDO", "DTPriDO", "DSC", "ACR")},
    **{name: [("elicitation_v0", MARKET, {"individual": "TargetQuality"}, None)] for name in (
        "Wintall", "FlatRate", "PostedPrice", "Genie", "OutputAgreement", "PeerTruthSerum",
    )},
    **{name: [("elicitation_v0", MARKET, {"platform": "Wintall"}, None)] for name in ("TargetQuality", "Truthful", "FreeRider")},
}  # fmt: skip
PARAMETERS: dict[str, dict[str, Any]] = {
    "CommunicationEfficientCDPMAB": {"participation": 0.7, "rounds": 3},
    "CDPMAB": {"participation": 0.7},
    "CBL": {"tau": 0.5},
    "PrivateSocialLearning": {"beta": 0.7, "mu": 0.05},
}


def declares(policy: type[Any]) -> bool:
    return any("fast" in vars(cls) for cls in policy.__mro__ if cls is not policies.Policy)


def make(name: str) -> Any:
    return registry.make_policy(name, **PARAMETERS.get(name, {}))


def actors(name: str, beside: dict[str, str]) -> Any:
    if not beside:
        return make(name)
    (role,) = {"platform", "individual"} - set(beside)
    return {role: make(name)} | {other: make(policy) for other, policy in beside.items()}


def columns(run: taciturn.Run) -> dict[str, Array]:
    """Everything a run is judged by, [B] each."""
    found = {name: np.asarray(values, np.float64) for name, values in run.metrics.items()}
    for name, trace in run.trace.items():
        for i, at in enumerate(trace):
            found[f"{name} at {i}"] = np.asarray(at, np.float64).reshape(len(at), -1)[:, 0]
    return found


def p_value(first: Array, second: Array) -> float:
    """Of a two-sample Kolmogorov-Smirnov test; "never" and "nobody" count as values."""
    first, second = (np.nan_to_num(x, nan=-1e9, posinf=1e9) for x in (first, second))
    if np.ptp(np.concatenate([first, second])) <= 1e-9 * np.abs(first).max():
        return 1.0
    return float(stats.ks_2samp(first, second, method="asymp").pvalue)


CASES = [(name, *setting) for name, settings in PLAYS.items() for setting in settings]


def test_every_policy_with_a_fast_form_is_compared() -> None:
    assert {name for name, policy in registry.policies().items() if declares(policy)} == set(PLAYS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "world", "params", "beside", "privacy"), CASES)
def test_the_fast_form_has_the_law_of_steps(name: str, world: str, params: Any, beside: Any, privacy: Any) -> None:
    env = registry.make_world(world).population(REPLICAS, **params | {"horizon": 2 * params["horizon"]})
    times = [params["horizon"] / 2, params["horizon"]]
    record = {"elicitation_v0": ["payment"], "gossip_bandit_v0": ["best", "messages"]}.get(
        world, ["regret", "messages"]
    )
    runs = []
    for fast in (True, False):
        policy = actors(name, beside)
        run = taciturn.simulate(env, policy, seed=11 + fast, until=times, record=record, privacy=privacy, fast=fast)
        runs.append((columns(run), run.ledger))
        np.testing.assert_allclose(
            env.clock(), params["horizon"] if env.clock_unit == "step" else env.clock(), rtol=0.2
        )
    (quick, quick_ledger), (slow, slow_ledger) = runs
    assert quick.keys() == slow.keys()
    compared = {key: p_value(quick[key], slow[key]) for key in quick}
    if quick_ledger is not None:
        channel = next(iter(env.channels))
        compared["charges"] = p_value(
            *(np.asarray(x.messages(channel)[:, 0], np.float64) for x in (quick_ledger, slow_ledger))
        )
    assert min(compared.values()) > ALARM / len(CASES) / len(compared), compared


@pytest.mark.parametrize(("name", "world", "params", "beside", "privacy"), CASES)
def test_the_fast_form_is_used(name: str, world: str, params: Any, beside: Any, privacy: Any, monkeypatch: Any) -> None:
    env = registry.make_world(world).population(2, **params)
    calls = []
    jump = type(env).jump

    def counted(*arguments: Any) -> None:
        calls.append(1)
        jump(*arguments)

    monkeypatch.setattr(type(env), "jump", counted)
    taciturn.simulate(env, actors(name, beside), seed=0, privacy=privacy)
    assert calls
    taciturn.simulate(env, actors(name, beside), seed=0, privacy=privacy, fast=False)
    assert len(calls) == 1


@pytest.mark.parametrize("name", PLAYS)
def test_whoever_overrides_a_piece_is_played_by_act(name: str) -> None:
    world, params, beside, _ = PLAYS[name][0]
    env = registry.make_world(world).population(2, **params)
    env.reset(seed=0)
    role = next(iter({"platform", "individual"} - set(beside))) if beside else next(iter(env.roles))
    kind = registry.policies()[name]
    plain = make(name)
    plain.reset(env, np.random.default_rng(0), role)
    assert isinstance(fast_form(plain, env.view(plain)), Fast)
    pieces = (
        {piece for cls in kind.__mro__[:-1] for piece in vars(cls) if not piece.startswith("__")}
        - HARMLESS
        - {"_abc_impl"}
    )
    assert {"act", "update", "begin", "reset"} <= pieces
    for piece in pieces:
        overridden = type(f"Overridden{name}", (kind,), {piece: getattr(kind, piece)})(**PARAMETERS.get(name, {}))
        overridden.reset(env, np.random.default_rng(0), role)
        assert fast_form(overridden, env.view(overridden)) is None, piece


class NeverPulls(policies.PPCL):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.plan(np.full(obs.shape[:2], self._options))


class OnlyArmZero(policies.UCB1):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.zeros(obs.shape[:2], np.int64)


class NeverAdopts(policies.PrivateSocialLearning):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.plan(np.full(obs.shape[:2], self._options), 0, 0)


class AlwaysZero(policies.TargetQuality):
    def answer(self, seen: Mapping[str, Array]) -> Array:
        return np.zeros(seen["target"].shape)


def test_overridden_policies_are_obeyed() -> None:
    gossip = taciturn.simulate(registry.make_world("gossip_bandit").population(2, **GOSSIP), NeverPulls(), seed=0)
    assert (gossip.metrics["pulls"] == 0).all()
    assert (gossip.metrics["ticks"] > 0).all()
    bandit = registry.make_world("federated_bandit").population(2, **ARMS)
    taciturn.simulate(bandit, OnlyArmZero(), seed=0)
    assert (bandit.state.counts[:, :, 1:] == 0).all()
    social = taciturn.simulate(registry.make_world("social_bandit").population(2, **SOCIAL), NeverAdopts(), seed=0)
    assert (social.metrics["adopters"] == 0).all()
    market = registry.make_world("elicitation").population(2, **MARKET)
    paid = taciturn.simulate(market, {"platform": policies.Wintall(), "individual": AlwaysZero()}, seed=0)
    assert (paid.metrics["level"] == 0).all()


class TakesItUpAnyway(policies.PPCL):
    """A fast form that is wrong: it takes options up on signal 0 as well."""

    def fast(self, view: PublicView) -> GossipRule | None:
        rule = self.gossip_rule(view)
        return None if rule is None else GossipRule(rule.weights, rule.threshold, rule.explore, (True, True))


def test_the_comparison_finds_a_wrong_fast_form() -> None:
    env: Population[Any] = registry.make_world("gossip_bandit").population(REPLICAS, **GOSSIP)
    assert isinstance(env, GossipBandit)
    quick = columns(taciturn.simulate(env, TakesItUpAnyway(), seed=0))
    slow = columns(taciturn.simulate(env, TakesItUpAnyway(), seed=1, fast=False))
    assert min(p_value(quick[key], slow[key]) for key in quick) < ALARM / len(CASES) / len(quick)
