"""What is asked of steps and resets (`steps.py`, `learner.py`, `speed.py`)."""

from typing import Any

BESIDE_NOTHING: dict[tuple[str, str], dict[int, float]] = {
    ("parallel", "gossip_bandit_v0"): {3: 4.5},
    ("parallel", "federated_bandit_v0"): {3: 5},
    ("parallel", "social_bandit_v0"): {3: 3.5, 20: 3.5, 100: 3.5, 1000: 3.5},
    ("parallel", "recommender_v0"): {3: 10, 8: 12, 1000: 25},
    ("parallel", "elicitation_v0"): {3: 8, 10: 8, 100: 8, 1000: 8},
    ("AEC", "gossip_bandit_v0"): {3: 8},
    ("AEC", "federated_bandit_v0"): {3: 8},
    ("AEC", "elicitation_v0"): {3: 15},
    ("AEC", "social_bandit_v0"): {3: 10},
    ("AEC", "recommender_v0"): {3: 15},
}
"""How many times the time of doing nothing a step may take, by form and world, and by the number of agents."""
RESETS = {"RoundStopping-v0": 10, "ArmElimination-v0": 20, "Elicitation-v0": 30}
"""How many microseconds a reset may take."""
RATES: dict[str, tuple[dict[str, Any], float]] = {
    "social_bandit_v0": ({"num_agents": 20, "horizon": 10**6, "signals": "per_agent"}, 4.0),
    "recommender_v0": ({"num_agents": 8, "num_items": 400, "repository": 200, "horizon": 10**6}, 0.9),
}
"""How many million agents must step in a second of one core, in 2,000 replicas of these sizes."""
TRAINING = {"round_stopping_v0": 2.5, "gossip_bandit_v0": 5, "social_bandit_v0": 5, "federated_bandit_v0": 1}
"""How many CPU seconds a million decisions of a training may take (`learner.py`)."""
MORE = ("reset_us", "seconds_a_million", "page_faults")
"""What `steps.py` records beside its rows."""
