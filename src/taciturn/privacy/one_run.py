"""Certificates from one run with many canaries, each with its own coin, for claims about a whole trade-off curve.

Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run" (arXiv 2410.22235): if a run is f-DP
for each canary, and the auditor makes a number of guesses that is fixed in advance, then too many correct ones are
unlikely, however the canaries depend on each other. Let p_j be the probability of j correct guesses, and

    right(c) = sum over j >= c of j / m p_j,    wrong(c) = sum over j >= c of (guesses - j) / m p_j.

Flipping one canary's coin makes a correct guess wrong and changes no other, so right(c) <= g(wrong(c - 1)), where
g = 1 - f. Starting from P(correct >= c) = alpha and applied to c, c - 1, ..., 1 in turn, these inequalities require
ever more probability. If they require more than 1, the probability of c or more correct guesses is below alpha. The
bound allows for the rare event that all canaries are revealed together; for that reason a certificate stays below the
truth even with very many canaries.

With Gaussian noise the curve is that of mu-GDP (Dong, Roth & Su 2022), g(x) = Phi(Phi^-1(x) + mu). Messages with
sensitivity s and noise sigma compose to mu^2 = sum of (s / sigma)^2, so mu alone gives the cost of any number of
messages.
"""

from collections.abc import Callable

from taciturn.privacy.composition import gaussian_epsilon

LARGEST_MU = 20.0


def unlikely(correct: int, guesses: int, canaries: int, alpha: float, inverse: Callable[[float], float]) -> bool:
    """Whether at least `correct` of the `guesses` are right with probability below alpha: Mahloujifar et al. 2025,
    Algorithm 3.

    Args:
        correct, guesses: their numbers; `guesses` is fixed before the run.
        canaries: number m of canaries.
        alpha: error probability.
        inverse: the inverse of g = 1 - f, for the claimed trade-off curve f.
    """
    if correct == 0:
        return False
    right, wrong = alpha * correct / canaries, alpha * (guesses - correct) / canaries
    for j in range(correct - 1, -1, -1):
        least = max(inverse(right), wrong)
        right += j / (guesses - j) * (least - wrong)
        wrong = least
        if right + wrong > guesses / canaries:
            return True
    return False


def gaussian_inverse(mu: float) -> Callable[[float], float]:
    """The inverse of g(x) = Phi(Phi^-1(x) + mu)."""
    from scipy.special import ndtr, ndtri

    return lambda y: float(ndtr(ndtri(min(y, 1.0)) - mu))


def certify_gaussian_run(correct: int, guesses: int, canaries: int, alpha: float) -> float:
    """The largest mu such that mu-GDP of every canary is refuted at level alpha; 0 if there is none."""
    if not unlikely(correct, guesses, canaries, alpha, gaussian_inverse(0.0)):
        return 0.0
    low, high = 0.0, LARGEST_MU
    while high - low > 1e-4:
        middle = (low + high) / 2
        refuted = unlikely(correct, guesses, canaries, alpha, gaussian_inverse(middle))
        low, high = (middle, high) if refuted else (low, middle)
    return low


def guesses_for(canaries: int) -> int:
    """The number of canaries to guess, those with the largest absolute scores: a tenth, but at least 250. It must not
    depend on scores."""
    return min(canaries, max(250, canaries // 10))


def epsilon_of(mu: float, delta: float) -> float:
    """The epsilon at delta of mu-GDP; 0 at mu = 0."""
    return float(gaussian_epsilon(mu, delta)) if mu > 0 else 0.0
