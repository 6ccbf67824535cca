"""Results as tables of text, for the report and the terminal."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import RUNS, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.store import LIBRARIES, Manifest, states
from taciturn.bench.study import Study, Table, Verdict
from taciturn.privacy.composition import METHODS
from taciturn.privacy.spending import COVERS

NONE = "–"


def tables_of(study: Study, results: Results) -> list[Table]:
    """The study's own tables, or the standard ones."""
    own = study.tables(results)
    return standard_tables(study, results) if own is None else own


def standard_tables(study: Study, results: Results) -> list[Table]:
    """Utility, privacy, messages and time side by side; statistical certainty; every other metric; all facets
    together."""
    score = study.score

    def main(group: Group, reference: Group | None) -> dict[str, str]:
        row = {f"{score.title}": mean_text(group.metrics[score.metric])}
        if reference is not None:
            row["ratio to reference"] = compare(statistics.ratio, group, reference, score.metric)
        for name in privacy(group):
            row[spaced(name) + " per agent" * ("_per_" not in name)] = privacy_text(group.metrics[name])
        row |= {spaced(name): number(group.metrics[name].mean()) for name in messages(group)}
        return row | {"wall time": f"{group.wall_seconds.mean():.2g} s", "seeds": str(len(group.seeds))}

    corrected = _p_values(study, results)

    def certainty(group: Group, reference: Group | None) -> dict[str, str]:
        row = {"interquartile mean": estimate_text(statistics.iqm, group.metrics[score.metric])}
        if reference is not None:
            row["difference from reference"] = compare(statistics.difference, group, reference, score.metric)
            row["P(better than reference)"] = compare(_improvement(study), group, reference, score.metric)
            row["p of no difference (Holm)"] = p_text(corrected.get(id(group), math.nan))
        return row

    def rest(group: Group, reference: Group | None) -> dict[str, str]:
        shown = {score.metric, *privacy(group), *messages(group)}
        return {spaced(name): mean_text(values) for name, values in group.metrics.items() if name not in shown}

    means = (
        "Values are means over seeds. With three seeds or more, brackets show 95% intervals, without correction for "
        "multiple comparisons."
    )
    note = f"The score is {score.title} ({score.direction}). {means} Wall time is per configuration and seed."
    if set(privacy(*results)) & {f"epsilon_{method}" for method in METHODS}:
        note += f" Epsilons named after a method of composition are for a whole run, {COVERS}."
    many = (
        f"The p-values are from paired tests of the mean difference, corrected for the {len(corrected)} comparisons of "
        "this table (Holm 1979)."
    )
    paired = f"{means} Comparisons with the reference are paired by seed. {many if corrected else ''}".rstrip()
    tables = [
        _table("Results", note, study, results, main),
        _table("Statistical certainty", paired, study, results, certainty),
        _table("Other measures", means, study, results, rest),
        _overall(study, results),
        runs_table(study, results),
    ]
    return [table for table in tables if table.rows and len(table.columns) > len(table.words)]


def runs_table(study: Study, results: Results) -> Table:
    """The runs behind the means of a study with learners (`taciturn.bench.play.evaluate`): trainings or seeds, runs,
    and their outcomes."""

    def row(group: Group, reference: Group | None) -> dict[str, str]:
        if RUNS not in group.curves:
            return {}
        scores = np.array([values for _, values in group.curves[RUNS]])
        found = {"trainings or seeds": str(len(scores)), "runs of each": str(scores.shape[1])}
        found |= {"mean": mean_text(scores.mean(1)), "median of all runs": number(float(np.median(scores)))}
        wrong = group.metrics.get("wrong_option")
        return found if wrong is None else found | {"runs that end on a wrong option": f"{100 * wrong.mean():.1f}%"}

    note = (
        f"The score of single runs is {study.score.title}. Intervals are over trainings, or over seeds for policies "
        "without training."
    )
    return _table("Single runs", note, study, results, row)


def verdict_tables(verdicts: Sequence[Verdict]) -> list[Table]:
    """The paper's claims and the computed numbers, and our own checks: a table each, if there are any."""
    note = (
        f"{MEANINGS} Each interval shown has confidence 95% separately. The verdicts use wider intervals, with "
        "family-wise confidence 95% (Holm 1979)."
    )
    tables = []
    for title, own in (("The paper's claims", False), ("Our own checks", True)):
        rows = [(v.quantity, stated(v.paper), ours(v), v.verdict, why(v)) for v in verdicts if v.own is own]
        columns = ("check" if own else "claim", "expected" if own else "paper", "ours", "verdict")
        tables.append(Table(title, columns, rows, note, words=frozenset({0, 3}), explained=True))
    return [table for table in tables if table.rows]


MEANINGS = (
    "Agrees: the computed number, with its interval, lies within the tolerance of the paper's number, or meets the "
    "bound that the paper states. Qualitative: a direction or an order that the paper states in words holds. Differs: "
    "the claim does not hold. Undecided: the interval is too wide to decide. Cannot be computed: a reason is given."
)


def ours(verdict: Verdict) -> str:
    """The computed numbers with their intervals: `1.2 [1.1, 1.3]`, or `exact: 1; simulated: 1.2 [1.1, 1.3]`."""
    texts = [number(x.value) + (f" {interval(x[1:])}" if x.low < x.high else "") for x in verdict.numbers]
    named = zip(verdict.labels, texts, strict=bool(texts))
    return "; ".join(f"{label}: {text}" if label else text for label, text in named) or NONE


def why(verdict: Verdict) -> str:
    """The paper's words, the source of the tolerance, and the explanation."""
    tolerance = f"Tolerance: {verdict.tolerance}" if verdict.tolerance else ""
    parts = (verdict.quote, tolerance, verdict.reason)
    return " ".join(f"{part[:1].upper()}{part[1:].rstrip('.')}." for part in parts if part)


def origin_table(manifest: Manifest) -> Table:
    """Versions, machine, seeds and the command that reproduces the results, from a manifest."""
    libraries = ", ".join(f"{name} {version}" for name, version in manifest["libraries"].items())
    extras = ",".join(sorted({LIBRARIES.get(name, "") for name in manifest["libraries"]} - {""}))
    commit = manifest.get("commit", "unknown")
    checkout = "" if commit == "unknown" else f"git checkout {commit.removesuffix('-dirty')} && "
    rows = [
        ("reproduce with", f"{checkout}pip install '.[{extras}]' && {manifest['command']}"),
        ("taciturn", f"{manifest['taciturn']}, commit {commit}, code {', then '.join(states(manifest))}"),
        ("python", manifest["python"]),
        ("libraries", libraries),
        ("machine", f"{manifest['platform']}, {manifest['cpu_count']} cores"),
        ("seeds", "; ".join(f"{study}: {ranges(seeds)}" for study, seeds in manifest["seeds"].items())),
        ("started", manifest["started"]),
        ("finished", manifest["finished"] or "not finished"),
        ("earlier runs in this folder", str(len(manifest["earlier_runs"]))),
    ]
    return Table("Provenance", ("", ""), rows, words=frozenset({0, 1}))


def _table(
    title: str, note: str, study: Study, results: Results, row: Callable[[Group, Group | None], dict[str, str]]
) -> Table:
    """A row per configuration: its facets, its label, then `row(group, reference)` by column; rows without entries are
    left out."""
    lines, values = [], []
    for _, panel in study.panels(results):
        reference = study.reference_group(panel)
        for group in panel:
            facets = [stated(group.flat.get(name, NONE)) for name in study.facets]
            mark = " (reference)" if group is reference else ""
            lines.append([*facets, study.label(group, results) + mark])
            values.append(row(group, reference))
    columns = list(dict.fromkeys(name for line in values for name in line))
    heads = [*(spaced(name.rpartition(".")[2]) for name in study.facets), "configuration"]
    rows = [
        [*line, *(value.get(name, NONE) for name in columns)]
        for line, value in zip(lines, values, strict=True)
        if value
    ]
    return Table(title, [*heads, *columns], rows, note, frozenset(range(len(heads))))


def _overall(study: Study, results: Results) -> Table:
    kinds = (statistics.mean, statistics.iqm)
    relative = relative_scores(study, results)
    rows = [[label, *(estimate_text(kind, x) for kind in kinds)] for label, x in relative.items()]
    note = f"{study.score.title} over the reference's mean in each panel ({study.score.direction})."
    return Table("All panels", ("configuration", "mean", "interquartile mean"), rows, note)


def _p_values(study: Study, results: Results) -> dict[int, float]:
    """The p-value of every group compared with a reference, by its `id`."""
    found: dict[int, float] = {}
    for _, panel in study.panels(results):
        reference = study.reference_group(panel)
        for group in panel:
            if reference is not None and group is not reference:
                try:
                    found[id(group)] = statistics.p_value(*group.paired(reference, study.score.metric))
                except ValueError:
                    found[id(group)] = math.nan
    return dict(zip(found, statistics.holm(list(found.values())).tolist(), strict=True))


def compare(statistic: Callable[[Floats, Floats], Estimate], group: Group, reference: Group, metric: str) -> str:
    """A paired statistic of a group against the reference, over the seeds that both have finished."""
    return NONE if group is reference else estimate_text(statistic, *group.paired(reference, metric))


def _improvement(study: Study) -> Callable[[Floats, Floats], Estimate]:
    sign = 1 if study.score.higher_is_better else -1
    return lambda x, y: statistics.probability_of_improvement(sign * x, sign * y)


def estimate_text(statistic: Callable[..., Estimate], *samples: Floats) -> str:
    """`1.2 [1.1, 1.3]`, or a dash where the statistic is undefined (an infinite score, a ratio to zero)."""
    try:
        value, low, high = statistic(*samples)
    except ValueError:
        return NONE
    return f"{number(value)} {interval((low, high))}"


def mean_text(values: Floats) -> str:
    """The mean, formatted as by `estimate_text`; without an interval if a value is infinite."""
    value, low, high = estimate(values)
    return with_interval(value, (low, high))


def with_interval(value: float, bounds: Sequence[float]) -> str:
    """A value and its interval, if it has one."""
    return number(value) if math.isnan(bounds[0]) else f"{number(value)} {interval(bounds)}"


def privacy_text(values: Floats, of_a_message: Floats | None = None) -> str:
    """Mean privacy loss in words where it is 0 or infinite.

    Args:
        values: the losses.
        of_a_message: if `values` are for whole runs, the losses of the costliest messages: where these are finite,
            there is a mechanism although the run's loss is infinite.
    """
    if not np.isfinite(values).all():
        private = of_a_message is not None and np.isfinite(of_a_message).all()
        return "∞ (senders and times may leak)" if private else "∞ (no privacy)"
    return number(values.mean()) if values.any() else "0 (nothing sent)"


def privacy(*groups: Group) -> list[str]:
    """Names of the metrics that measure an agent's privacy loss."""
    return list(dict.fromkeys(name for group in groups for name in group.metrics if name.startswith("epsilon")))


def messages(group: Group) -> list[str]:
    """Names of the metrics that count messages."""
    return [name for name in group.metrics if name.startswith("messages")]


def relative_scores(study: Study, results: Results) -> dict[str, Floats]:
    """Scores divided by the mean of each facet's reference, {row label: [seeds, facets]}; empty unless all references
    are positive."""
    parts = [part for _, part in study.panels(results)]
    references = [study.reference_group(part) for part in parts]
    means = [group.metrics[study.score.metric].mean() if group else math.nan for group in references]
    if len(parts) < 2 or not all(0 < mean < math.inf for mean in means):
        return {}
    rows: dict[str, list[Floats]] = {}
    for part, scale in zip(parts, means, strict=True):
        for group in part:
            rows.setdefault(study.label(group, results), []).append(group.metrics[study.score.metric] / scale)
    whole = {
        label: columns
        for label, columns in rows.items()
        if len(columns) == len(parts) and len({len(column) for column in columns}) == 1
    }
    return {label: np.stack(columns, axis=1) for label, columns in whole.items() if np.isfinite(columns).all()}


def estimate(values: Floats) -> statistics.Estimate:
    """Mean and 95% interval; without an interval if a value is infinite."""
    if np.isfinite(values).all():
        return statistics.of_runs(values)
    return statistics.Estimate(float(values.mean()), math.nan, math.nan)


def number(value: float) -> str:
    """Four significant digits; all digits of a whole number."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < 1e9 and (abs(value) >= 999.5 or value == round(value)):
        return f"{value:,.0f}"
    return f"{value:#.4g}"


def p_text(p: float) -> str:
    """A p-value, two digits."""
    return NONE if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def interval(bounds: Sequence[float]) -> str:
    """`[low, high]`, or a dash if there is none."""
    return NONE if math.isnan(bounds[0]) else f"[{number(bounds[0])}, {number(bounds[1])}]"


def ranges(seeds: Sequence[int]) -> str:
    """Sorted integers with runs abbreviated: `0-19, 30`."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1][1:] = [seed]
        else:
            runs.append([seed])
    return ", ".join("-".join(map(str, run)) for run in runs)


def listed(names: Sequence[str]) -> str:
    """Names with commas, and an `and` before the last."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "none"


def spaced(name: str) -> str:
    """A name as words."""
    return name.replace("_", " ")


def stated(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
