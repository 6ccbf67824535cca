"""The command line: `taciturn list | show | run | train | logged | bench | reproduce | gather | report | audit`."""

import gc
import json
import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np

from taciturn.agents import bring
from taciturn.auditing import Site, audit_command, json_values, named_mechanisms, parse_mechanism, parsed
from taciturn.envs.core import integer
from taciturn.policies.trust import VARIABLE
from taciturn.registry import UnknownName, entries, make_world, one_agent, policies, worlds
from taciturn.simulation import simulate
from taciturn.validation import shown as spelled

if TYPE_CHECKING:
    from taciturn.bench.store import Store
    from taciturn.bench.study import Study
    from taciturn.bench.tasks import Task

Play = Callable[[int, int], dict[str, Any]]
EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
LONGEST = 690
"""How long an error can be."""
BLOCK = 100
"""Runs that `taciturn run` plays at once."""


def main() -> None:
    """Entry point. Every error is one line on stderr and a non-zero exit code; `--debug` shows the traceback."""
    arguments = sys.argv[1:]
    gc.freeze()  # what is imported by now stays: to look through it for garbage is a fifth of `taciturn list`
    warnings.formatwarning = lambda message, *_: f"taciturn: {message}\n"
    sys.path.insert(0, "")  # so that module:Class finds the modules of the current folder, as `python -m` does
    debug = "--debug" in arguments
    if sys.stderr.isatty():
        # Importing learners can take seconds; what is printed next overwrites this.
        starting = threading.Timer(1.0, lambda: print("starting", end="\r", file=sys.stderr, flush=True))
        starting.daemon = True
        starting.start()
    try:
        import rich  # noqa: F401
        import typer
    except ImportError as error:
        _fail(f"the command line needs {error.name}: run pip install '.[bench]' in a clone of taciturn", EXIT_FAILED)
    try:
        command = typer.main.get_command(_app())
        code = command([a for a in arguments if a != "--debug"], prog_name="taciturn", standalone_mode=False)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if hasattr(error, "format_message"):
            asked = getattr(getattr(error, "ctx", None), "command_path", "taciturn")
            _fail(f"{error.format_message()} (see {asked} --help)", EXIT_USAGE)
        if debug:
            raise
        known = isinstance(error, ValueError | ImportError | OSError) or type(error).__module__.startswith("taciturn.")
        text = " ".join(str(error).split()) or type(error).__name__
        _fail(text if known else f"{type(error).__name__}: {text} (--debug shows where)", EXIT_FAILED)
    sys.exit(code or 0)


def _fail(text: str, code: int) -> NoReturn:
    # Names from files and other people may hold what a terminal would obey.
    told = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    told = told if len(told) <= LONGEST else f"{told[: LONGEST - 25]}... (--debug shows all)"
    print(f"taciturn: {told}", file=sys.stderr)
    sys.exit(code)


def _app() -> Any:
    from typer import Argument, Exit, Option, Typer

    app = Typer(
        help="Environments in which agents learn together without telling each other what they know.",
        epilog="--debug shows the traceback of an error.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    Out = Annotated[Path, Option(help="Folder for the results and the report.")]
    Quick = Annotated[bool, Option("--quick", help="Few seeds and short runs.")]
    Backend = Annotated[str, Option(help="serial, process or ray.")]
    Workers = Annotated[int | None, Option(help="Processes (default: one per core).")]
    Timeout = Annotated[float | None, Option(help="Seconds that a cell may take (backend process).")]
    Shard = Annotated[str | None, Option(help="i/n: run every n-th cell, from the i-th on (see gather).")]
    Where = Annotated[
        list[str] | None,
        Option(
            help="Only the cells whose configuration has this entry, key=value, as tables name it: policy=PPCL "
            "(repeatable)."
        ),
    ]
    Resume = Annotated[bool, Option("--resume", help="Keep the finished cells of an earlier run in --out.")]
    set_help = "A parameter, key=value: of the environment, or of the policy as policy.key=value."
    Settings = Annotated[list[str] | None, Option("--set", help=set_help)]
    Json = Annotated[bool, Option("--json", help="Print one JSON document.")]
    code_help = (
        "A module runs as it is loaded, and so does a file that can hold code, which must be from this user or needs "
        "--trust"
    )

    def trusts(asked: bool) -> bool:
        if asked:
            os.environ[VARIABLE] = "1"  # for worker processes too
        return asked

    trust_help = (
        "Load saved agents that can run code as they are loaded: checkpoints of RLlib, actors of TorchRL, models with "
        "classes of their author's own, and what another user or machine has trained."
    )
    Trust = Annotated[bool, Option("--trust", callback=trusts, help=trust_help)]

    def print_version(asked: bool) -> None:
        if asked:
            from importlib.metadata import version

            print(f"taciturn {version('taciturn')}")
            raise Exit()

    @app.callback()
    def common(
        version: Annotated[
            bool, Option("--version", callback=print_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        pass

    @app.command()
    def show(
        name: Annotated[
            str, Argument(help="An environment, a policy, a mechanism or a task, as taciturn list names it.")
        ],
    ) -> None:
        """Describe an environment, a policy, a mechanism or a task."""
        from taciturn.bench.tasks import TASKS
        from taciturn.describing import described

        if name in TASKS:
            from taciturn.bench.scales import scale_of

            scale = scale_of(TASKS[name])
            print(name)
            _print_table([*TASKS[name].facts, *([("score", str(scale))] if scale else [])])
        else:
            print(described(name))

    @app.command("list")
    def list_(
        kind: Annotated[
            str | None, Argument(help="environments, policies, mechanisms, tasks, studies or figures (default: all).")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """List the environments, policies, mechanisms, tasks, studies and figures."""
        from taciturn.bench.catalogue import figures, load_studies
        from taciturn.bench.tasks import TASKS

        studies, known = load_studies(), worlds()
        found = {
            "environments": {entry.id: entry.name for entry in entries() if entry.name in known},
            "policies": {
                name: _first_line(policy)
                + " It knows the hidden truth." * (policy.needs_truth is True)
                + " Its agents share a mind." * (policy.pools is True)
                for name, policy in policies().items()
            },
            "mechanisms": {name: _first_line(mechanism) for name, mechanism in named_mechanisms().items()},
            "tasks": {id_: task.variant.what for id_, task in TASKS.items()},
            "studies": {name: study.title for name, study in studies.items()},
            "figures": {figure: study.title for figure, study in sorted(figures(studies).items())},
        }
        if kind not in (None, *found):
            raise UnknownName("kind", kind, found)
        chosen = list(found) if kind is None else [kind]
        if as_json:
            print(json.dumps({name: found[name] for name in chosen}))
            return
        world_lines = {id_: f"{name:22} {_first_line(known[name])}" for id_, name in found["environments"].items()}
        sections = {"environments": {"": world_lines}, "policies": _by_module(found["policies"])}
        sections |= {kind: {"": found[kind]} for kind in ("mechanisms", "tasks", "studies", "figures")}
        sections = {name: sections[name] for name in chosen}
        width = max(len(name) for parts in sections.values() for rows in parts.values() for name in rows)
        for section, parts in sections.items():
            print(section.upper())
            for title, rows in parts.items():
                if title:
                    print(f"  {title}")
                for name, text in rows.items():
                    print(f"    {name:{width}}  {text}")

    @app.command()
    def run(
        env: Annotated[str, Argument(help="An environment, its id or name; or a task (taciturn list tasks).")],
        policy: Annotated[
            str,
            Option(
                help="A policy's name, module:Class, or a saved agent, sb3:model.zip (also onnx:, torchrl:, rllib:, or "
                "a folder of train); ROLE=NAME,ROLE=NAME where there are several roles (and --set "
                "policy.ROLE.parameter=value). "
                f"{code_help}."
            ),
        ],
        settings: Settings = None,
        trust: Trust = False,
        privacy: Annotated[
            str | None,
            Option(
                help="MECHANISM:EPSILON[,parameter=value], on the environment's channel; or CHANNEL=MECHANISM:...; or "
                "paper, for what the policy's paper prescribes."
            ),
        ] = None,
        runs: Annotated[
            int, Option("--runs", "--seeds", help="How many runs; they are played at once, as arrays.")
        ] = 10,
        seed: Annotated[int, Option(help="Determines every random draw of all runs.")] = 0,
        until: Annotated[float | None, Option(help="Horizon, in the environment's unit of time.")] = None,
        as_json: Json = False,
    ) -> None:
        """Run a policy in an environment, or in a task of the benchmark as the study agents plays it, and print the
        results."""
        from taciturn.bench.progress import bar, stderr
        from taciturn.bench.tables import estimate, privacy_text
        from taciturn.bench.tasks import TASKS

        integer("--runs", runs, at_least=1, at_most=2**63 - 1)
        integer("--seed", seed, at_least=0, at_most=2**63 - 1)
        if env.count("/") == 2 and env not in TASKS:
            raise UnknownName("task", env, TASKS)
        if env in TASKS:
            fixed = {"--privacy": privacy, "--until": until}
            play, actor, given, pooled = _task(TASKS[env], policy, settings or [], fixed, seed)
        else:
            play, actor, given = _world(env, policy, settings or [], privacy, until)
            pooled = "it says so" if _any(actor, "pools") else ""
        blocks = []
        with bar(stderr(), runs, shown=not as_json) as shown:
            for first in range(0, runs, BLOCK):
                size = min(BLOCK, runs - first)
                shown.running(f"{first + size} of {runs} runs")
                blocks.append(play(size, seed + first))
                shown.finished(f"{first + size} of {runs} runs", size)
        rows: dict[str, dict[str, Any]] = {}
        for name in blocks[0]:
            values = np.concatenate([block[name] for block in blocks])
            known = values[~np.isnan(values)]
            value, low, high = estimate(known) if known.size else (None, None, None)
            rows[name] = {"mean": value, "low": low, "high": high, "values": values}
        if as_json:
            about = {"env": env, "policy": policy, "set": given, "privacy": privacy, "seed": seed, "runs": runs}
            about["pooled"] = bool(pooled)
            print(json.dumps(json_values(about | {"metrics": rows})))
            return
        mark = ", which knows the hidden truth" * _any(actor, "needs_truth") + " (pooled)" * bool(pooled)
        print(f"{env}, {actor!r}{mark}, {runs} runs: mean and 95% interval")
        if pooled:
            print(f"pooled, and never ranked: its agents share a mind ({pooled})")
        if env in TASKS:
            print(f"task: {TASKS[env].variant.what}; measure: {TASKS[env].aim}")
            if "score" in rows:
                from taciturn.bench.scales import scale_of

                print(f"score: {scale_of(TASKS[env])}")
        width = max(map(len, rows))
        for name, row in rows.items():
            interval = "" if row["low"] is None or np.isnan(row["low"]) else f"  [{row['low']:.6g}, {row['high']:.6g}]"
            mean = "-" if row["mean"] is None else format(row["mean"], ".6g")
            if name.startswith("epsilon") and row["mean"] in (0, math.inf):
                mean = privacy_text(row["values"], rows["epsilon_message"]["values"])
            print(f"  {name:{width}}  {mean}{interval}")

    @app.command("train")
    def train_(
        env: Annotated[str, Argument(help="An environment: its id or name.")],
        steps: Annotated[int, Option(help="Environment steps, counted over agents and replicas.")],
        out: Annotated[Path, Option(help="Folder for the agent; `run --policy FOLDER` plays it.")],
        algorithm: Annotated[
            str,
            Option(
                help="A class of Stable-Baselines3 or sb3-contrib (PPO, DQN, RecurrentPPO, ...), or a learner's name."
            ),
        ] = "PPO",
        settings: Settings = None,
        file: Annotated[Path | None, Option("--settings", help="A YAML file with settings of the algorithm.")] = None,
        privacy: Annotated[str | None, Option(help="MECHANISM:EPSILON[,parameter=value], as for run.")] = None,
        num_envs: Annotated[int, Option(help="Replicas in training.")] = 16,
        evaluations: Annotated[int, Option(help="How often it is saved, and evaluated in fresh runs.")] = 10,
        seed: int = 0,
        resume: Annotated[bool, Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
        trust: Annotated[
            bool,
            Option(
                "--trust",
                help="Go on from a checkpoint of another user or machine, which can run code as it is loaded.",
            ),
        ] = False,
    ) -> None:
        """Train an agent, and keep it in a folder with its evaluations and checkpoints."""
        from taciturn.bench.progress import bar, stderr
        from taciturn.bench.train import train

        own, others = _settings(settings or [])
        mechanisms = {} if privacy is None else _privacy(privacy, list(one_agent(env, 1, others).channels))
        if isinstance(mechanisms, str):
            raise ValueError(
                f"--privacy must be a mechanism, because no paper prescribes one for {algorithm}, not {privacy!r}"
            )
        with bar(stderr(), 1) as shown:
            train(
                env,
                algorithm,
                steps=steps,
                out=out,
                seed=seed,
                params=others,
                privacy=mechanisms,
                settings=own,
                file=file,
                num_envs=num_envs,
                evaluations=evaluations,
                resume=resume,
                trust=trust,
                progress=lambda done, text: shown.running(text, done),
            )
        print(f"trained: {out} (taciturn run {env} --policy {out})")
        print((out / "evaluations.csv").read_text(encoding="utf-8"), end="")

    def play(
        studies: list[Any], out: Path, backend: Any, as_json: bool, resume: bool, where: list[str] | None, **how: Any
    ) -> None:
        """Run studies and write their report; a shard has none."""
        from taciturn.bench.runner import BACKENDS, run_study
        from taciturn.bench.store import Store

        if backend not in BACKENDS:
            raise UnknownName("backend", backend, BACKENDS)
        store = Store(out)
        entries = _entries("--where", where or [])
        summary = run_study(studies, store, backend=backend, progress=not as_json, resume=resume, where=entries, **how)
        failed = [str(file) for file in summary.failed]
        about = {"cells": summary.planned, "reused": summary.reused, "failed": failed}
        shard, ours = how["shard"], summary.planned - len(failed)
        if shard is None:
            _report(store, studies, as_json, about)
        elif as_json:
            print(json.dumps({"shard": shard} | about))
        else:
            print(f"{ours} cells of shard {shard}: {out} (taciturn gather puts all shards together)")
        if failed:
            raise ValueError(f"{len(failed)} of {summary.planned} cells failed: see {store.failed}")

    @app.command()
    def bench(
        names: Annotated[
            list[str] | None,
            Argument(
                metavar="STUDY",
                help="Studies to run, as taciturn list studies names them (default: the standing benchmark, agents and "
                "privacy-totals).",
            ),
        ] = None,
        out: Out = Path("results"),
        agent: Annotated[
            list[str] | None,
            Option(
                help="An agent of your own, as for run --policy, that takes part in the study agents, in every world "
                "that it fits (repeatable). "
                f"{code_help}."
            ),
        ] = None,
        trust: Trust = False,
        where: Where = None,
        quick: Quick = False,
        backend: Backend = "process",
        workers: Workers = None,
        timeout: Timeout = None,
        shard: Shard = None,
        resume: Resume = False,
        as_json: Json = False,
    ) -> None:
        """Run studies and write their report."""
        from taciturn.bench.catalogue import studies_named

        studies = studies_named(names or (["agents"] if agent else []))
        if agent:
            from taciturn.bench.comparisons.kinds import joined

            studies = joined(studies, agent)
        play(studies, out, backend, as_json, resume, where, quick=quick, workers=workers, timeout=timeout, shard=shard)

    @app.command()
    def reproduce(
        names: Annotated[
            list[str] | None,
            Argument(
                metavar="FIGURE",
                help="A figure or table (li2022/4, li2022/table-1), a chapter (jiang2020/3) or a paper (li2022); "
                "default: all.",
            ),
        ] = None,
        out: Out = Path("results/reproduction"),
        where: Where = None,
        quick: Quick = False,
        backend: Backend = "process",
        workers: Workers = None,
        timeout: Timeout = None,
        shard: Shard = None,
        resume: Resume = False,
        as_json: Json = False,
    ) -> None:
        """Reproduce published figures and compare the papers' claims with the results."""
        from taciturn.bench.catalogue import studies_of_figures

        studies = studies_of_figures(names or [])
        play(studies, out, backend, as_json, resume, where, quick=quick, workers=workers, timeout=timeout, shard=shard)

    @app.command()
    def audit(
        mechanism: Annotated[list[str], Argument(help="Mechanisms, as Laplace:1.0,sensitivity=0.5.")],
        trials: Annotated[
            int | None, Option(help="Messages of a mechanism (default: what its claim needs), or runs (10,000).")
        ] = None,
        confidence: Annotated[float, Option(help="Of what is certified.")] = 0.95,
        method: Annotated[str | None, Option(help="white, black, both or one-run.")] = None,
        delta: Annotated[float | None, Option(help="Of the claim (default: the mechanism's own).")] = None,
        env: Annotated[
            str | None, Option(help="Audit what runs of this environment tell, not single messages.")
        ] = None,
        policy: Annotated[str, Option(help=f"Who acts in it, as for run. {code_help}.")] = "Random",
        settings: Settings = None,
        trust: Trust = False,
        channel: Annotated[
            str | None, Option(help="Where the mechanisms stand (default: on the only channel).")
        ] = None,
        steps: Annotated[int | None, Option(help="Turns of a run (default: until it ends).")] = None,
        seed: int = 0,
        plot: Annotated[Path | None, Option(help="Where to draw claimed against certified epsilon.")] = None,
        as_json: Json = False,
    ) -> None:
        """Try to break privacy claims: the epsilon that an attacker can certify, beside the epsilon that is claimed."""
        from taciturn.bench.progress import bar, stderr

        site = None
        if env is not None:
            make, actor, _ = _population(env, policy, settings or [])
            population = make(1)
            site = Site(population, actor, channel, steps)
        known: dict[str, Any] = {"trials": trials, "confidence": confidence, "method": method, "delta": delta}
        with bar(stderr(), 1, shown=not as_json) as shown:
            results = audit_command(
                mechanism, site=site, seed=seed, as_json=as_json, plot=plot, progress=shown.running, **known
            )
        broken = [result.name for result in results if result.verdict == "violated"]
        if broken:
            raise ValueError(f"the claim of {', '.join(broken)} is violated")

    logged = Typer(
        help="Policies of the recommender on logged data: in a simulator fitted to ratings, or off policy on the log "
        "of a bandit.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(logged, name="logged")
    Policies = Annotated[
        str, Option("--policy", help=f"Policies with commas between them, each as run takes it. {code_help}.")
    ]
    own_help = "A parameter of a policy, policy.NAME.key=value, or policy.key=value if there is only one"

    @logged.command(
        "ratings",
        epilog="Example: taciturn logged ratings ml-25m/ratings.csv --policy Random,LinUCB,TPriDO --until 500 --set "
        "num_agents=4",
    )
    def ratings_(
        file: Annotated[Path, Argument(help="Ratings: user,item,rating,timestamp, with or without a header.")],
        policy: Policies,
        like: Annotated[float, Option(help="The lowest rating that means that a user liked an item.")] = 4.0,
        context_dim: Annotated[int, Option(help="Dimension of contexts, 1 to 6.")] = 3,
        num_items: Annotated[int, Option(help="How many items to keep, at most.")] = 4000,
        held_out: Annotated[float, Option(help="Share of the ratings, the latest, that is held out.")] = 0.2,
        settings: Annotated[
            list[str] | None, Option("--set", help=f"{own_help}; or of the environment, key=value.")
        ] = None,
        privacy: Annotated[str | None, Option(help="CHANNEL=MECHANISM:EPSILON[,parameter=value], as for run.")] = None,
        trust: Trust = False,
        seeds: Annotated[int, Option(help="How many runs of each policy, with seeds 0, 1, ...")] = 5,
        until: Annotated[int, Option(help="Rounds of a run.")] = 1000,
        as_json: Json = False,
    ) -> None:
        """Fit a simulator to ratings, print its held-out error, and play policies in it.

        The latest ratings are held out, and the simulator of mean rewards is fitted to the others. What it says of an
        item that a user never rated is a guess: policies are compared in a world that is like the data, not on the
        data.
        """
        from taciturn.bench.progress import bar, stderr
        from taciturn.bench.tables import estimate, privacy_text
        from taciturn.logged import fit_ratings

        integer("--seeds", seeds, at_least=1, at_most=2**63 - 1)
        integer("--until", until, at_least=1)
        actors, others = _policies(policy, settings or [])
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in actors}
        with bar(stderr(), 1 + len(actors) * seeds, shown=not as_json) as shown:
            family = fit_ratings(
                file,
                like=like,
                context_dim=context_dim,
                num_items=num_items,
                held_out=held_out,
                progress=lambda share, what: shown.running(what, share),
            )
            shown.finished("fitted")
            try:
                population = make_world("recommender_v0").population(family=family, **others)
            except TypeError as error:
                raise ValueError(f"recommender_v0 cannot take {spelled(others)}: {error}") from error
            mechanisms = None if privacy is None else _privacy(privacy, list(population.channels))
            for name, actor in actors.items():
                for seed in range(seeds):
                    shown.running(f"{name}, seed {seed}")
                    found = simulate(population, actor, seed=seed, until=until, privacy=mechanisms).metrics
                    runs[name].append({key: float(value[0]) for key, value in found.items()})
                    shown.finished(f"{name}, seed {seed}")
        metrics = {name: {key: [one[key] for one in found] for key in found[0]} for name, found in runs.items()}
        if as_json:
            about = {"file": str(file), "rewards": family.title, "held_out": vars(family.held_out), "until": until}
            print(json.dumps(json_values(about | {"seeds": list(range(seeds)), "policies": metrics})))
            return
        print(f"{family!r}")
        print(
            f"recommender_v0, {family.title}, {seeds} seeds, {until:,} rounds: means and 95% intervals of rewards and "
            "regret"
        )
        rows = [("policy", "expected reward", "", "regret", "", "shared", "epsilon" * (privacy is not None))]
        for name, values in metrics.items():
            cells = [_interval(estimate(np.array(values[key]))) for key in ("expected_reward", "regret")]
            spent = privacy_text(np.array(values["epsilon_basic"])) if privacy is not None else ""
            rows.append((name, *cells[0], *cells[1], f"{np.mean(values['shared']):.3f}", spent))
        _print_table(rows)
        knowing = [name for name, actor in actors.items() if actor.needs_truth]
        if knowing:
            print(f"knows the hidden truth: {', '.join(knowing)}")
        if pooled := [name for name, actor in actors.items() if _any(actor, "pools")]:
            print(f"pooled: {', '.join(pooled)}")

    @logged.command(
        "bandit",
        epilog="Example: taciturn logged bandit all.csv --position 1 --policy Random,LinUCB --set "
        "policy.LinUCB.kind=disjoint",
    )
    def bandit_(
        file: Annotated[
            Path, Argument(help="A log with columns item_id (or action), click, propensity_score, and contexts.")
        ],
        policy: Policies,
        estimator: Annotated[
            str,
            Option(
                help="replay (uniform logs), ips, snips, dr, all; auto: replay if the log is uniform, else the others."
            ),
        ] = "auto",
        context: Annotated[str | None, Option(help="Context columns, with commas between them.")] = None,
        context_dim: Annotated[int, Option(help="Largest dimension of contexts, 1 to 9.")] = 5,
        items: Annotated[Path | None, Option(help="A file of item features: item_id and columns of numbers.")] = None,
        position: Annotated[str | None, Option(help="Keep only rows with this position.")] = None,
        sort: Annotated[bool, Option("--sort", help="Sort rows by timestamp.")] = False,
        learn: Annotated[
            float, Option(help="Share of the rows that teach a policy before it is judged (not for replay).")
        ] = 0.5,
        draws: Annotated[int, Option(help="How often a policy that draws its actions is asked on a row.")] = 1,
        lowest_propensity: Annotated[
            float | None, Option(help="With which the logging policy took any action (default: the lowest of the log).")
        ] = None,
        interval: Annotated[
            str, Option(help="betting (holds for any number of rows) or student (narrower, for many effective rows).")
        ] = "betting",
        settings: Annotated[list[str] | None, Option("--set", help=f"{own_help}.")] = None,
        trust: Trust = False,
        seed: Annotated[int, Option(help="Of what policies draw.")] = 0,
        as_json: Json = False,
    ) -> None:
        """Estimate what policies would have earned in place of the one that wrote a log.

        Replay lets a policy learn from the rows whose action is its own. The other estimators judge the policy that the
        first part of the rows has taught, with weights of inverse propensity; the table gives the rows that match, the
        effective sample size, and the mean weight, which is about 1 unless the policy takes actions that the log never
        does.
        """
        from taciturn.bench.progress import bar, stderr
        from taciturn.logged import evaluate, read_bandit

        actors, others = _policies(policy, settings or [])
        if others:
            raise ValueError(
                f"--set must name a parameter of a policy, as policy.key=value, not {next(iter(others))!r}"
            )
        with bar(stderr(), 1 + len(actors), shown=not as_json) as shown:
            log = read_bandit(
                file,
                context=context.split(",") if context else None,
                context_dim=context_dim,
                items=items,
                position=position,
                sort=sort,
                progress=lambda share, what: shown.running(what, share),
            )
            shown.finished("read")
            found = {}
            for name, actor in actors.items():
                found[name] = evaluate(
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
            about = {
                "file": str(file),
                "rows": len(log),
                "actions": len(log.names),
                "uniform": log.uniform,
                "seed": seed,
            }
            about |= {
                "clicks": float(log.click.mean()),
                "positions": log.positions,
                "interval": interval,
                "learn": learn,
            }
            print(
                json.dumps(json_values(about | {"policies": {k: [vars(one) for one in v] for k, v in found.items()}}))
            )
            return
        print(f"{log!r}")
        print(f"clicks a round, with 95% intervals ({interval})")
        rows = [("policy", "estimator", "value", "", "rows", "matches", "effective", "mean weight")]
        rows += [
            (
                name,
                one.estimator,
                *_interval((one.value, one.low, one.high)),
                f"{one.rows}",
                f"{one.matches}",
                f"{one.effective:.1f}",
                f"{one.mean_weight:.3f}",
            )
            for name, values in found.items()
            for one in values
        ]
        _print_table(rows)

    @app.command()
    def report(
        folder: Annotated[Path, Argument(help="A folder written by bench or reproduce.")], as_json: Json = False
    ) -> None:
        """Write the report of a results folder anew."""
        from taciturn.bench.store import Store

        _report(Store(folder), None, as_json, {})

    @app.command("gather")
    def gather_(
        folders: Annotated[list[Path], Argument(help="Folders written by bench or reproduce, such as all shards.")],
        out: Annotated[Path, Option(help="A new folder for all of their results and the report.")],
        as_json: Json = False,
    ) -> None:
        """Put results folders together in a new one, and write its report.

        Example: taciturn gather results/shard-* --out results/whole
        """
        from taciturn.bench.progress import stderr
        from taciturn.bench.store import differing, gather

        store = gather(folders, out)
        mixed = differing(store.manifest())
        if mixed:
            stderr().print(f"not all of these results were computed with the same {' and '.join(mixed)}")
        planned = [key for keys in store.plan().values() for key in keys]
        missing = len(planned) - len(list(store.cells.iterdir()))
        _report(store, None, as_json, {"cells": len(planned), "missing": missing})
        if missing:
            raise ValueError(
                f"{missing} of {len(planned)} cells are missing: run their shards again and gather, or run all with "
                f"--resume --out {out}"
            )

    @app.command()
    def submit(
        folder: Annotated[Path, Argument(help="A folder written by bench, with the study `agents`.")],
        to: Annotated[Path, Option("--to", help="The file to write.")],
    ) -> None:
        """Write the results of the study `agents` as one file, with where they come from, for `leaderboard`.

        Example: taciturn submit results/mine --to mine.json
        """
        from taciturn.bench.catalogue import load_studies
        from taciturn.bench.scores import unchecked
        from taciturn.bench.store import write_bytes
        from taciturn.bench.submission import of_folder, packed

        study: Any = load_studies()["agents"]
        found = of_folder(folder, study)
        study.check(folder, found)
        for group in filter(unchecked, found.results):
            name = group.config["policy"]
            raise ValueError(
                f"{folder} must hold agents that were checked for pooling, and {name} was not: run bench again"
            )
        write_bytes(to, packed(found).encode())
        print(f"{len(found.results)} configurations: {to}")

    @app.command()
    def leaderboard(
        places: Annotated[
            list[Path], Argument(help="Folders written by bench with the study `agents`, or files of submit.")
        ],
    ) -> None:
        """Rank the agents of several folders and files together; of what several hold, the first counts.

        Example: taciturn leaderboard benchmarks/results/studies/agents.json results/mine
        """
        from taciturn.bench.comparisons.kinds import KindsOfAgents
        from taciturn.bench.report import print_table
        from taciturn.bench.submission import merged, of_folder, unpacked

        study = KindsOfAgents()
        found = [unpacked(place) if place.is_file() else of_folder(place, study) for place in places]
        for place, one in zip(places, found, strict=True):
            study.check(place, one)
        results = merged(found)
        print_table(study.answer(results))
        print_table(study.leaderboard(results))

    return app


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0].replace("`", "")


def _by_module(lines: dict[str, str]) -> dict[str, dict[str, str]]:
    """The policies' lines by module, under its first line: the papers' policies, the classic ones, the learners, other
    packages'."""
    found: dict[str, dict[str, str]] = {}
    modules = {name: policy.__module__ for name, policy in policies().items()}
    kinds = [f"taciturn.policies.{kind}" for kind in ("reference", "classic", "learned", "base", "")]
    for name in sorted(lines, key=lambda name: [not modules[name].startswith(kind) for kind in kinds]):
        found.setdefault(_first_line(sys.modules[modules[name]]), {})[name] = lines[name]
    return found


def _actors(policy: str, own: dict[str, Any], roles: list[str]) -> Any:
    """A policy from its name, or `{role: policy}` from `ROLE=NAME,ROLE=NAME` with parameters named `ROLE.parameter`."""
    named = dict(part.split("=", 1) for part in policy.split(",") if "=" in part)
    if len(roles) == 1 and not set(named) & set(roles):
        return bring(policy, **own)
    if not named:
        wanted = ",".join(f"{role}=NAME" for role in roles)
        raise ValueError(f"--policy must name one for each role, {wanted}, not {policy!r}")
    for key in own:
        if key.partition(".")[0] not in named:
            raise ValueError(f"--set policy.{key} must name a role, one of {', '.join(named)}, before the parameter")
    return {
        role: bring(name, **{key.removeprefix(f"{role}."): own[key] for key in own if key.startswith(f"{role}.")})
        for role, name in named.items()
    }


def _world(
    env: str, policy: str, settings: list[str], privacy: str | None, until: float | None
) -> tuple[Play, Any, dict[str, Any]]:
    """What plays so many runs from a seed, who acts in them, and the parameters from `key=value`."""
    make, actor, given = _population(env, policy, settings)
    mechanisms = None if privacy is None else _privacy(privacy, list(make(1).channels))
    population: Any = None

    def play(runs: int, seed: int) -> dict[str, Any]:
        nonlocal population
        if population is None or population.num_envs != runs:
            population = make(runs)
        return simulate(population, actor, seed=seed, until=until, privacy=mechanisms).metrics

    return play, actor, given


def _any(actor: Any, name: str) -> bool:
    """Whether any of those who act says so of itself."""
    return any(getattr(one, name, False) for one in (actor.values() if isinstance(actor, dict) else [actor]))


def _task(
    task: "Task", policy: str, settings: list[str], fixed: dict[str, Any], seed: int
) -> tuple[Play, Any, dict[str, Any], str]:
    """As `_world`, of a task, and how agents share a mind, if they do; of its world, only the form in which learners
    play may be set."""
    from taciturn.bench.comparisons.kinds import play_task, shared_mind, task_config
    from taciturn.bench.scales import scale_of
    from taciturn.bench.tasks import CONTESTS

    own, form = _settings(settings)
    free = CONTESTS[task.env].for_learners or {}
    fixed |= {f"--set {key}": value for key, value in form.items() if key not in free}
    for option, value in fixed.items():
        if value is not None:
            raise ValueError(
                f"{option} must be left out in a task, which fixes the world, and is {value!r} (see taciturn show "
                f"{task.id})"
            )
    actor, scale = bring(policy, **own), scale_of(task)
    given = form | {f"policy.{key}": value for key, value in own.items()}

    def play(runs: int, seed: int) -> dict[str, Any]:
        found = play_task(task, policy, actor, runs, seed, **form)
        score = {} if scale is None else {"score": scale.score(found[task.measure])}
        return {task.measure: found[task.measure]} | score | found

    pooled = shared_mind(actor, task_config(task, policy, **form), seed, task.variant)
    return play, actor, given, pooled


def _population(env: str, policy: str, settings: list[str]) -> tuple[Callable[[int], Any], Any, dict[str, Any]]:
    """A maker of populations of so many replicas, who acts in them, and the parameters from `key=value`."""
    own, others = _settings(settings)
    if "num_envs" in others:
        raise ValueError("--set num_envs has no effect here: --runs says how many replicas are played")

    def make(replicas: int) -> Any:
        try:
            return make_world(env).population(replicas, **others)
        except TypeError as error:
            raise ValueError(f"{env} cannot take {spelled(others)}: {error}") from error

    actor = _actors(policy, own, list(make(1).roles))
    return make, actor, others | {f"policy.{key}": value for key, value in own.items()}


def _settings(settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy's and the world's parameters from `policy.key=value` and `key=value`."""
    found = _entries("--set", settings)
    own = {key.removeprefix("policy."): value for key, value in found.items() if key.startswith("policy.")}
    return own, {key: value for key, value in found.items() if not key.startswith("policy.")}


def _entries(option: str, texts: list[str]) -> dict[str, Any]:
    """`{key: value}` from `key=value`; values are JSON if they parse as such, else text."""
    found: dict[str, Any] = {}
    for one in texts:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise ValueError(f"{option} must be key=value, not {spelled(one)}")
        try:
            found[key] = parsed(text)
        except ValueError as error:
            raise ValueError(f"{option} {key}: {error}") from error
    return found


def _policies(names: str, settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`{name: policy}` from names with commas between them, and the environment's parameters, from `key=value`."""
    own, others = _settings(settings)
    asked = list(dict.fromkeys(filter(None, names.split(","))))
    if not asked:
        raise ValueError(f"--policy must name policies, with commas between them, not {names!r}")
    if len(asked) > 1:
        for key in own:
            if not any(key.startswith(f"{name}.") for name in asked):
                raise ValueError(
                    f"--set policy.{key} must name a policy, one of {', '.join(asked)}, before the parameter"
                )
    found = {}
    for name in asked:
        mine = {key.removeprefix(f"{name}."): own[key] for key in own if len(asked) == 1 or key.startswith(f"{name}.")}
        found[name] = bring(name, **mine)
    return found, others


def _interval(estimate: Any) -> tuple[str, str]:
    value, low, high = estimate
    return f"{value:.4f}", "" if np.isnan(low) else f"[{low:.4f}, {high:.4f}]"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(map(str.ljust, row, widths)).rstrip())


def _privacy(text: str, channels: list[str]) -> dict[str, Any] | str:
    """`{channel: mechanism}` from `[CHANNEL=]MECHANISM:EPSILON...`; "paper" is left as it is."""
    if text == "paper":
        return text
    first, equals, rest = text.partition("=")
    if channels and equals and first.isidentifier():
        if first not in channels:
            raise UnknownName("channel", first, channels)
        return {first: parse_mechanism(rest)}
    if len(channels) != 1:
        raise ValueError(
            f"--privacy needs an environment with one channel or CHANNEL=..., and its channels are {channels or 'none'}"
        )
    return {channels[0]: parse_mechanism(text)}


def _report(store: "Store", studies: "list[Study] | None", as_json: bool, about: dict[str, Any]) -> None:
    """Write and print the report of these studies, or of all that the store has planned."""
    from taciturn.bench.catalogue import load_studies
    from taciturn.bench.report import print_summary, print_tables, write_report

    if studies is None:
        plan = store.plan()
        studies = [study for name, study in load_studies().items() if name in plan]
    page = write_report(store, store.path, studies)
    if not as_json:
        # Tables of all studies would fill hundreds of lines; the report has them.
        (print_tables if len(studies) == 1 else print_summary)(store, studies)
        print(f"report, with all tables and figures: {page}" if len(studies) > 1 else f"\nreport: {page}")
        return
    found: dict[str, Any] = {}
    for study in studies:
        results = store.results(study.name)
        groups = [{"config": one.config, "seeds": one.seeds, "metrics": one.metrics} for one in results]
        verdicts = [vars(verdict) for verdict in study.verdicts(results)] if groups else []
        found[study.name] = {"title": study.title, "groups": groups, "verdicts": verdicts}
    print(json.dumps(json_values(about | {"report": str(page), "studies": found})))
