"""What the claims of Tao et al. 2023 share: regrets within 6 delta, larger than others, or similar."""

from collections.abc import Sequence

from taciturn.bench import statistics
from taciturn.bench.results import Group, Results
from taciturn.bench.statistics import Estimate
from taciturn.envs.social_bandit.paper import copies_of_paper, ordered_means
from taciturn_papers.claims import Claim, NotRunError, above, alike, at_most, mean
from taciturn_papers.tao2023 import settings
from taciturn_papers.tao2023.settings import AGENTS, BOUND, SHARES, Setting, level_text
from taciturn_papers.tao2023.share_dynamics import lift, sigma

LITTLE = 0.02  # delta


def found(results: Results, setting: Setting, policy: str = AGENTS) -> Group:
    """The results of a setting, played by agents or computed."""
    group = setting.find(results, policy)
    if group is None:
        raise NotRunError(setting)
    return group


def named(chosen: Sequence[Setting]) -> tuple[str, ...]:
    """Labels of settings, with the parameters in which they differ; a single setting has an empty label."""
    every = [(f"N = {s.n:,}", f"M = {s.m}", f"epsilon = {level_text(s.epsilon)}", s.growth) for s in chosen]
    varies = [len(set(column)) > 1 for column in zip(*every, strict=True)]
    return tuple(", ".join(x for x, told in zip(one, varies, strict=True) if told) for one in every)


def checked(results: Results, chosen: Sequence[Setting]) -> str:
    """The same regrets by noisy share dynamics, the regrets without learning, and the shares that noise sustains."""
    texts = []
    for name, setting in zip(named(chosen), chosen, strict=True):
        n, m, epsilon, growth = setting
        group = setting.find(results, SHARES)
        computed = "not run" if group is None else format(group.mean("regret"), ".3f")
        lifted, _ = lift(ordered_means(m), sigma(epsilon, n / 2, copies_of_paper(n, growth) / 2))
        each = f"{name}: " if name else "They are "
        texts.append(f"{each}{computed}, {settings.uniform_regret(m):.3f} and {lifted:.2f}")
    return (
        f"three numbers follow{' for each case' * (len(chosen) > 1)}: the regret of the {SHARES} (a recursion of the "
        "options' shares, without simulated agents); the regret without learning; and the total share that noise alone "
        f"would give the inferior options (if it is about 1 or more, no option can lead). {'; '.join(texts)}"
    )


def bounded(claim: str, quote: str, *chosen: Setting, over: bool = False) -> Claim:
    """A claim that regrets are at most 6 delta, or above it if `over`."""
    return Claim(
        claim,
        quote,
        f"above {BOUND:.2f}" if over else f"at most {BOUND:.2f}",
        lambda r: [mean(found(r, one).metrics["regret"]) for one in chosen],
        above(BOUND) if over else at_most(BOUND),
        1.5 * BOUND if over else BOUND,
        0.5 * BOUND if over else tuple(settings.uniform_regret(one.m) for one in chosen),
        lambda r: checked(r, chosen),
        named(chosen),
    )


def larger(claim: str, quote: str, words: str, *pairs: tuple[Setting, Setting]) -> Claim:
    """A claim that the first regret of each pair is larger, by more than without learning."""
    labels = named([one for one, _ in pairs])

    def idle(one: Setting, other: Setting) -> float:
        return settings.uniform_regret(one.m) - settings.uniform_regret(other.m)

    def measured(results: Results) -> list[Estimate]:
        both = [found(results, one).paired(found(results, other), "regret") for one, other in pairs]
        return [statistics.difference(a - idle(*pair), b) for (a, b), pair in zip(both, pairs, strict=True)]

    def why(results: Results) -> str:
        texts = []
        for name, (one, other) in zip(labels, pairs, strict=True):
            groups = [one.find(results, SHARES), other.find(results, SHARES)]
            ends = [group.mean("regret") for group in groups if group is not None]
            computed = f"{ends[0] - ends[1]:+.3f}" if len(ends) == 2 else "not run"
            shares = [found(results, s).mean("regret") / settings.uniform_regret(s.m) for s in (one, other)]
            texts.append(f"{name}: {computed}, {idle(one, other):+.3f}, {shares[0]:.2f} and {shares[1]:.2f}")
        return (
            f"four numbers follow for each case: the difference of the regrets in the {SHARES}; the difference of the "
            "regrets without learning; and, for each of the two settings, the ratio of its regret to the regret "
            f"without learning. {'; '.join(texts)}"
        )

    return Claim(
        claim,
        quote,
        words,
        measured,
        above(0),
        0.06,
        0.0,
        why,
        labels,
    )


def similar(claim: str, quote: str, words: str, why: str, *pairs: tuple[Setting, Setting]) -> Claim:
    """A claim that the two regrets of each pair are similar."""
    return Claim(
        claim,
        quote,
        words,
        lambda r: [statistics.difference(*found(r, a).paired(found(r, b), "regret")) for a, b in pairs],
        alike(0, LITTLE, f"'{words}', read as at most delta apart"),
        0.0,
        BOUND,
        why,
        named([one for one, _ in pairs]),
    )
