"""`taciturn train`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from taciturn.agents import is_folder
from taciturn.cli.arguments import mechanisms_of, split_settings, task_named
from taciturn.cli.options import Settings
from taciturn.cli.output import interrupted
from taciturn.registry import one_agent

RUNS = 300
"""The runs of the command that evaluates a trained agent: with fewer, rare failures decide its mean."""


def train(
    env: Annotated[str, Argument(help="Environment (id or name), or task (taciturn list tasks).")],
    out: Annotated[
        Path | None,
        Option(help="Folder for the agent; `run --policy FOLDER` plays it. Default: trained/ENV-SEED."),
    ] = None,
    algorithm: Annotated[
        str,
        Option(
            help="TrainedAgent, the suite's own trainer; a class of Stable-Baselines3 or sb3-contrib (PPO, DQN, "
            "RecurrentPPO, ...); or another learner's name."
        ),
    ] = "TrainedAgent",
    steps: Annotated[
        int | None,
        Option(
            help="Number of environment steps, summed over agents and replicas; optional for learners of the package."
        ),
    ] = None,
    seconds: Annotated[float | None, Option(help="CPU seconds for the suite's own trainer, in place of steps.")] = None,
    settings: Settings = None,
    file: Annotated[Path | None, Option("--settings", help="YAML file with settings of the algorithm.")] = None,
    privacy: Annotated[str | None, Option(help="MECHANISM:EPSILON[,parameter=value], as for run.")] = None,
    num_envs: Annotated[int, Option(help="Number of replicas in training.")] = 16,
    evaluations: Annotated[int, Option(help="Number of checkpoints; each is evaluated in fresh runs.")] = 10,
    seed: int = 0,
    resume: Annotated[bool, Option("--resume", help="Continue from the last checkpoint in --out.")] = False,
    trust: Annotated[
        bool,
        Option(
            "--trust",
            help="Allow a checkpoint of another user or machine; loading it can run code.",
        ),
    ] = False,
) -> None:
    """Train an agent, and store it in a folder with its evaluations and checkpoints."""
    from taciturn.bench import train as training
    from taciturn.bench.progress import bar, stderr
    from taciturn.bench.tasks import TASKS

    env = task_named(env)
    if out is None:
        out = Path("trained") / f"{env.removeprefix('taciturn/').replace('/', '-')}-{seed}"
    own, others = split_settings(settings)
    world = TASKS[env].env if env in TASKS else env
    mechanisms = {} if privacy is None else mechanisms_of(privacy, list(one_agent(world, 1, others).channels))
    if isinstance(mechanisms, str):
        raise ValueError(f"--privacy must be a mechanism, not {privacy!r}: no paper prescribes one for {algorithm}")
    last = ""

    def progress(done: float, text: str) -> None:
        nonlocal last
        last = text if " runs" in text and "fresh" not in text else last
        shown.running(text, done)

    try:
        with bar(stderr(), 1) as shown:
            training.train(
                env,
                algorithm,
                steps=steps,
                seconds=seconds,
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
                progress=progress,
            )
    except KeyboardInterrupt:
        if (out / "checkpoints" / "training.pkl").exists():
            interrupted(f"the last checkpoint is stored in {out}, and the same command with --resume continues")
            raise
        kept = max((int(one.stem) for one in (out / "checkpoints").glob("*.zip") if one.stem.isdecimal()), default=0)
        interrupted(
            f"the checkpoint after {kept:,} steps is stored in {out}, and the same command with --resume continues"
            if kept
            else f"no checkpoint was reached in {out}"
        )
        raise
    name = out if is_folder(str(out)) else f"./{out}"  # there may be a policy of that name
    print((out / "evaluations.csv").read_text(encoding="utf-8"), end="")
    if last:
        print(last)
    print(f"trained: {out} (taciturn run {env} --policy {name} --runs {RUNS})")
