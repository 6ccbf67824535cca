"""The command line: `taciturn list | run | train | bench | reproduce | report | audit`."""

import json
import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np

from taciturn.agents import bring
from taciturn.auditing import Site, audit_command, json_values, named_mechanisms, parse_mechanism, parsed
from taciturn.envs.core import integer
from taciturn.registry import UnknownName, entries, make_world, one_agent, policies, worlds
from taciturn.simulation import simulate

if TYPE_CHECKING:
    from taciturn.bench.store import Store
    from taciturn.bench.study import Study

__all__ = ["main"]

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main() -> None:
    """Entry point. Every error is one line on stderr and a non-zero exit code; `--debug` shows the traceback."""
    arguments = sys.argv[1:]
    warnings.formatwarning = lambda message, *_: f"taciturn: {message}\n"
    sys.path.insert(0, "")  # so that module:Class finds the modules of the current folder, as `python -m` does
    debug = "--debug" in arguments
    try:
        import rich  # noqa: F401
        import typer
    except ImportError as error:
        _fail(f"the command line needs {error.name}: run pip install '.[bench]' in a clone of taciturn", EXIT_FAILED)
    try:
        code = typer.main.get_command(_app())([a for a in arguments if a != "--debug"], standalone_mode=False)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if hasattr(error, "format_message"):
            _fail(f"{error.format_message()} (see taciturn --help)", EXIT_USAGE)
        if debug:
            raise
        known = isinstance(error, ValueError | ImportError | OSError) or type(error).__module__.startswith("taciturn.")
        text = " ".join(str(error).split()) or type(error).__name__
        _fail(text if known else f"{type(error).__name__}: {text} (--debug shows where)", EXIT_FAILED)
    sys.exit(code or 0)


def _fail(text: str, code: int) -> NoReturn:
    print(f"taciturn: {text}", file=sys.stderr)
    sys.exit(code)


def _app() -> Any:
    from typer import Argument, Option, Typer

    app = Typer(
        help="Environments in which agents learn together without telling each other what they know.",
        epilog="--debug shows the traceback of an error.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    Out = Annotated[Path, Option(help="Folder for the results and the report.")]
    Quick = Annotated[bool, Option("--quick", help="Few seeds and short runs.")]
    Backend = Annotated[str, Option(help="serial, process or ray.")]
    Workers = Annotated[int | None, Option(help="Processes (default: one per core).")]
    Timeout = Annotated[float | None, Option(help="Seconds that a cell may take (backend process).")]
    Resume = Annotated[bool, Option("--resume", help="Keep the finished cells of an earlier run in --out.")]
    set_help = "A parameter, key=value: of the environment, or of the policy as policy.key=value."
    Settings = Annotated[list[str] | None, Option("--set", help=set_help)]
    Json = Annotated[bool, Option("--json", help="Print one JSON document.")]

    @app.command("list")
    def list_(as_json: Json = False) -> None:
        """List the environments, policies, mechanisms, studies and figures."""
        from taciturn.bench.catalogue import figures, load_studies

        studies, known = load_studies(), worlds()
        found = {
            "environments": {entry.id: entry.name for entry in entries() if entry.name in known},
            "policies": {
                name: _first_line(policy) + " It knows the hidden truth." * (policy.needs_truth is True)
                for name, policy in policies().items()
            },
            "mechanisms": {name: _first_line(mechanism) for name, mechanism in named_mechanisms().items()},
            "studies": {name: study.title for name, study in studies.items()},
            "figures": {figure: study.title for figure, study in sorted(figures(studies).items())},
        }
        if as_json:
            print(json.dumps(found))
            return
        world_lines = {id_: f"{name:22} {_first_line(known[name])}" for id_, name in found["environments"].items()}
        sections = {"environments": {"": world_lines}, "policies": _by_module(found["policies"])}
        sections |= {kind: {"": found[kind]} for kind in ("mechanisms", "studies", "figures")}
        width = max(len(name) for parts in sections.values() for rows in parts.values() for name in rows)
        for kind, parts in sections.items():
            print(kind.upper())
            for title, rows in parts.items():
                if title:
                    print(f"  {title}")
                for name, text in rows.items():
                    print(f"    {name:{width}}  {text}")

    @app.command()
    def run(
        env: Annotated[str, Argument(help="An environment: its id or name.")],
        policy: Annotated[
            str,
            Option(
                help="A policy's name, module:Class, or a saved agent, sb3:model.zip (also onnx:, torchrl:); ROLE=NAME,ROLE=NAME "
                "where there are several roles (and --set policy.ROLE.parameter=value)."
            ),
        ],
        settings: Settings = None,
        privacy: Annotated[
            str | None,
            Option(
                help="MECHANISM:EPSILON[,parameter=value], on the environment's channel; or CHANNEL=MECHANISM:...; or paper, for "
                "what the policy's paper prescribes."
            ),
        ] = None,
        seeds: Annotated[int, Option(help="How many runs, with seeds 0, 1, ...")] = 10,
        until: Annotated[float | None, Option(help="Horizon, in the environment's unit of time.")] = None,
        as_json: Json = False,
    ) -> None:
        """Run a policy in an environment and print the results."""
        from taciturn.bench.progress import bar, stderr
        from taciturn.bench.tables import estimate, privacy_text

        integer("--seeds", seeds, at_least=1, at_most=2**63 - 1)
        population, actor, given = _population(env, policy, settings or [])
        mechanisms = None if privacy is None else _privacy(privacy, list(population.channels))
        runs = []
        with bar(stderr(), seeds, shown=not as_json) as shown:
            for seed in range(seeds):
                shown.running(f"seed {seed}")
                runs.append(simulate(population, actor, seed=seed, until=until, privacy=mechanisms).metrics)
                shown.finished(f"seed {seed}")
        rows: dict[str, dict[str, Any]] = {}
        for name in runs[0]:
            values = np.concatenate([run[name] for run in runs])
            known = values[~np.isnan(values)]
            value, low, high = estimate(known) if known.size else (None, None, None)
            rows[name] = {"mean": value, "low": low, "high": high, "values": values}
        if as_json:
            about = {"env": env, "policy": policy, "set": given, "privacy": privacy, "seeds": list(range(seeds))}
            print(json.dumps(json_values(about | {"metrics": rows})))
            return
        knows = any(one.needs_truth for one in (actor.values() if isinstance(actor, dict) else [actor]))
        mark = ", which knows the hidden truth" * knows
        print(f"{env}, {actor!r}{mark}, {seeds} seeds: mean and 95% interval")
        width = max(map(len, rows))
        for name, row in rows.items():
            interval = "" if row["low"] is None or np.isnan(row["low"]) else f"  [{row['low']:.6g}, {row['high']:.6g}]"
            mean = "-" if row["mean"] is None else format(row["mean"], ".6g")
            if name.startswith("epsilon") and row["mean"] in (0, math.inf):
                mean = privacy_text(row["values"])
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
                env, algorithm, steps=steps, out=out, seed=seed, params=others, privacy=mechanisms, settings=own, file=file,
                num_envs=num_envs, evaluations=evaluations, resume=resume, progress=lambda done, text: shown.running(text, done),
            )  # fmt: skip
        print(f"trained: {out} (taciturn run {env} --policy {out})")
        print((out / "evaluations.csv").read_text(encoding="utf-8"), end="")

    def runs(name: str, help_: str, names_: Any, folder: str) -> None:
        """A command that runs the studies selected by its arguments and writes their report."""

        @app.command(name, help=help_)
        def command(
            names: list[str] | None = names_,
            out: Out = Path(folder),
            quick: Quick = False,
            backend: Backend = "process",
            workers: Workers = None,
            timeout: Timeout = None,
            resume: Resume = False,
            as_json: Json = False,
        ) -> None:
            from taciturn.bench.catalogue import studies_named, studies_of_figures
            from taciturn.bench.runner import BACKENDS, run_study
            from taciturn.bench.store import Store

            studies = (studies_named if name == "bench" else studies_of_figures)(names or [])
            if backend not in BACKENDS:
                raise UnknownName("backend", backend, BACKENDS)
            store = Store(out)
            how: dict[str, Any] = {"quick": quick, "backend": backend, "workers": workers, "timeout": timeout}
            summary = run_study(studies, store, progress=not as_json, resume=resume, **how)
            failed = [str(file) for file in summary.failed]
            _report(store, studies, as_json, {"cells": summary.planned, "reused": summary.reused, "failed": failed})
            if failed:
                raise ValueError(f"{len(failed)} of {summary.planned} cells failed: see {store.failed}")

    named = "Studies to run (default: all comparisons)."
    runs("bench", "Run studies and write their report.", Argument(None, metavar="STUDY", help=named), "results")
    published = (
        "A figure or table (li2022/4, li2022/table-1), a chapter (jiang2020/3) or a paper (li2022); default: all."
    )
    runs(
        "reproduce",
        "Reproduce published figures and compare the papers' claims with the results.",
        Argument(None, metavar="FIGURE", help=published),
        "results/reproduction",
    )

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
        policy: Annotated[str, Option(help="Who acts in it.")] = "Random",
        settings: Settings = None,
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
            population, actor, _ = _population(env, policy, settings or [])
            site = Site(population, actor, channel, steps)
        known: dict[str, Any] = {"trials": trials, "confidence": confidence, "method": method, "delta": delta}
        with bar(stderr(), 1, shown=not as_json) as shown:
            results = audit_command(
                mechanism, site=site, seed=seed, as_json=as_json, plot=plot, progress=shown.running, **known
            )
        broken = [result.name for result in results if result.verdict == "violated"]
        if broken:
            raise ValueError(f"the claim of {', '.join(broken)} is violated")

    @app.command()
    def report(
        folder: Annotated[Path, Argument(help="A folder written by bench or reproduce.")], as_json: Json = False
    ) -> None:
        """Write the report of a results folder anew."""
        from taciturn.bench.catalogue import load_studies
        from taciturn.bench.store import Store

        store = Store(folder)
        _report(store, [s for name, s in load_studies().items() if name in store.plan()], as_json, {})

    return app


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0].replace("`", "")


def _by_module(lines: dict[str, str]) -> dict[str, dict[str, str]]:
    """The policies' lines by module, under its first line: the papers' policies, the classic ones, the learners, other packages'."""
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


def _population(env: str, policy: str, settings: list[str]) -> tuple[Any, Any, dict[str, Any]]:
    """A population, who acts in it, and the parameters from `key=value`."""
    own, others = _settings(settings)
    try:
        population = make_world(env).population(**others)
    except TypeError as error:
        raise ValueError(f"{env} cannot take {others}: {error}") from error
    actor = _actors(policy, own, list(population.roles))
    return population, actor, others | {f"policy.{key}": value for key, value in own.items()}


def _settings(settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy's and the world's parameters from `policy.key=value` and `key=value`; values are JSON if they parse as such, else text."""
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ValueError(f"--set must be key=value, not {setting!r}")
        where = own if key.startswith("policy.") else others
        try:
            where[key.removeprefix("policy.")] = parsed(text)
        except ValueError as error:
            raise ValueError(f"--set {key}: {error}") from error
    return own, others


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


def _report(store: "Store", studies: "list[Study]", as_json: bool, about: dict[str, Any]) -> None:
    from taciturn.bench.report import print_tables, write_report

    page = write_report(store, store.path, studies)
    if not as_json:
        print_tables(store, studies)
        print(f"\nreport: {page}")
        return
    found: dict[str, Any] = {}
    for study in studies:
        results = store.results(study.name)
        groups = [{"config": one.config, "seeds": one.seeds, "metrics": one.metrics} for one in results]
        verdicts = [vars(verdict) for verdict in study.verdicts(results)] if groups else []
        found[study.name] = {"title": study.title, "groups": groups, "verdicts": verdicts}
    print(json.dumps(json_values(about | {"report": str(page), "studies": found})))
