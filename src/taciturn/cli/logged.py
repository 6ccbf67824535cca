"""`taciturn logged ratings` and `taciturn logged bandit`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option, Typer

from taciturn.cli.arguments import any_declares, mechanisms_of, pairs, policies_by_name
from taciturn.cli.options import CODE, Json, Trust
from taciturn.cli.output import print_json
from taciturn.envs.core import integer
from taciturn.privacy.spending import COVERS
from taciturn.registry import make_world
from taciturn.simulation import simulate
from taciturn.terminal import aligned, counted
from taciturn.validation import shown as spelled

logged = Typer(
    help="Run recommender policies on logged data: in a simulator fitted to ratings, or off-policy on the log of "
    "a bandit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Policies = Annotated[str, Option("--policy", help=f"Comma-separated policies, each as for run. {CODE}.")]
Columns = Annotated[
    list[str] | None,
    Option("--column", help="Header of a column in the file, column=header: user=customer (repeatable)."),
]
OWN = "A parameter of a policy, policy.NAME.key=value, or policy.key=value if there is only one"


@logged.command(
    epilog="Example: taciturn logged ratings ml-25m/ratings.csv --policy Random,LinUCB,TPriDO --until 500 --set "
    "num_agents=4",
)
def ratings(
    file: Annotated[Path, Argument(help="File of ratings: user,item,rating,timestamp, with or without a header.")],
    policy: Policies,
    like: Annotated[float, Option(help="Lowest rating that counts as liked.")] = 4.0,
    context_dim: Annotated[int, Option(help="Dimension of contexts, 1 to 6.")] = 3,
    num_items: Annotated[int, Option(help="Maximum number of items.")] = 4000,
    held_out: Annotated[float, Option(help="Share of the latest ratings to hold out.")] = 0.2,
    column: Columns = None,
    settings: Annotated[list[str] | None, Option("--set", help=f"{OWN}; or of the environment, key=value.")] = None,
    privacy: Annotated[str | None, Option(help="CHANNEL=MECHANISM:EPSILON[,parameter=value], as for run.")] = None,
    trust: Trust = False,
    seeds: Annotated[int, Option(help="Number of runs of each policy, with seeds 0, 1, ...")] = 5,
    until: Annotated[int, Option(help="Number of rounds in a run.")] = 1000,
    as_json: Json = False,
) -> None:
    """Fit a simulator to ratings, print its held-out error, and play policies in it.

    The latest ratings are held out, and the simulator of mean rewards is fitted to the others. Its values for unrated
    items are estimates, so policies are compared in a model of the data, not on the data.
    """
    from taciturn.bench.progress import bar, stderr
    from taciturn.bench.tables import estimate, privacy_text
    from taciturn.logged import fit_ratings

    integer("--seeds", seeds, at_least=1, at_most=2**63 - 1)
    integer("--until", until, at_least=1)
    actors, others = policies_by_name(policy, settings)
    metrics: dict[str, dict[str, list[float]]] = {name: {} for name in actors}
    with bar(stderr(), 1 + len(actors) * seeds, shown=not as_json) as shown:
        family = fit_ratings(
            file,
            like=like,
            context_dim=context_dim,
            num_items=num_items,
            held_out=held_out,
            columns=pairs("--column", column),
            progress=lambda share, what: shown.running(what, share),
        )
        shown.finished("fitted")
        try:
            population = make_world("recommender_v0").population(family=family, **others)
        except TypeError as error:
            raise ValueError(f"recommender_v0 cannot take {spelled(others)}: {error}") from error
        mechanisms = None if privacy is None else mechanisms_of(privacy, list(population.channels))
        for name, actor in actors.items():
            for seed in range(seeds):
                shown.running(f"{name}, seed {seed}")
                run = simulate(population, actor, seed=seed, until=until, privacy=mechanisms)
                for metric, values in run.metrics.items():
                    metrics[name].setdefault(metric, []).append(float(values[0]))
                shown.finished(f"{name}, seed {seed}")
    if as_json:
        about = {"file": str(file), "rewards": family.title, "held_out": vars(family.held_out), "until": until}
        print_json(about | {"seeds": list(range(seeds)), "policies": metrics})
        return
    print(f"{family!r}")
    print(
        f"recommender_v0, {family.title}, {counted(seeds, 'seed')}, {until:,} rounds: means and 95% intervals of "
        "rewards and regret"
    )
    epsilon = f"epsilon {COVERS}" * (privacy is not None)
    rows = [("policy", "expected reward", "", "regret", "", "shared", epsilon)]
    for name, of_policy in metrics.items():
        reward, regret = (_interval(estimate(np.array(of_policy[key]))) for key in ("expected_reward", "regret"))
        spent = privacy_text(np.array(of_policy["epsilon_basic"])) if privacy is not None else ""
        rows.append((name, *reward, *regret, f"{np.mean(of_policy['shared']):.3f}", spent))
    print(aligned(rows, indent=2))
    if knowing := [name for name, actor in actors.items() if actor.needs_truth]:
        print(f"knows the hidden truth: {', '.join(knowing)}")
    if centralised := [name for name, actor in actors.items() if any_declares(actor, "centralised")]:
        print(f"centralised: {', '.join(centralised)}")


@logged.command(
    epilog="Example: taciturn logged bandit all.csv --position 1 --policy Random,LinUCB --set "
    "policy.LinUCB.kind=disjoint",
)
def bandit(
    file: Annotated[
        Path, Argument(help="Log with columns item_id (or action), click, propensity_score, and contexts.")
    ],
    policy: Policies,
    estimator: Annotated[
        str,
        Option(
            help="Estimator: replay (uniform logs), ips, snips, dr, or all; auto is replay for a uniform log, "
            "else the others."
        ),
    ] = "auto",
    context: Annotated[str | None, Option(help="Comma-separated context columns.")] = None,
    context_dim: Annotated[int, Option(help="Largest dimension of contexts, 1 to 9.")] = 5,
    items: Annotated[Path | None, Option(help="File of item features: item_id and columns of numbers.")] = None,
    position: Annotated[str | None, Option(help="Keep only rows with this position.")] = None,
    sort: Annotated[bool, Option("--sort", help="Sort rows by timestamp.")] = False,
    column: Columns = None,
    learn: Annotated[
        float, Option(help="Share of the rows for training, before the evaluation (not for replay).")
    ] = 0.5,
    draws: Annotated[int, Option(help="Number of actions that a stochastic policy draws on a row.")] = 1,
    lowest_propensity: Annotated[
        float | None, Option(help="Lowest propensity of the logging policy (default: the lowest in the log).")
    ] = None,
    interval: Annotated[
        str,
        Option(help="Interval: betting (holds for any number of rows) or student (narrower, for many effective rows)."),
    ] = "betting",
    settings: Annotated[list[str] | None, Option("--set", help=f"{OWN}.")] = None,
    trust: Trust = False,
    seed: Annotated[int, Option(help="Seed of the policies.")] = 0,
    as_json: Json = False,
) -> None:
    """Estimate the reward of policies from a log that another policy wrote.

    Replay lets a policy learn from the rows with its own action. The other estimators train the policy on the first
    part of the rows and evaluate it with inverse propensity weights. The table gives the matching rows, the effective
    sample size, and the mean weight, which is about 1 unless the policy takes actions that the log never takes.
    """
    from taciturn.bench.progress import bar, stderr
    from taciturn.logged import evaluate, read_bandit

    actors, others = policies_by_name(policy, settings)
    if others:
        raise ValueError(f"--set must name a parameter of a policy, as policy.key=value, not {next(iter(others))!r}")
    with bar(stderr(), 1 + len(actors), shown=not as_json) as shown:
        log = read_bandit(
            file,
            context=[name.strip() for name in context.split(",")] if context else None,
            context_dim=context_dim,
            items=items,
            position=position,
            sort=sort,
            columns=pairs("--column", column),
            progress=lambda share, what: shown.running(what, share),
        )
        shown.finished("read")
        estimates = {}
        for name, actor in actors.items():
            estimates[name] = evaluate(
                log,
                actor,
                estimator=estimator,
                learn=learn,
                draws=draws,
                lowest_propensity=lowest_propensity,
                interval=interval,
                seed=seed,
                progress=lambda share, what: shown.running(what, share),
            )
            shown.finished(name)
    if as_json:
        about: dict[str, Any] = {
            "file": str(file),
            "rows": len(log),
            "actions": len(log.names),
            "uniform": log.uniform,
            "seed": seed,
            "clicks": float(log.click.mean()),
            "positions": log.positions,
            "interval": interval,
            "learn": learn,
        }
        print_json(about | {"policies": {name: [vars(one) for one in some] for name, some in estimates.items()}})
        return
    print(f"{log!r}")
    print(f"clicks a round, with 95% intervals ({interval})")
    rows = [("policy", "estimator", "value", "", "rows", "matches", "effective", "mean weight")]
    for name, some in estimates.items():
        for one in some:
            value = _interval((one.value, one.low, one.high))
            counts = (f"{one.rows}", f"{one.matches}", f"{one.effective:.1f}", f"{one.mean_weight:.3f}")
            rows.append((name, one.estimator, *value, *counts))
    print(aligned(rows, indent=2))
    for name, some in estimates.items():
        for doubt in dict.fromkeys(one.doubt for one in some if one.doubt):
            print(f"{name} has no interval: {doubt}")


def _interval(estimate: tuple[float, float, float]) -> tuple[str, str]:
    value, low, high = estimate
    return f"{value:.4f}", "" if np.isnan(low) else f"[{low:.4f}, {high:.4f}]"
