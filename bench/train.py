"""Train an agent of Stable-Baselines3 or sb3-contrib, or one of this package's learners, in an environment, and save it
in a folder."""

import csv
import importlib
import inspect
import io
import json
import math
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from taciturn import files
from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons import playing
from taciturn.bench.play import learns
from taciturn.bench.settings import settings_in
from taciturn.bench.store import MOST_BYTES, environment, has_shape, now, write_bytes, write_json
from taciturn.bench.tasks import BENCHMARKS, STANDARD, TASKS, Task
from taciturn.bench.tasks.benchmark import TRAINER
from taciturn.bench.trained import arrays
from taciturn.envs.core import Array, Population, integer
from taciturn.policies import Learner
from taciturn.policies.base import Policy
from taciturn.policies.external.rows import Predictor
from taciturn.policies.learned.training import learning, library_seed, one_thread
from taciturn.policies.trust import signed, trusted_bytes
from taciturn.registry import UnknownName, make_policy, one_agent, policies, policy_class
from taciturn.simulation import simulate
from taciturn.terminal import counted
from taciturn.validation import missing_extra, shown
from taciturn.wrappers import Privatize

EVALUATION_RUNS = 20
COLUMNS = ("steps", "return", "low", "high")
LIBRARIES = ("stable_baselines3", "sb3_contrib")
Report = Callable[[float, str], None]
Trainer = Callable[[Path, Any, int, Report], None]


def train(
    world: str,
    algorithm: str = TRAINER,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    out: str | Path,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    file: str | Path | None = None,
    num_envs: int = 16,
    evaluations: int = 10,
    resume: bool = False,
    trust: bool = False,
    progress: Report | None = None,
) -> Path:
    """Train an agent and save it in `out`; `simulate`, studies and the command line take it by the folder's name.

    It learns in practice environments (`PublicView.practice`). It is saved and evaluated `evaluations` times, in
    `EVALUATION_RUNS` runs of other environments. Later runs, in `simulate` or a study, share no random numbers with
    training or this evaluation.

    Args:
        world: an environment's name or id; if it has several roles, its Gymnasium form must control a single agent
            (`elicitation`). Or the id of a standard task, which fixes the environment. Under a budget the agent learns
            with its own way to spend it (`Policy.within`), or else with the environment's usual number of equal
            messages.
        algorithm: `TrainedAgent`, the suite's own trainer, with the method that `taciturn.policies.learned.trained`
            names for the environment; a class of Stable-Baselines3 or sb3-contrib (PPO, A2C, DQN, SAC, MaskablePPO,
            RecurrentPPO, ...); or another learner of `taciturn list`, which is evaluated once, after training.
        steps: environment steps; a step counts once for each agent of each replica. Optional for learners of this
            package; those without a parameter `steps` ignore it.
        seconds: CPU seconds on one core for the suite's own trainer, in place of steps.
        out: the folder for `manifest.json`, the agent (`agent.safetensors`, or `model.zip` with `vecnormalize.pkl`, or
            `learner.pkl`), `evaluations.csv`, `curve.png` of the suite's own trainer, `checkpoints/`, and the files of
            TensorBoard in `log/`.
        seed: seed of all randomness in training.
        params: parameters of the environment.
        privacy: `{channel: mechanism}` in training and evaluation.
        settings: parameters of the algorithm. As in rl-zoo, `policy` names its network ("MlpPolicy", "MlpLstmPolicy"),
            and `normalize` sets whether observations and rewards are normalised by running statistics.
        file: a YAML file with further settings, under the name of the algorithm (`taciturn.bench.settings`).
        num_envs: replicas in training.
        evaluations: how often the agent is saved and evaluated.
        resume: continue from the last checkpoint in `out`, or return immediately if the training there is finished.
        trust: whether to continue from a checkpoint not made by this user on this machine; code in it may run.
        progress: called with the fraction done and the current activity.

    Returns:
        The folder.

    Raises:
        UnknownName: there is no such environment or algorithm.
        ValueError: a parameter is out of range, the task has no training, the folder holds another training or is being
            written to, a checkpoint is not from this training or not trusted, or the algorithm fails during training,
            for instance because numbers grow without bound.
        ImportError: stable-baselines3 is not installed.
    """
    steps = None if steps is None else integer("steps", steps, at_least=1)
    seed = integer("seed", seed, at_least=0)
    num_envs, evaluations = integer("num_envs", num_envs, at_least=1), integer("evaluations", evaluations, at_least=1)
    population = (
        of_task(TASKS[world], algorithm, dict(settings or {}), dict(params or {}), dict(privacy or {}))
        if world in TASKS
        else one_agent(world, EVALUATION_RUNS, dict(params or {}))
    )
    for channel, mechanism in (privacy or {}).items():
        population = Privatize(population, channel, mechanism)
    population.purpose = "selection"
    make: Any = library if policy_class(algorithm) is None else learner
    if algorithm == TRAINER:
        make = arrays(world, seconds)
    elif seconds is not None:
        raise ValueError(
            f"seconds must be left out for {algorithm}: only the suite's own trainer, {TRAINER}, takes them"
        )
    if steps is None and make is library:
        raise ValueError(f"steps must be given for {algorithm}: only learners of this package do without")
    settings = own_settings(file, algorithm) | dict(settings or {})
    try:
        trainer = make(algorithm, population, num_envs, seed, settings, trust)
    except (TypeError, ValueError) as error:
        if file is None:
            raise
        raise ValueError(f"{file}: {error}") from error
    folder = Path(out)
    asked = {
        "world": world,
        "algorithm": algorithm,
        "steps": steps,
        "seconds": seconds,
        "seed": seed,
        "params": dict(params or {}),
        "privacy": {name: repr(one) for name, one in (privacy or {}).items()},
        "settings": settings,
        "num_envs": num_envs,
        "evaluations": evaluations,
    }
    if _open(folder, asked, resume).get("finished"):
        return folder
    with files.locked(folder):
        begun = _open(folder, asked, resume)  # another process may have written to it in between
        if not begun:
            begun = {"training": asked, **environment(), "started": now(), "finished": None}
            write_json(folder / "manifest.json", begun)
        files.own(folder / "checkpoints")
        trainer(folder, steps, evaluations, progress or (lambda fraction, text: None))
        write_json(folder / "manifest.json", begun | {"finished": now()})
    return folder


def of_task(
    task: Task, algorithm: str, settings: dict[str, Any], form: dict[str, Any], privacy: dict[str, Any]
) -> Population[Any]:
    """The environment of a standard task, with the channels' mechanisms for this algorithm's training; only the
    parameters in `Benchmark.for_learners` may be changed."""
    if task.name != STANDARD:
        raise ValueError(f"world must be a world or a standard task, the only ones for training, not {task.id}")
    fixed = {name: value for name, value in form.items() if name not in BENCHMARKS[task.env].for_learners}
    if fixed or privacy:
        raise ValueError(f"params and privacy must be left out in a task, which fixes the world, not {fixed | privacy}")
    found = playing.population(playing.task_config(task, algorithm, **form), EVALUATION_RUNS, "selection")
    if not isinstance(task.budget, float):
        return found
    # The settings of `TrainedAgent` are its method's.
    own = {name: value for name, value in settings.items() if algorithm != TRAINER or name == "method"}
    untrained = bring(algorithm, **own) if learns(algorithm) else None
    return playing.with_channels(found, playing.training_way(task, untrained, found).channels)


def own_settings(file: str | Path | None, algorithm: str) -> dict[str, Any]:
    """The settings of an algorithm in a user's file, empty without a file; ValueError if the file has no entry for
    it."""
    if file is None:
        return {}
    known = settings_in(Path(file))
    if algorithm not in known:
        raise ValueError(f"{file} must have an entry {algorithm!r}, and has {', '.join(known) or 'none'}")
    return dict(known[algorithm])


def _open(folder: Path, asked: dict[str, Any], resume: bool) -> dict[str, Any]:
    """The manifest of the training in the folder, empty for a new folder; ValueError if it holds something else."""
    file = folder / "manifest.json"
    if file.exists():
        text = files.content(file, MOST_BYTES)
        try:
            found: dict[str, Any] = json.loads(text)
        except (ValueError, RecursionError):
            found = {}
        if not has_shape(found, {"training": {str: object}}):
            raise ValueError(f"out must be a new folder or hold a training, and {file} is of none")
        differing = [
            name for name, value in asked.items() if found["training"].get(name) != json.loads(json.dumps(value))
        ]
        if differing:
            raise ValueError(
                f"out must be a new folder or hold this training, and {folder} differs in {', '.join(differing)}"
            )
        if not resume:
            raise ValueError(
                f"out must be a new folder, and {folder} holds this training: resume it, or choose another"
            )
        return found
    if not files.is_empty(folder, file.name):
        raise ValueError(f"out must be a new or empty folder, and {folder} is not")
    return {}


class Watched(Policy):
    """Wraps a policy and sums its rewards, float64[B]: the mean over agents of their earnings in the run."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def reset(self, env: Any, rng: np.random.Generator, role: str | None = None) -> None:
        self.policy.reset(env, rng, role)
        self.returns: Array = np.zeros(env.num_envs)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        found: Array = self.policy.act(obs, mask)
        return found

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self.returns = self.returns + reward.mean(1)
        self.policy.update(obs, action, reward, done)


def evaluated(policy: Any, population: Population[Any], seed: int, folder: Path, steps: int | None) -> None:
    """Append a row to `evaluations.csv`: steps, and mean and interval of the return over `EVALUATION_RUNS` fresh
    runs. Unknown steps give an empty field."""
    watched = Watched(policy)
    simulate(population, watched, seed=seed, fast=False)
    name = "" if steps is None else str(steps)
    rows = evaluations_in(folder) | {name: [name, *(f"{x:.6g}" for x in statistics.mean(watched.returns))]}
    text = io.StringIO()
    order = sorted(rows, key=lambda one: int(one or 0))
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(rows[one] for one in order)])
    write_bytes(folder / "evaluations.csv", text.getvalue().encode())


def evaluations_in(folder: Path) -> dict[str, list[str]]:
    """The rows of `evaluations.csv` by their steps, empty if there is none; ValueError if they are not of this form."""
    file = folder / "evaluations.csv"
    text = files.content(file, MOST_BYTES).decode() if file.exists() else ""
    rows = list(csv.reader(io.StringIO(text)))
    if any(len(row) != len(COLUMNS) or not re.fullmatch(r"[0-9]{0,18}", row[0]) for row in rows[1:]):
        raise ValueError(f"{file} must have rows of {', '.join(COLUMNS)}")
    return {row[0]: row for row in rows[1:]}


def learner(
    name: str, population: Population[Any], num_envs: int, seed: int, settings: dict[str, Any], trust: bool
) -> Trainer:
    """Trains a learner of this package; it is saved once, at the end."""
    kind = policy_class(name) or Policy
    if not issubclass(kind, Learner):
        raise ValueError(f"algorithm must be one that learns, and {name} does not")
    make_policy(name, seed=seed, **settings)  # raise errors now

    def run(folder: Path, steps: int | None, evaluations: int, report: Report) -> None:
        own = {"steps": steps} if steps and "steps" in inspect.signature(kind).parameters else {}
        made = make_policy(name, **{"seed": seed} | own | settings)
        made.progress = lambda done: report(0.95 * done, f"{name} learns")
        population.reset(seed=seed)
        made.train(population)
        made.progress = None
        made.save(folder / "learner.pkl")
        report(0.95, "evaluation")
        evaluated(made, population, seed, folder, steps)

    return run


def library(
    name: str, population: Population[Any], num_envs: int, seed: int, settings: dict[str, Any], trust: bool
) -> Trainer:
    """Trains an algorithm of Stable-Baselines3 or sb3-contrib, from the last checkpoint if there is one."""
    try:
        from stable_baselines3.common.base_class import BaseAlgorithm
        from stable_baselines3.common.logger import configure
        from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

        from taciturn.wrappers.sb3 import RowsVecEnv
    except ImportError as error:
        raise missing_extra(f"algorithm {name} needs stable-baselines3", "rl") from error
    known = {
        found.__name__: found
        for module in map(importlib.import_module, LIBRARIES)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, BaseAlgorithm)
    }
    if name not in known:
        learners = [one for one, kind in policies().items() if issubclass(kind, Learner)]
        raise UnknownName("algorithm", name, [*known, *learners])
    own = dict(settings)
    for key, one in inspect.signature(known[name]).parameters.items():
        if isinstance(one.default, int | float) and isinstance(own.get(key), str):
            raise ValueError(f"{key} must be a number, as 0.003 or 3.0e-3, not {own[key]!r}")
    network = own.pop("policy", "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy")
    normalize = own.pop("normalize", False)
    population.reset(seed=seed)  # its mechanisms are now on its channels, and on those of practice environments

    def rows(statistics: Path | None = None) -> Any:
        found: Any = VecMonitor(RowsVecEnv(population.view().practice(num_envs), seed))
        if normalize and statistics is not None:
            kept = pickle.loads(trusted_bytes(statistics, trust))
            kept.set_venv(found)
            return kept
        return VecNormalize(found, gamma=own.get("gamma", 0.99)) if normalize else found

    def made(**rollouts: int) -> Any:
        try:
            return known[name](network, rows(), seed=library_seed(seed), device="cpu", **own | rollouts)
        except (TypeError, ValueError, AssertionError) as error:
            raise ValueError(f"algorithm {name} cannot learn in {population.name} with {settings}: {error}") from error

    model: Any = made()

    def save(model_file: Path, statistics_file: Path) -> None:
        if normalize:
            write_bytes(statistics_file, signed(pickle.dumps(model.get_vec_normalize_env())))
        buffer = io.BytesIO()
        model.save(buffer)
        write_bytes(model_file, signed(buffer.getvalue()))

    def run(folder: Path, steps: int, evaluations: int, report: Report) -> None:
        nonlocal model

        def loaded(milestone: int) -> Any:
            kept = io.BytesIO(trusted_bytes(checkpoints / f"{milestone}.zip", trust))
            found = known[name].load(kept, env=rows(checkpoints / f"{milestone}.pkl"), device="cpu")
            if max((one for one in milestones if one <= found.num_timesteps), default=0) != milestone:
                raise ValueError(
                    f"{checkpoints / f'{milestone}.zip'} must be of {milestone:,} steps, not {found.num_timesteps:,}"
                )
            return found

        def evaluate(milestone: int) -> None:
            share = (milestone / steps + (milestones.index(milestone) / len(milestones))) / 2
            report(share, f"{name}: {EVALUATION_RUNS} fresh runs after {model.num_timesteps:,} steps")
            evaluated(Predictor(model), population, seed, folder, milestone)

        milestones = np.unique(np.linspace(0, steps, evaluations + 1).astype(int)[1:]).tolist()
        checkpoints, replay = folder / "checkpoints", folder / "checkpoints" / "replay.pkl"
        saved = checkpoints_in(checkpoints, milestones)
        done = max(saved, default=0)
        if not done and "n_steps" not in own and getattr(model, "n_steps", 0) * model.n_envs > steps:
            # A rollout of the usual length would be longer than the training.
            short = -(-steps // model.n_envs)
            batch = math.gcd(getattr(model, "batch_size", 1), short * model.n_envs)
            model = made(n_steps=short, **{"batch_size": batch} if hasattr(model, "batch_size") else {})
        evaluated_before = evaluations_in(folder)
        for milestone in saved:  # a killed process may have saved it without evaluating it
            if str(milestone) not in evaluated_before:
                model = loaded(milestone)
                evaluate(milestone)
        if done:
            model = loaded(done)
            # Otherwise the first training runs would be repeated.
            model.get_env().seed(int(np.random.SeedSequence([seed, done]).generate_state(1)[0]))
            model.num_timesteps = done
            if replay.exists():
                model.load_replay_buffer(io.BytesIO(trusted_bytes(replay, trust)))
        log = files.own(folder / "log")
        log = files.own(log / f"from_{done}") if done else log
        (log / "progress.csv").unlink(missing_ok=True)  # it is written again, and not where a link leads
        logger = configure(str(log), ["csv", "tensorboard"])
        model.set_logger(logger)
        ended = [0.0]
        try:
            for milestone in milestones:
                if milestone <= done:
                    continue  # steps before this run, or from a rollout that went further
                with one_thread(), learning(name, model.policy.state_dict):
                    model.learn(
                        milestone - model.num_timesteps,
                        callback=progress_callback(
                            report, steps, name, milestones.index(milestone) / len(milestones), ended
                        ),
                        reset_num_timesteps=False,
                    )
                done = max(one for one in milestones if one <= model.num_timesteps)
                if hasattr(model, "replay_buffer"):
                    write_bytes(replay, signed(pickle.dumps(model.replay_buffer)))
                save(checkpoints / f"{done}.zip", checkpoints / f"{done}.pkl")
                evaluate(done)
        finally:
            logger.close()
        save(folder / "model.zip", folder / "vecnormalize.pkl")
        replay.unlink(missing_ok=True)

    return run


def checkpoints_in(folder: Path, milestones: list[int]) -> list[int]:
    """The step numbers of the checkpoints, in order; ValueError if one is at a step where this training makes none."""
    found = [file for file in folder.glob("*.zip") if file.stem.isdecimal()]
    for file in found:
        if file.name not in {f"{milestone}.zip" for milestone in milestones}:
            raise ValueError(
                f"checkpoints must be of this training, which makes them after {shown(milestones)[1:-1]} steps, and "
                f"{file} is not"
            )
    return sorted(int(file.stem) for file in found)


def progress_callback(
    report: Report, steps: int, name: str, evaluations: float, ended: list[float]
) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    """A callback of Stable-Baselines3 that reports the fraction done: the mean of the fraction of steps done and of
    `evaluations`, the fraction of evaluations done. `ended` holds the number of runs that ended."""

    def callback(local: dict[str, Any], _: dict[str, Any]) -> bool:
        model = local["self"]
        done = model.num_timesteps
        ended[0] += np.count_nonzero(local["dones"]) / model.get_env().unwrapped.rows
        asked = f"of {steps:,} steps" if done <= steps else f"steps, since rollouts are whole ({steps:,} asked for)"
        text = f"{name}: {done:,} {asked}, {counted(round(ended[0]), 'whole run')}"
        report((min(done / steps, 1.0) + evaluations) / 2, text)
        return True

    return callback
