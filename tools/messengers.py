"""Train and judge messengers that learn, at a total of 3.

`python tools messengers STEP [WORLD ...]`

`search` trains each learner once for each of its `SETTINGS`, with a seed that no study may have, and judges what it has
learned by runs of its own; the best setting stands in `CHOSEN`. `train` trains it `TRAININGS` times with that setting,
in streams of training, and writes the weights to `policies/learned/pretrained.json`, from which `--policy
pretrained:NAME` plays them. `judge` plays each of them in `RUNS` runs of the task, in streams of evaluation, beside the
mark `alone` and the best hand-designed agent, with the same seeds. `ablate` says what one training reaches with more
steps, and in gossip and social told without noise, or given the posterior of the designed agent; `ppo` (for social),
what PPO reaches on the same memory. `table` prints what came out, and draws the curves of the trainings,
`docs/_static/messengers.png`. Results go to `results/messengers.json`.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from common import record

from taciturn.agents import bring
from taciturn.bench import figures, statistics
from taciturn.bench.comparisons.playing import evaluated, population, task_config
from taciturn.bench.levels import own_configuration
from taciturn.bench.results import TUNING_SEEDS
from taciturn.bench.tasks import BENCHMARKS, TASKS, Task
from taciturn.bench.tuned import usual
from taciturn.envs.core import PublicView
from taciturn.envs.core.drawing import BLUE, GREEN, VERMILION
from taciturn.policies import LearnedListener, Listener, Policy, SharedPPO
from taciturn.policies.designed.listener import one_answer
from taciturn.policies.learned.evolution import Evolved
from taciturn.policies.learned.messengers import of_replicas
from taciturn.privacy.mechanisms import Mechanism, NoPrivacy
from taciturn.validation import Floats
from taciturn.wrappers import Privatize, Remembering
from taciturn.wrappers.channels import private_config

TRAININGS, RUNS, CHECKED = 10, 100, 400
PPO_TRAININGS = 3
MORE = {
    "gossip": {"generations": 28, "replicas": 200},
    "social": {"generations": 20, "replicas": 120},
    "federated": {"generations": 14, "replicas": 180},
}
PPO: dict[str, Any] = {
    "steps": 300_000, "num_envs": 8, "n_steps": 50, "batch_size": 2000, "gamma": 0.9, "learning_rate": 1e-3,
    "n_epochs": 4, "options": ("hits", "misses", "heard", "noise", "counts", "own"), "overrides": {},
}  # fmt: skip
FOLDER = Path(__file__).parent
STORED = FOLDER.parent / "policies" / "learned" / "pretrained.json"
RESULTS = FOLDER / "results" / "messengers.json"
PICTURE = FOLDER.parent / "docs" / "_static" / "messengers.png"


class Training(NamedTuple):
    """What is trained for a task: a learner with its budgets, the settings tried, and the best hand-designed agent."""

    task: str
    learner: str
    searching: dict[str, int]
    budget: dict[str, int]
    settings: tuple[dict[str, Any], ...]
    designed: str
    first: int = 0  # of the seeds of evaluation


SETTINGS = {
    "gossip": Training(
        "taciturn/GossipBandit-v0/standard@3",
        "LearnedListener",
        {"generations": 16, "replicas": 100},
        {"generations": 14, "replicas": 100},
        tuple({"moment": moment} for moment in (4.0, 5.0, 6.0)),
        "Listener",
    ),
    "social": Training(
        "taciturn/SocialBandit-v0/standard@3",
        "LearnedListener",
        {"generations": 16, "replicas": 100},
        {"generations": 10, "replicas": 60},
        tuple({"moment": moment} for moment in (6.0, 9.0)),
        "Listener",
    ),
    "federated": Training(
        "taciturn/FederatedBandit-v0/standard@3",
        "LearnedPlan",
        {"generations": 12, "replicas": 40},
        {"generations": 14, "replicas": 45},
        tuple({"until": until} for until in (0.2, 0.35)),
        "DividedPlan",
        10,
    ),
}
CHOSEN: dict[str, dict[str, Any]] = {"gossip": {"moment": 6.0}, "social": {"moment": 6.0}, "federated": {"until": 0.2}}


def trained(one: Training, own: dict[str, Any], budget: dict[str, int], seed: int) -> Any:
    """The learner, trained under the total of its task."""
    agent = bring(one.learner, **{**own, **budget, "seed": seed})
    return train_in(TASKS[one.task], agent, one.learner, seed)


def train_in(task: Task, agent: Any, name: str, seed: int, channels: Any = None) -> Any:
    """Train an agent with these on the channels; None: with what it puts there under the total."""
    world = population(task_config(task, name), 1, "training")
    if channels is None:
        configuration = own_configuration(agent, world, budget(task))
        assert configuration is not None
        channels = configuration.channels
    world.reset(seed=seed, options={"channels": channels})
    return agent.train(world)


def budget(task: Task) -> float:
    assert isinstance(task.budget, float)
    return task.budget


def measured(
    task: Task, agent: Policy, name: str, runs: int, seed: int, purpose: str = "evaluation", channels: Any = None
) -> float:
    """The task's measure, the mean over runs."""
    config = task_config(task, name)
    if (
        channels is None
        and (configuration := own_configuration(agent, population(config, 1, purpose), budget(task))) is not None
    ):
        channels = configuration.channels
    return float(evaluated(population(config, runs, purpose), agent, config, seed, channels)[task.measure].mean())


def search(name: str) -> list[dict[str, Any]]:
    """What each setting reached."""
    one, result = SETTINGS[name], []
    for own in one.settings:
        begin, agent = time.process_time(), trained(one, own, one.searching, TUNING_SEEDS[0])
        value = measured(TASKS[one.task], agent, one.learner, CHECKED, TUNING_SEEDS[1], "choice of settings")
        result.append(
            {"settings": own, "measure": round(value, 5), "cpu_seconds": round(time.process_time() - begin, 1)}
        )
        print(name, json.dumps(result[-1]), flush=True)
    return result


def train(name: str) -> list[dict[str, Any]]:
    """The trainings of a world, whose weights are kept."""
    one, result = SETTINGS[name], []
    for seed in range(TRAININGS):
        begin, agent = time.process_time(), trained(one, CHOSEN[name], one.budget, seed)
        weights = {key: float(f"{value:.6g}") for key, value in agent.weights.items()}
        stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
        stored[f"{name}-{seed}"] = {
            "policy": one.learner, "task": one.task, "parameters": {**CHOSEN[name], "weights": weights}
        }  # fmt: skip
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(stored.items()))
        STORED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        history = [float(f"{cost:.4g}") for cost in agent.history]
        result.append({"seed": seed, "cpu_seconds": round(time.process_time() - begin, 1), "history": history})
        print(name, json.dumps(result[-1]), json.dumps(weights), flush=True)
    return result


def judge(name: str) -> dict[str, Any]:
    """The measure of each training, of `alone` and of the designed agent, by seed, and their differences."""
    one = SETTINGS[name]
    task, alone = TASKS[one.task], BENCHMARKS[TASKS[one.task].env].no_communication
    assert alone is not None
    rivals = {"alone": alone.policy, "designed": one.designed}
    values: dict[str, list[float]] = {"learned": [], "alone": [], "designed": []}
    for training in range(TRAININGS):
        seed = one.first + training
        values["learned"].append(measured(task, bring(f"pretrained:{name}-{training}"), one.learner, RUNS, seed))
        for role, policy in rivals.items():
            values[role].append(measured(task, bring(policy, **usual(task, policy)), policy, RUNS, seed))
        print(name, seed, {role: round(result[-1], 4) for role, result in values.items()}, flush=True)
    rounded = {role: [float(f"{value:.6g}") for value in result] for role, result in values.items()}
    differences = {
        role: [float(f"{x:.4g}") for x in statistics.difference(values["learned"], values[role])] for role in rivals
    }
    print(name, differences, flush=True)
    return {
        "measure": task.measure, "seeds": [one.first, one.first + TRAININGS - 1], "policies": rivals,
        "values": rounded, "learned_minus": differences,
    }  # fmt: skip


class GivenPosterior(Evolved, Listener):
    """`Listener` whose optimism before and after it has heard an answer is learned: what it hears is given, and what it
    does with that is not."""

    initial: ClassVar[Mapping[str, float]] = {"before": 0.5, "before_fades": -2.0, "after": 0.5, "after_fades": -2.0}
    measures: ClassVar[Mapping[str, str]] = LearnedListener.measures

    def __init__(self, own: Mapping[str, Any], *, seed: int = 0, **budget: int) -> None:
        Listener.__init__(self, **own)
        Evolved.__init__(self, budget["generations"], budget["replicas"], 0.5, None, seed)

    def check(self, view: PublicView) -> None:
        """Anything that `Listener` accepts."""

    def begin(self, view: PublicView) -> None:
        Evolved.begin(self, view)

    def look(self, view: PublicView) -> None:
        assert self.weights is not None
        self._w = of_replicas(self.weights)
        Listener.begin(self, view)

    def hope(self) -> Floats:
        at, w = self.at(), self._w
        left = np.maximum(1.0 - self._ticks[at] / self._ends, 0.0)[..., None]
        listens = self._received[at][..., -1:] > 0
        before, after = (np.exp(w[key]) * left ** np.exp(w[f"{key}_fades"]) for key in ("before", "after"))
        return np.where(listens, after, before)


def ablate(name: str) -> dict[str, Any]:
    """What one training reaches with more steps, told all answers without noise, and given the designed agent's
    posterior; beside that agent, with the same seeds."""
    one = SETTINGS[name]
    task, own = TASKS[one.task], usual(TASKS[one.task], one.designed)
    given, more = {**CHOSEN[name], "seed": TUNING_SEEDS[0]}, MORE[name]
    cases: dict[str, tuple[Any, dict[str, int], Any]] = {
        "more steps": (bring(one.learner, **{**given, **more}), more, None)
    }
    if one.designed == "Listener":
        exact = {"preference": private_config(one_answer_at(task, CHOSEN[name]["moment"]))}
        cases["told exactly"] = (bring(one.learner, **{**given, **one.budget}), one.budget, exact)
        given_it = GivenPosterior(own, seed=TUNING_SEEDS[0], **one.budget)
        cases["given the posterior"] = (given_it, one.budget, None)
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["worlds"][name]["judge"]
    results: dict[str, Any] = {}
    seeds = range(one.first, one.first + TRAININGS)
    for case, (agent, budget, channels) in cases.items():
        begin = time.process_time()
        train_in(task, agent, one.learner, TUNING_SEEDS[0], channels)
        values = {"learned": [measured(task, agent, one.learner, RUNS, seed, channels=channels) for seed in seeds]}
        if channels is None:
            values["designed"] = known["values"]["designed"]
        else:
            designed = bring(one.designed, **own)
            values["designed"] = [
                measured(task, designed, one.designed, RUNS, seed, channels=channels) for seed in seeds
            ]
        gap = [float(f"{x:.4g}") for x in statistics.difference(values["learned"], values["designed"])]
        means = {role: float(f"{np.mean(each):.4g}") for role, each in values.items()}
        seconds = round(time.process_time() - begin, 1)
        results[case] = {"budget": budget, "cpu_seconds": seconds, **means, "learned_minus_designed": gap}
        print(name, case, json.dumps(results[case]), json.dumps(agent.weights), flush=True)
    return results


def independent_ppo(name: str) -> dict[str, Any]:
    """What PPO with one network for all agents (IPPO) reaches on the observations of `Remembering`, by training; the
    answer comes at the chosen moment."""
    one, values, begin = SETTINGS[name], list[float](), time.process_time()
    task, listener = TASKS[one.task], bring(one.learner, **CHOSEN[name])
    config = task_config(task, one.learner)
    for seed in range(PPO_TRAININGS):
        learner = SharedPPO(seed=seed, **PPO)
        for purpose, runs in (("training", 1), ("evaluation", RUNS)):
            world = population(config, runs, purpose)
            channels = listener.within(world.view(), budget(task))
            world = Remembering(world)
            for channel, mechanism in channels.items():
                world = Privatize(world, channel, mechanism)
            world.reset(seed=seed)
            if purpose == "training":
                learner.train(world)
            else:
                learner.reset(world, world.stream("policy"))
                world.advance(learner)
                values.append(float(f"{world.measure(task.measure).mean():.6g}"))
        print(name, "ppo", seed, values[-1], flush=True)
    seconds = round((time.process_time() - begin) / PPO_TRAININGS, 1)
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in PPO.items()}
    return {"settings": settings, "values": values, "cpu_seconds": seconds}


def one_answer_at(task: Task, moment: float) -> Mechanism:
    """One answer of each agent, at the moment, without noise."""
    world = population(task_config(task, "Listener"), 1, "training")
    return one_answer(NoPrivacy(), moment, world.view())["preference"]


def tables(found: dict[str, Any]) -> tuple[str, ...]:
    """The rows of the page's first table, its second table, and the rows of its third."""
    trainings, results = [], [
        "| world | measure | alone | designed | learned | learned - alone | learned - designed |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, one in SETTINGS.items():
        world, seconds = found["worlds"][name], [each["cpu_seconds"] for each in found["worlds"][name]["train"]]
        weights = len(json.loads(STORED.read_text(encoding="utf-8"))[f"{name}-0"]["parameters"]["weights"])
        runs = f"{one.budget['generations']} x {one.budget['replicas']}"
        trainings.append(f"| {name} | {weights} | {runs} | {np.mean(seconds):.0f} s |")
        told = world["judge"]
        values = {role: np.array(each) for role, each in told["values"].items()}
        means = [shown(statistics.mean(values[role])) for role in ("alone", "designed")]
        means.append(shown(statistics.median(values["learned"])))
        means[0], means[1] = (
            f"{mean} {policy}" for mean, policy in zip(means, told["policies"].values(), strict=False)
        )
        gaps = [shown(statistics.median(values["learned"] - values[role])) for role in ("alone", "designed")]
        results.append(f"| {' | '.join([name, told['measure'], *means, *gaps])} |")
    cases = [
        f"| {name} | {case} | {budget['generations']} x {budget['replicas']} | {each['learned']:.3g} | "
        f"{each['designed']:.3g} | {shown(statistics.Estimate(*each['learned_minus_designed']))} |"
        for name in SETTINGS
        for case, each in found["worlds"][name]["ablate"].items()
        for budget in (each["budget"],)
    ]
    return "\n".join(trainings), "\n".join(results), "\n".join(cases)


def curves(found: dict[str, Any]) -> Any:
    """A figure with a panel a world: the mean cost of the candidates of each generation, of each training and the
    median of all, beside what the mark `alone` and the designed agent reach when judged."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = figures.panels([*SETTINGS], width=9.0, height=3.6, columns=len(SETTINGS))
    for ax, name in zip(axes, SETTINGS, strict=True):
        world = found["worlds"][name]
        histories = np.array([one["history"] for one in world["train"]])
        generations = np.arange(1, histories.shape[1] + 1)
        ax.plot(generations, histories.T, color=BLUE, alpha=0.3, linewidth=0.8)
        ax.plot(generations, np.median(histories, 0), color=BLUE, linewidth=2, label="trainings, and their median")
        for role, colour in (("alone", VERMILION), ("designed", GREEN)):
            label = f"{world['judge']['policies'][role]} ({role})"
            ax.axhline(np.mean(world["judge"]["values"][role]), color=colour, linestyle="--", label=label)
        ax.set(xlabel="generation", ylabel=world["judge"]["measure"])
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def shown(one: statistics.Estimate) -> str:
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("search", "train", "judge", "ablate", "ppo", "table"))
    parser.add_argument("worlds", nargs="*", default=[*SETTINGS])
    given = parser.parse_args(arguments)
    if given.step == "table":
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
        print("\n\n".join(tables(found)))
        PICTURE.write_bytes(figures.render(curves(found), "png"))
        return
    steps: dict[str, Any] = {"search": search, "train": train, "judge": judge, "ablate": ablate, "ppo": independent_ppo}
    for name in given.worlds:
        found = steps[given.step](name)
        old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        worlds = old.get("worlds", {})
        worlds.setdefault(name, {})[given.step] = found
        result = {"worlds": worlds, "chosen": CHOSEN, "trainings": TRAININGS, "runs": RUNS}
        record("messengers", result, folder=RESULTS.parent)
