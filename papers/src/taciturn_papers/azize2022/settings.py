"""The experiments of Azize & Basu 2022 as configurations: one agent, five arms with Bernoulli rewards."""

from taciturn.bench.play import config
from taciturn.bench.results import Config

LINEAR = (0.75, 0.625, 0.5, 0.375, 0.25)
ONE_GOOD = (0.8, 0.1, 0.1, 0.1, 0.1)
HORIZON, QUICK_HORIZON = 10**7, 10**5
LEVELS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ALPHA = 3.1  # section 5
GAMMA = 0.1  # of DP-UCB
GAMMAS, ALPHAS = (0.01, 1 / HORIZON), (1.0, 0.3)  # more values, to show the parameters' effect
NAMES = {
    "AdaPKLUCB": "AdaP-KLUCB",
    "AdaPUCB": "AdaP-UCB",
    "DPSuccessiveElimination": "DP-SE",
    "DPUCB": "DP-UCB",
    "DPKLUCB": "DP-KLUCB",
    "DPIMED": "DP-IMED",
}
"""The algorithms of the paper, and two that were published later (Azize et al. 2025)."""
OWN = {"AdaPKLUCB": {"alpha": ALPHA}, "AdaPUCB": {"alpha": ALPHA}, "DPUCB": {"gamma": GAMMA}}


def bandit(
    policy: str, means: tuple[float, ...] = LINEAR, epsilon: float = 1.0, horizon: int = HORIZON, **own: float
) -> Config:
    """An algorithm on a bandit, with the parameters of the paper except those in `own`."""
    given = {"epsilon": epsilon, **OWN.get(policy, {}), **own}
    return config("federated_bandit_v0", policy, given, num_agents=1, qualities=list(means), horizon=horizon)


def tree(gamma: float, horizon: int = HORIZON) -> Config:
    """DP-UCB with another gamma."""
    return bandit("DPUCB", horizon=horizon, gamma=gamma)


def bold(alpha: float, horizon: int = HORIZON) -> Config:
    """AdaP-KLUCB with less exploration than its theorem requires."""
    return bandit("AdaPKLUCB", horizon=horizon, alpha=alpha)
