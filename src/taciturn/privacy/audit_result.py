"""The result of an audit, as a value, a row of a table and a point in a figure."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from taciturn.terminal import aligned
from taciturn.validation import missing_extra

AuditMethod = Literal["white", "black", "one-run", "both"]

VERDICTS: dict[str, dict[str, Any]] = {
    "consistent": {"color": "#0072B2", "marker": "o"},
    "violated": {"color": "#D55E00", "marker": "X"},
    "no claim": {"color": "#000000", "marker": "s"},
    "no power": {"color": "#999999", "marker": "v"},
}


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    Attributes:
        name: the audited mechanism, function or environment.
        method: `white`, `black`, `one-run`, or `both`: `white` and `black` with half of the error probability each; the
            larger certificate counts.
        claimed: the claimed epsilon; inf if there is no claim.
        certified: lower confidence bound on the true epsilon, at level `confidence`.
        cap: the epsilon that correct guesses on all n = `certifying` trials would certify,
            ln(n / ln(1 / (1 - confidence))): ln(n / ln 20) at 95%, and ln(n / ln 40) for `both`, because each part has
            97.5%. For one run with Gaussian noise: the certificate if all `guesses` were correct.
        trials: number of transcripts, or of agents in the one run.
        certifying: number of trials used for the certificate; the others chose the threshold.
        confidence: confidence level of the certificate.
        guesses: certifying trials on which the auditor did not abstain.
        correct: guesses that were correct.
        threshold: (low, high): the auditor guesses the first world at scores <= low and the second at scores >= high.
        delta: the certificate refutes (epsilon, delta)-DP for every epsilon below `certified`.
        seed: seed of the audit.
        distinguished: whether any two trials had different scores; if not, the audit had no power to refute anything.
        attack: the attacker that guessed: `likelihood ratio`, or one of `taciturn.privacy.attackers`.
        bits: whether attackers read the lowest bits of floating-point numbers. By default they do not if a mechanism
            declares its sampler an idealisation (`Mechanism.idealised`), and the certificate then does not cover these
            bits.
        expected: for `white`: the epsilon at `delta` of the best test, estimated from the likelihood ratios; not a
            bound. NaN otherwise.
        spent: for an environment: the mean over runs of the total (`claimed` is the largest). NaN otherwise.
        moved: for whole runs: how far the agent's private data move its messages before any noise, as a share of the
            sensitivity: the mean over messages, from pilot runs. NaN if unknown.
        parts: for `both`: the results of `white` and `black`, each at its own confidence.
    """

    name: str
    method: AuditMethod
    claimed: float
    certified: float
    cap: float
    trials: int
    certifying: int
    confidence: float
    guesses: int
    correct: int
    threshold: tuple[float, float]
    delta: float
    seed: int
    distinguished: bool = True
    attack: str = ""
    bits: bool = True
    expected: float = math.nan
    spent: float = math.nan
    moved: float = math.nan
    parts: "tuple[AuditResult, ...]" = ()

    @property
    def verdict(self) -> str:
        """`violated` if the certificate exceeds the claim, `consistent` if the audit could have refuted the claim but
        does not, and `no power` if the audit could not have refuted it: all scores were equal, or the claim is at least
        `cap`. `no claim` without a claim."""
        if math.isinf(self.claimed):
            return "no claim"
        if self.certified > self.claimed:
            return "violated"
        return "consistent" if self.distinguished and self.claimed < self.cap else "no power"

    def against(self, claimed: float) -> "AuditResult":
        """The same result with another claim."""
        return replace(self, claimed=claimed, parts=tuple(part.against(claimed) for part in self.parts))

    @property
    def share(self) -> float:
        """Certified over claimed epsilon; NaN if there is no finite claim above 0."""
        return self.certified / self.claimed if 0 < self.claimed < math.inf else math.nan

    def as_dict(self) -> dict[str, Any]:
        """The fields and the verdict."""
        return asdict(self) | {"verdict": self.verdict}

    def table(self) -> str:
        """The result as text."""
        return audit_table([self])


def audit_table(results: Sequence[AuditResult]) -> str:
    """Results as text, one line each, followed by a line for each of their parts."""
    head = (
        "mechanism",
        "method",
        "attack",
        "claimed",
        "certified",
        "of claim",
        "cap",
        "trials",
        "n",
        "guesses",
        "correct",
    )
    rows: list[tuple[str, ...]] = [(*head, "verdict")]
    for r in (one for result in results for one in (result, *result.parts)):
        share = "-" if math.isnan(r.share) else f"{r.share:.0%}"
        epsilons = (f"{r.claimed:.4g}", f"{r.certified:.4g}", share, f"{r.cap:.3g}")
        counts = (f"{count:,}" for count in (r.trials, r.certifying, r.guesses, r.correct))
        rows.append((r.name, r.method, r.attack, *epsilons, *counts, r.verdict))
    notes = dict.fromkeys(
        f"certified: lower bound on epsilon{f' at delta = {r.delta:g}' * (r.delta > 0)} with confidence "
        f"{r.confidence:g}, from n trials; cap: the bound that n correct guesses would certify, ln(n / ln "
        f"{1 / (1 - (r.parts or (r,))[0].confidence):.6g})"
        for r in results
    )
    unread = ", ".join(dict.fromkeys(r.name for r in results if not r.bits))
    if unread:
        notes[
            f"{unread}: the lowest bits of floating-point noise were not read, since its sampler is an idealisation"
        ] = None
    return aligned([*rows, *notes], numbers=range(3, len(head)))


def plot_audits(results: Sequence[AuditResult], target: Any) -> Any:
    """Plot certified against claimed epsilon; results without a claim are placed at the right edge.

    Args:
        results: the results to plot.
        target: matplotlib axes, or a file to write; its suffix selects the format.

    Returns:
        The axes.
    """
    if isinstance(target, str | Path):
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise missing_extra("figures need matplotlib", "bench") from error
        figure = Figure(figsize=(5.0, 4.0), layout="constrained")
        axes = plot_audits(results, figure.add_subplot())
        figure.savefig(target)
        return axes
    finite = [r for r in results if math.isfinite(r.claimed)]
    top = max([1e-3, *(max(r.claimed, r.certified) for r in finite), *(r.certified for r in results)]) * 1.15
    target.plot([0, top], [0, top], color="0.6", linewidth=1, label="certified = claimed")
    for verdict, style in VERDICTS.items():
        some = [r for r in results if r.verdict == verdict]
        if some:
            at, result = [min(r.claimed, top) for r in some], [r.certified for r in some]
            target.plot(at, result, linestyle="none", clip_on=False, label=verdict, **style)
    target.set(xlim=(0, top), ylim=(0, top), xlabel="claimed epsilon", ylabel="certified epsilon")
    target.legend()
    return target
