"""The experiments of Chowdhury & Zhou 2023 on random instances, as configurations: one agent and ten arms, with means
drawn for each seed."""

from typing import NamedTuple

import numpy as np

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.validation import Floats


class Kind(NamedTuple):
    """How instances are drawn: the means are uniform in [1/2 - spread / 2, 1/2 + spread / 2]."""

    spread: float
    horizon: int


EASY, HARD = "easy", "hard"
INSTANCES = {EASY: Kind(0.5, 10**6), HARD: Kind(0.1, 10**7)}
QUICK = 10  # quick runs are this many times shorter
LOCAL = "LDPUCBB"  # decides at every pull; is played on easy instances for a shorter run
SHORTER = 10  # this many times shorter; its decisions do not depend on the horizon
NUM_ARMS = 10
LEVELS = (0.1, 0.5, 1.0)
FAILURE = 0.1  # p, section 7
DELTA = 1e-6  # of the shuffler; the paper gives none
NAMES = {
    "DPSuccessiveElimination": "DP-SE",
    "DistDPSE": "Dist-DP-SE",
    "DistRDPSE": "Dist-RDP-SE",
    "ShuffleElimination": "elimination by shuffled bits",
    LOCAL: "LDP-UCB-B",
}
BATCHES = {"beta": FAILURE, "growth": 4.0}
OWN = {
    "DPSuccessiveElimination": {"beta": FAILURE},
    "DistDPSE": BATCHES,
    "DistRDPSE": BATCHES | {"scale": 10.0},
    "ShuffleElimination": BATCHES | {"delta": DELTA},
    LOCAL: {},
}
SCALES = (10.0, 100.0)  # s of Dist-RDP-SE


def bandit(policy: str, instance: str = EASY, epsilon: float = 1.0, *, quick: bool = False, **own: float) -> Config:
    """An algorithm on instances of that kind, with the parameters of section 7 except those in `own`."""
    given = {"epsilon": epsilon, **OWN[policy], **own}
    horizon = INSTANCES[instance].horizon // (QUICK if quick else 1) // (SHORTER if policy == LOCAL else 1)
    made = config("federated_bandit_v0", policy, given, num_agents=1, horizon=horizon)
    return made | {"instance": instance}


def means_of(instance: str, seed: int) -> Floats:
    """The arms' means [10] of a seed."""
    spread = INSTANCES[instance].spread
    drawn = np.random.default_rng([2023, seed]).random(NUM_ARMS)
    return np.asarray(0.5 + spread * (drawn - 0.5))
