"""Fast forms have the law of `act`: every policy that declares one, in every world that can use it, and none that was
overridden.

All comparisons together reject with probability at most 1e-4 if the laws agree (Bonferroni).
"""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn import policies, registry
from taciturn.envs.core import Array, PublicView
from taciturn.envs.gossip_bandit.rule import GossipRule
from taciturn.testing.policies import (
    ALARM,
    Play,
    declares_a_fast_form,
    fast_form_has_the_distribution_of_steps,
    fast_form_is_used,
    whoever_overrides_a_piece_is_played_by_act,
)
from taciturn.wrappers import BitwiseRandomizedResponse

BITS = {"preference": BitwiseRandomizedResponse(2.0)}
GOSSIP: dict[str, Any] = {"num_agents": 12, "horizon": 9.0}
ZEROS = {"without_preference": "zeros", "initial_preferences": "none"}
SILENT = {"without_preference": "silent", "initial_preferences": "none"}  # at first nobody replies
ARMS: dict[str, Any] = {"num_agents": 3, "qualities": (0.9, 0.5, 0.2), "horizon": 400}
GRAPH = ARMS | {"topology": "ring"}
HYBRID = ARMS | {"topology": [("complete", 2), ("complete", 1)]}
SHOP: dict[str, Any] = {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 20}

# (world, its parameters, who acts beside the policy, privacy) for each policy, by name.
PLAYS: dict[str, list[tuple[str, dict[str, Any], dict[str, Any], Any]]] = {
    "PPCL": [
        ("gossip_bandit_v0", GOSSIP, {}, None),
        ("gossip_bandit_v0", GOSSIP | ZEROS | {"flat_actions": True}, {}, BITS),
    ],
    "CBL": [("gossip_bandit_v0", GOSSIP | {"asks": "one", "initial_preferences": "none"}, {}, p) for p in (None, BITS)]
    + [("gossip_bandit_v0", GOSSIP | ZEROS | {"asks": "one"}, {}, BITS)],
    "Voter": [("gossip_bandit_v0", GOSSIP, {}, BITS)],
    "CopyOnReward": [("gossip_bandit_v0", GOSSIP | {"asks": "one"} | more, {}, BITS) for more in ({}, SILENT)],
    **{
        name: [("federated_bandit_v0", ARMS, {}, None)]
        for name in (
            "UCB1",
            "KLUCB",
            "HorizonKLUCB",
            "FiniteHorizonGittins",
            "MOSS",
            "ThompsonSampling",
            "SuccessiveElimination",
            "DPSuccessiveElimination",
            "CentralisedOracle",
            "CentralisedKLUCB",
            "Fed2UCB",
            "SingleAgent",
        )
    },
    **{name: [("federated_bandit_v0", GRAPH, {}, None)] for name in ("CoopUCB2", "DDUCB", "GossipUCB")},
    "CDPMAB": [("federated_bandit_v0", ARMS, {}, None), ("federated_bandit_v0", ARMS, {}, "paper")],
    "CommunicationEfficientCDPMAB": [("federated_bandit_v0", ARMS, {}, "paper")],
    "DDPMAB": [("federated_bandit_v0", GRAPH, {}, "paper")],
    "HDPMAB": [("federated_bandit_v0", HYBRID, {}, "paper")],
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "CommunicationEfficientCDPMAB": {"participation": 0.7, "rounds": 3},
    "CDPMAB": {"participation": 0.7},
    "CBL": {"tau": 0.5},
    "PrivateSocialLearning": {"beta": 0.7, "mu": 0.05},
}


RECORD = {"gossip_bandit_v0": ["best", "messages"]}
PLAYED = [
    Play(
        name,
        world,
        params,
        given=PARAMETERS.get(name),
        beside=beside,
        privacy=privacy,
        record=RECORD.get(world, ["regret", "messages"]),
    )
    for name, settings in PLAYS.items()
    for world, params, beside, privacy in settings
]
every_play = pytest.mark.parametrize("play", PLAYED, ids=repr)


def test_every_policy_with_a_fast_form_is_compared() -> None:
    declaring = {name for name, kind in registry.own_policies().items() if declares_a_fast_form(kind)}
    assert declaring == set(PLAYS)


@pytest.mark.slow
@every_play
def test_the_fast_form_has_the_law_of_steps(play: Play) -> None:
    fast_form_has_the_distribution_of_steps(play, ALARM / len(PLAYED))


@every_play
def test_the_fast_form_is_used(play: Play) -> None:
    fast_form_is_used(play)


@pytest.mark.parametrize("play", {play.policy: play for play in reversed(PLAYED)}.values(), ids=repr)
def test_whoever_overrides_a_piece_is_played_by_act(play: Play) -> None:
    whoever_overrides_a_piece_is_played_by_act(play)


class NeverPulls(policies.PPCL):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.plan(np.full(obs.shape[:2], self._options))


class OnlyArmZero(policies.UCB1):
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.zeros(obs.shape[:2], np.int64)


def test_overridden_policies_are_obeyed() -> None:
    gossip = taciturn.simulate(registry.make_world("gossip_bandit").population(2, **GOSSIP), NeverPulls(), seed=0)
    assert (gossip.metrics["pulls"] == 0).all()
    assert (gossip.metrics["ticks"] > 0).all()
    bandit = registry.make_world("federated_bandit").population(2, **ARMS)
    taciturn.simulate(bandit, OnlyArmZero(), seed=0)
    assert (bandit.state.counts[:, :, 1:] == 0).all()


class TakesItUpAnyway(policies.PPCL):
    """A fast form that is wrong: it takes options up on signal 0 as well."""

    def fast(self, view: PublicView) -> GossipRule | None:
        rule = self.gossip_rule(view)
        return None if rule is None else GossipRule(rule.weights, rule.threshold, rule.explore, (True, True))


def test_the_comparison_finds_a_wrong_fast_form() -> None:
    with pytest.raises(AssertionError):
        fast_form_has_the_distribution_of_steps(Play(TakesItUpAnyway, "gossip_bandit_v0", GOSSIP), ALARM / len(PLAYED))
