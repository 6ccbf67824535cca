"""`taciturn audit`: audits of mechanisms by name, alone or in an environment."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from taciturn import wrappers
from taciturn.adjacent import Site, adjacent_messages, adjacent_pair
from taciturn.cli.arguments import population_of
from taciturn.cli.options import CODE, Json, Settings, Trust
from taciturn.cli.output import print_json
from taciturn.envs.core import number
from taciturn.mechanism_names import parse_mechanism
from taciturn.privacy.audit_result import AuditResult, audit_table, plot_audits
from taciturn.privacy.certifying import trials_for
from taciturn.wrappers.channels import Privatize

DEFAULT_TRIALS = 100_000
DEFAULT_RUNS = 10_000
MOST_TRIALS = 4_000_000
PLOTS = (".png", ".pdf", ".svg")


def audit(
    mechanism: Annotated[
        list[str], Argument(help="Mechanisms with their parameters, such as Laplace:1.0,sensitivity=0.5.")
    ],
    trials: Annotated[
        int | None,
        Option(help="Number of trials (default: enough messages to test the claim; with --env, 10,000 runs)."),
    ] = None,
    confidence: Annotated[float, Option(help="Confidence level of the certified lower bound.")] = 0.95,
    method: Annotated[
        str | None,
        Option(
            help="Attack: white (the mechanism's likelihood ratio), black (learned from transcripts), both, or one-run."
        ),
    ] = None,
    delta: Annotated[float | None, Option(help="Delta of the claim (default: the mechanism's own).")] = None,
    env: Annotated[str | None, Option(help="Audit whole runs of this environment instead of single messages.")] = None,
    policy: Annotated[str, Option(help=f"Policy that acts in --env, as for run. {CODE}.")] = "Random",
    settings: Settings = None,
    trust: Trust = False,
    channel: Annotated[str | None, Option(help="Channel of the mechanisms (default: the only channel).")] = None,
    steps: Annotated[int | None, Option(help="Number of turns in a run (default: until it ends).")] = None,
    seed: int = 0,
    plot: Annotated[Path | None, Option(help="File for a figure of claimed against certified epsilon.")] = None,
    as_json: Json = False,
) -> None:
    """Test privacy claims: compare the epsilon that an attack certifies with the claimed epsilon."""
    from taciturn.bench.progress import bar, stderr

    site = None
    if plot is not None and (plot.suffix.lower() not in PLOTS or not plot.parent.is_dir()):
        raise ValueError(f"--plot must be a file ({', '.join(PLOTS)}) in a folder that exists, not {plot}")
    if env is not None:
        make, actor, _ = population_of(env, policy, settings)
        site = Site(make(1), actor, channel, steps)
    given = {"trials": trials, "confidence": confidence, "method": method, "delta": delta, "seed": seed}
    with bar(stderr(), 1, shown=not as_json) as shown:
        results = audit_all(mechanism, site, shown.running, **given)
    if plot is not None:
        plot_audits(results, plot)
    replay = None if site is None else _replayed(site, mechanism)
    if as_json:
        print_json({"audits": [result.as_dict() for result in results]} | ({"replay": str(replay)} if replay else {}))
    else:
        print(audit_table(results))
        if replay is not None and not isinstance(replay, AssertionError):
            print(replay)
    if isinstance(replay, AssertionError):
        raise ValueError(str(replay))
    broken = [result.name for result in results if result.verdict == "violated"]
    if broken:
        raise ValueError(f"the claim of {', '.join(broken)} is violated")


def audit_all(
    specs: Sequence[str], site: Site | None = None, progress: Callable[[str, float], None] | None = None, **given: Any
) -> list[AuditResult]:
    """Audit mechanisms by name (`parse_mechanism`), each by `taciturn.wrappers.audit` with the arguments `given`.

    `site` is the channel on which each mechanism is installed, to audit the accountant's total after a run; without it,
    single messages are audited. `progress` is called with the specification being audited and the share of all work
    that is done.
    """
    given = {"confidence": 0.95} | {key: value for key, value in given.items() if value is not None}
    number("confidence", given["confidence"], above=0, below=1)
    subjects = [_subject(spec, parse_mechanism(spec), site) | given for spec in specs]
    results = []
    for place, (spec, subject) in enumerate(zip(specs, subjects, strict=True)):
        count = subject.setdefault(
            "trials", DEFAULT_RUNS if site else _enough(subject["mechanism"], given["confidence"])
        )

        def report(done: int, spec: str = spec, place: int = place, count: int = count) -> None:
            if progress is not None:
                progress(spec, (place + done / count) / len(specs))

        results.append(wrappers.audit(**subject, progress=report))
    return results


def _subject(spec: str, mechanism: Any, site: Site | None) -> dict[str, Any]:
    """The arguments of `taciturn.wrappers.audit` that follow from a specification."""
    if site is None:
        own = getattr(getattr(mechanism, "mechanism", mechanism), "sensitivity", None)
        return {"mechanism": mechanism, "pair": adjacent_pair(mechanism), "name": spec, "sensitivity": own or 1.0}
    known = {"policy": site.policy, "steps": site.steps, "delta": getattr(mechanism, "delta", 0.0)}
    private, pair = Privatize(site.env, site.name, mechanism), {site.name: adjacent_messages(site, mechanism)}
    return {"mechanism": private, "pair": pair, "name": f"{site.name}={spec}"} | known


def _replayed(site: Site, specs: Sequence[str]) -> Any:
    """The outcome of a replay of the environment (`taciturn.testing.replayed`): its result, or its AssertionError."""
    from taciturn.testing.replays import TURNS, replayed

    turns = TURNS if site.steps is None else site.steps
    try:
        return replayed(site.env, {site.name: parse_mechanism(specs[0])}, site.policy, turns)
    except AssertionError as error:
        return error


def _enough(mechanism: Any, confidence: float) -> int:
    """Trials that certify 80% of the claim of a mechanism, at most `MOST_TRIALS`."""
    claimed = getattr(mechanism, "epsilon", math.inf)
    return min(trials_for(claimed, confidence), MOST_TRIALS) if math.isfinite(claimed) else DEFAULT_TRIALS
