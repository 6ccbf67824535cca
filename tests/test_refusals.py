"""What is refused by name: values of parameters of every environment, of policies and of faults, and environments in
which a policy cannot act.

What a message says beyond the name of a parameter comes from `taciturn.validation`, which tests/test_core.py tests.
"""

from typing import Any

import networkx as nx
import numpy as np
import pytest

import taciturn
from taciturn import registry, wrappers
from taciturn.envs.core import ChannelConfig
from taciturn.graph import Graph
from taciturn.privacy.mechanisms import CentralSum, DistributedSum
from taciturn.wrappers import BitwiseRandomizedResponse as Bitwise
from taciturn.wrappers import KaryRandomizedResponse as Kary
from taciturn.wrappers import Laplace, LossyChannel, Memoized, TreeAggregation

NAN, INF = float("nan"), float("inf")
SMALL: dict[str, dict[str, Any]] = {
    "gossip_bandit_v0": {"num_agents": 3},
    "social_bandit_v0": {"num_agents": 30, "copies": 20, "walk_length": 5},
    "federated_bandit_v0": {"num_agents": 5, "num_arms": 4},
    "arm_elimination_v0": {"num_agents": 5, "num_arms": 4},
    "recommender_v0": {"num_agents": 4, "num_items": 60, "repository": 30},
}
TWO_TRIANGLES = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
# {environment: {parameter: values that it refuses}}
WORLDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "gossip_bandit_v0": {
        "num_agents": (1, 2.5),
        "qualities": ("tao2023", (0.5,), (0.5, 1.5), (0.5, NAN)),
        "num_options": (1,),
        "shuffle": (2,),
        "rate": (0.0,),
        "horizon": (-1.0,),
        "asks": ("two",),
        "reward": ("regret",),
        "flat_actions": (1,),
        "initial_preferences": ("odd", [0, 1], [0, 1, 5]),
        "message_levels": ("loudly",),
    },
    "social_bandit_v0": {
        "num_agents": (2,),
        "graph": ("ring", "star", "hypercube", TWO_TRIANGLES, np.ones((4, 4), int)),
        "qualities": ([0.5], [0.5, 1.2], [0.5, NAN]),
        "copies": (0, 2.5, 2**62),
        "walk_length": (0,),
        "dissemination": ("flood",),
        "perturbation": ("once",),
        "congestion": (True,),  # without walks
        "slots": (5,),  # without congestion
        "signals": ("none",),
        "initial_preferences": ([0, 1], [9] * 30, "odd"),
        "horizon": (0,),
        "exact_below": (-1,),
    },
    "federated_bandit_v0": {
        "topology": (
            Graph.of([(0, 1), (2, 3), (3, 4)], 5),
            [("ring", 3), np.eye(2)],
            [("ring", 3), ("ring", 3)],
            [("ring", 0), ("ring", 5)],
            [],
            "torus",
            nx.path_graph(4),
        ),
        "num_agents": (0,),
        "num_arms": (0,),
        "horizon": (0, 2**25),
        "qualities": ("best", [0.1, 0.2], np.zeros((4, 4)), [0.1, 0.2, NAN, 0.4], [0.1, 0.2, 1.5, 0.4], [[0.1], [1]]),
        "server_link_cost": (-1, 10**30),
        "agent_link_cost": (INF, 10**30),
        "delay": ("none",),
        "weighting": ("size",),
        "epsilon_budget": (1.0,),  # where no levels are chosen
        "levels": ((0.0, 1.0),),
    },
    "arm_elimination_v0": {"num_arms": (0,), "server_link_cost": (-1,)},
    "round_stopping_v0": {
        "num_clients": (True,),
        "upload_probability": (1.01,),
        "compute_probability": (0,),
        "slot_time": (INF,),
        "broadcast_time": (10**30, 1e-308),
        "reward": ([[1, 2], [3, 4]],),
        "horizon": (0,),
        "objective": ("fast",),
        "lambda_": (0,),
        "time_distribution": ("weibull",),
        "transmission": ((1.0,),),
        "computing": ((0, 250),),
    },
    "federated_training_v0": {
        "num_clients": (1439,),
        "data": (3,),
        "concentration": (0, NAN),
        "model": ("transformer",),
        "learning_rate": (-1,),
        "epochs": (0, 2**31),
        "batch_size": (0,),
        "weighting": ("loss",),
        "clip_norm": (0,),
        "upload_probability": (0,),
    },
    "elicitation_v0": {
        "num_individuals": (0,),
        "theta": ((1.0,), (0.5, 0.6), 1, (0.5, NAN)),
        "cost": (3,),
        "cost_spread": (1.0,),
        "belief_concentration": (0,),
        "horizon": (0,),
        "target": (11.0,),
        "objective": ("both",),
        "penalty": (-1.0,),
        "rules": ((), "wintall", ("wintall", "lottery"), ["wintall", "wintall"]),
        "reporting": ("plain",),
        "max_scale": (0.0,),
        "payment_cap": (0.0,),
        "max_epsilon": (10**30, 1e31),
    },
    "recommender_v0": {
        "family": ("hills",),
        "repository": (61,),
        "growth": ([(0, 0.5)], [(3, 0.5), (5, 0.5)], 3),
        "context_dim": (10,),
        "graph": (nx.path_graph(3),),
    },
}
PLAN = {"first": (0,), "growth": (0.9,), "until": (1.1,)}
# {policy: {parameter: values that it refuses}}
POLICIES: dict[str, dict[str, tuple[Any, ...]]] = {
    "PPCL": {"epsilon": (0,), "alpha": (1.5,)},
    "CBL": {"tau": (0,)},
    "IsolatedEpsilonGreedy": {"epsilon": (2.0,)},
    "PrivateSocialLearning": {
        "beta": (0.5, 1.1), "mu": (-0.1, NAN), "empty": ("keep",), "pool": (0,), "epsilon": (0,),
    },
    "Replicator": {"beta": (0.0,), "alpha": (0.9,), "mu": (2,)},
    "Listener": {"moment": (0.0,)},
    "CDPMAB": {"epsilon": (0,), "participation": (0, 1.1), "rounds": (0,)},
    "HDPMAB": {"gap": (0.0,)},
    "KLUCB": {"c": (-1,)},
    "HorizonKLUCB": {"a": (0,), "c": (0,)},
    "FiniteHorizonGittins": {"stretch": (0.9, 2.1)},
    "CentralisedKLUCB": {"a": (0,), "c": (0,)},
    "SuccessiveElimination": {"delta": (1.0,)},
    "DPSuccessiveElimination": {"epsilon": (0,)},
    "Fed2UCB": {"pulls": (0, 1e30), "sigma": (1e308,), "sigma_c": (1e308,)},
    "CoopUCB2": {"eta": (4,)},
    "DDUCB": {"accuracy": (1,)},
    "Synchronised": {"index": ("ucb",), "growth": (0.5,)},
    "FedUCB": {"threshold": (0,), "width": (-1,), "ridge": (0.0,), "acts_on": ("all",)},
    "PublicPlan": PLAN | {"chunk": (0,)},
    "DividedPlan": PLAN | {"a": (0,), "c": (0,)},
    "FixedCount": {"k": (-1, 2.5)},
    "Fraction": {"fraction": (1.1,)},
    "Deadline": {"slots": (NAN,)},
    "OneStepLookAhead": {"lambda_": (-1,)},
    "GosInE": {"growth": (1e30,)},
    "PostedPrice": {"target": (1e308,)},
    "HOO": {"nu": (5e-324,)},
    "LinUCB": {"ridge": (1e-308,)},
    "InformedPlatform": {"individuals": ({"Hedge": 1.0}, {})},
    "BlockListener": {
        "degree": (-1,), "explore": (-0.1,), "worlds": (1,), "rounds": (0,), "cells": (0,), "first": (0,),
        "growth": (0.9,), "slack": (-1,), "prior": (0,), "share": (1,), "seed": (-1,),
    },
    "PeakListener": {
        "cells": (0, 3001), "first": (0,), "growth": (0.9,), "slack": (-1,), "share": (1,), "particles": (1,),
        "steps": (-1,),
    },
    "TrainedAgent": {"steps": (0,), "method": ("sarsa",), "seed": (-1,)},
    "NeuralBandit": {
        "steps": (-1,), "hidden": (0,), "features": (0,), "num_envs": (0,), "rounds": (1,), "learning_rate": (0.0,),
        "explore": (-0.1,),
    },
}  # fmt: skip
# {fault: {parameter: values that it refuses}}
FAULTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "LossyChannel": {"probability": (-0.1, NAN, True, "0.5")},
    "Stragglers": {"delays": ((), (0.5, 0.6), (0.5, -0.1), (0.5, INF), 0.5, "late")},
    "Byzantine": {"fraction": (1.5,), "strategy": ("loud",), "bounds": ((1.0, 1.0), (1.0,))},
    "MessageLimit": {"messages": (-1, 1.5)},
    "Churn": {"leave": (2.0,), "join": (None,)},
}
VALID: dict[str, dict[str, Any]] = {"Byzantine": {"fraction": 0.5}, "Churn": {"leave": 0.5, "join": 0.5}}


RING: dict[str, Any] = {"num_agents": 5, "topology": "ring"}
PARTS: dict[str, Any] = {"num_agents": 5, "topology": [("ring", 3), ("ring", 2)]}
SERVER = "acts in federated_bandit with topology='server'"
SINGLE_ARMS = ("KLUCB", "MOSS", "UCB1", "Fed2UCB", "SuccessiveElimination", "ThompsonSampling", "CDPMAB")
# (policy, an environment in which it cannot act, parameters of that environment, what is said)
ELSEWHERE: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    *(
        (name, "arm_elimination", {}, f"{name} acts in federated_bandit, not in 'arm_elimination'")
        for name in SINGLE_ARMS
    ),
    *((name, "round_stopping", {}, "acts in federated_bandit, not in 'round_stopping'") for name in ("UCB1", "CDPMAB")),
    ("Fed2UCB", "federated_bandit", RING, "Fed2UCB needs the topology 'server', not 'ring'"),
    ("CoopUCB2", "federated_bandit", {}, "CoopUCB2 needs one graph as topology"),
    ("CoopUCB2", "federated_bandit", PARTS, "CoopUCB2 needs one graph as topology"),
    ("CDPMAB", "federated_bandit", RING, "needs the topology to be the server, but it is a graph"),
    ("DDPMAB", "federated_bandit", {}, "needs the topology to be a graph, but it is the server"),
    ("DDPMAB", "federated_bandit", PARTS, "needs the topology to be a graph, but it is components"),
    ("HDPMAB", "federated_bandit", RING, "needs the topology to be components, but it is a graph"),
    *((name, "federated_bandit", RING, f"{name} {SERVER}") for name in ("PublicPlan", "FedUCB")),
    *((name, "federated_bandit", RING, "server") for name in ("DividedPlan", "Synchronised")),
    ("CBL", "gossip_bandit", {}, "CBL asks one peer"),
    *(
        ("Listener", "gossip_bandit", given, "Listener acts in (worlds of social learning|social_bandit)")
        for given in ({"asks": "one"}, {"initial_preferences": "none"}, {"reward": "preference"})
    ),
    *(
        (name, "round_stopping", {}, "acts in the worlds of social learning, not in 'round_stopping'")
        for name in ("PPCL", "PrivateSocialLearning")
    ),
    *((name, "round_stopping", {}, "elicitation_v0") for name in ("Wintall", "TargetQuality")),
)


BITS = "mechanism on channel 'preference' must answer one-hot vectors bit by bit"
TOKENS = "perturbation 'per_token' needs a mechanism with perturb_counts.* and no fault or budget"
MEANS = "mechanism on channel 'means' must add fresh noise to numbers"
SHOP = SMALL["recommender_v0"] | {"horizon": 40}
# (environment, its parameters, a channel, what does not fit it, what is said)
CHANNELS: tuple[tuple[str, dict[str, Any], str, Any, str], ...] = (
    *(
        ("gossip_bandit", {}, "preference", distribution, BITS)
        for distribution in (Kary(1.0, 4), Memoized(Kary(1.0, 4)), CentralSum(Laplace(1.0)))
    ),
    ("social_bandit", {}, "preference", Laplace(1.0, sensitivity=2.0), BITS),
    *(
        ("social_bandit", {"perturbation": "per_token"}, "preference", what, TOKENS)
        for what in (Memoized(Bitwise(1.0)), LossyChannel(0.1))
    ),
    *(
        ("federated_bandit", {}, "means", distribution, MEANS)
        for distribution in (Bitwise(1.0), Memoized(Laplace(1.0)), TreeAggregation(1.0, 8))
    ),
    ("federated_bandit", RING, "means", DistributedSum(1.0), "channel 'means' must perturb each message"),
    ("elicitation", {}, "report", Kary(1.0, 4), "channel 'report' takes no mechanism"),
    *(("recommender", SHOP, name, Laplace(1.0), "must be TreeAggregation") for name in ("statistics", "counts")),
    ("recommender", SHOP, "statistics", TreeAggregation(1.0, sampler="exact"), "sampler must be 'fast'"),
    ("recommender", SHOP, "statistics", TreeAggregation(1.0, horizon=39), "must be at least 40"),
    ("recommender", SHOP, "selection", TreeAggregation(1.0), "must be Exponential"),
)


def refuses(make: Any, given: dict[str, Any], parameter: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=rf"\b{parameter}\b") as error:
            make(**given | {parameter: value})
        assert "\n" not in str(error.value)
        assert "unexpected keyword" not in str(error.value)


@pytest.mark.parametrize("name", registry.worlds())
def test_parameters_of_environments(name: str) -> None:
    for parameter, values in WORLDS[name].items():
        refuses(registry.worlds()[name].population, SMALL.get(name, {}), parameter, values)


@pytest.mark.parametrize("name", POLICIES)
def test_parameters_of_policies(name: str) -> None:
    for parameter, values in POLICIES[name].items():
        refuses(registry.policies()[name], {}, parameter, values)


@pytest.mark.parametrize("name", FAULTS)
def test_parameters_of_faults(name: str) -> None:
    for parameter, values in FAULTS[name].items():
        refuses(getattr(wrappers, name), VALID.get(name, {}), parameter, values)
    refuses(ChannelConfig, {}, "faults", ([getattr(wrappers, name)], (getattr(wrappers, name),)))


def test_parameters_that_bound_each_other() -> None:
    worlds, policies = {name: world.population for name, world in registry.worlds().items()}, registry.policies()
    gossip, social, federated = (worlds[f"{name}_bandit_v0"] for name in ("gossip", "social", "federated"))
    stopping, elicitation = worlds["round_stopping_v0"], worlds["elicitation_v0"]
    zeros, levels = (
        "without_preference must be 'zeros' if message_levels is 'chosen'",
        "levels must be two or more increasing",
    )
    chosen = {"message_levels": "chosen"}
    cases: tuple[tuple[Any, dict[str, Any], str], ...] = (
        (stopping, {"objective": "lagrangian"}, "lambda_ must be a finite number > 0"),
        (stopping, {"objective": "rate", "lambda_": 0.1}, "lambda_ must be None under objective 'rate', where"),
        (stopping, {"horizon": 1e300, "slot_time": 1e-9}, "horizon / slot_time must be a finite number"),
        (elicitation, {"reporting": "oue", "theta": 11}, "number of values under bitwise reporting"),
        (elicitation, {"max_epsilon": np.float64(0.001)}, "max_epsilon must be a finite number > 0.01 and <= 1e[+]30"),
        (gossip, {"num_envs": 10**12}, "num_envs must be at most 2500000 with 400 agents, not 10{12}"),
        (gossip, {"rate": 1e300, "horizon": 1e300}, "num_agents [*] rate [*] horizon, the ticks of a run, must"),
        (gossip, {"qualities": "chen2021", "num_options": 5}, "num_options .* 'chen2021' has no 5 qualities"),
        (
            gossip,
            {"qualities": (0.5, 0.4), "num_options": 3},
            "num_options must be the number of qualities, 2, or None",
        ),
        (gossip, chosen, zeros),
        (social, chosen, zeros),
        (
            social,
            {"copies": 2**53, "perturbation": "per_token", "num_agents": 10, "horizon": 10**3},
            f"copies must be an integer >= 1 and <= {2**62 // 10**4}",
        ),
        (federated, {"num_agents": 10**5, "num_arms": 10**5}, "num_agents [*] num_arms must be an integer"),
        (federated, chosen | {"levels": (0.1, 1.0)}, levels),
        (federated, chosen | {"levels": (0.0, 1.0, 1.0)}, levels),
        (federated, chosen | {"levels": (0.0, 1e4)}, levels),
        (federated, chosen | {"epsilon_budget": 0.0}, "epsilon_budget must be a finite number > 0"),
        (worlds["recommender_v0"], chosen, "unexpected keyword argument 'message_levels'"),
        (policies["InformedPlatform"], {"individuals": {"Truthful": 0.0}}, "share must be a finite number > 0"),
    )
    for make, given, message in cases:
        with pytest.raises(ValueError, match=message):
            make(**given)


@pytest.mark.parametrize(("policy", "world", "given", "message"), ELSEWHERE)
def test_policies_are_refused_where_they_cannot_act(
    policy: str, world: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        taciturn.simulate(registry.make_world(world).population(1, **given), policy, seed=0)


@pytest.mark.parametrize(("world", "given", "channel", "what", "message"), CHANNELS)
def test_what_does_not_fit_a_channel(world: str, given: dict[str, Any], channel: str, what: Any, message: str) -> None:
    put = wrappers.Faulty if isinstance(what, LossyChannel) else wrappers.Privatize
    with pytest.raises(ValueError, match=message):
        put(registry.make_world(world).population(1, **given), channel, what).reset(seed=0)
