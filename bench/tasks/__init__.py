"""The tasks of the standing benchmark: each environment in its standard form and in other sizes, and held-out variants
without any training or tuning; each of these also under privacy budgets per agent and run."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from taciturn.bench.results import Config
from taciturn.bench.tasks.benchmark import Benchmark, BudgetPlan, Variant, read
from taciturn.envs.core.descriptor import Descriptor
from taciturn.plugins import Plugins
from taciturn.registry import descriptors, entry, make_world
from taciturn.wrappers import MessageLimit


@cache
def own_benchmarks() -> dict[str, Benchmark]:
    """The benchmark tables of this package's environments, by name. Raises ValueError, which names the file."""
    results = {}
    for file in files(__name__).iterdir():
        world, _, kind = file.name.rpartition(".")
        if kind == "toml":
            try:
                results[world] = read(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{file.name}: {error}") from error
    return results


def is_table(found: Any, world: str) -> bool:
    """Whether a package declares a table for an environment. Raises ValueError if the table cannot be used."""
    return isinstance(found, Mapping | str) and read(found) is not None and entry(world) is not None


TABLE_PLUGINS = Plugins(
    "taciturn.tasks",
    r"[a-z][a-z0-9_]*_v\d+",
    "a table as in taciturn.bench.tasks, a mapping or a text in TOML",
    is_table,
    own_benchmarks,
)


def benchmarks() -> dict[str, Benchmark]:
    """The benchmark tables of all environments, with usable ones of other packages, in the order of the
    environments."""
    result = own_benchmarks() | {name: read(table) for name, table in TABLE_PLUGINS.load_all().items()}
    return {world.name: result[world.name] for world in descriptors() if world.name in result}


BENCHMARKS = benchmarks()
PROTECTED: dict[str, BudgetPlan] = {
    env: benchmark.budgets for env, benchmark in BENCHMARKS.items() if benchmark.budgets is not None
}
HIGHER = {"return", *(benchmark.measure for benchmark in BENCHMARKS.values() if benchmark.higher)}
"""The measures for which more is better."""
RANDOM, CLASSIC, PAPER, TASK_AGENT, PLAIN, TUNED_LEARNER = KINDS = (
    "random", "classic", "paper", "hand-designed", "plain PPO", "tuned learner",
)  # fmt: skip
"""The kinds of agents: random play, textbook policies, the papers' algorithms, hand-designed agents, learners."""
YOURS, RETURN, MESSAGES, EPSILON = "yours", "return", "messages", "epsilon"
NO_COMMUNICATION, FULL_INFORMATION = REFERENCES = ("no communication", "full information")
"""The references at scores 0 and 1."""
ORACLE = "oracle"
"""An agent that gets all messages of the others: a reference, never ranked."""
DESIGNED, LEARNED = (CLASSIC, PAPER, TASK_AGENT), (PLAIN, TUNED_LEARNER)
SILENCED = "silenced"
"""An agent's result in the standard task if it receives another run's messages instead of its own."""
LISTENS = "listens"
"""1 if that changes anything, and 0 if not."""
STANDARD = "standard"
AS_TRAINED = Variant("the environment in which learners train")
NO_BUDGET_LIMIT = "none"
BUDGETS = (NO_BUDGET_LIMIT, 10.0, 3.0, 1.0)
"""Privacy budgets of an agent for a run."""
DELTA = 1e-5


class Task(NamedTuple):
    """An environment and one of its variants, the measure that compares agents, and an agent's privacy budget."""

    env: str
    name: str
    measure: str
    variant: Variant
    budget: float | str = NO_BUDGET_LIMIT

    @property
    def id(self) -> str:
        """The id, such as "taciturn/GossipBandit-v0/liars@3"; the environment's version is the task's."""
        return f"{self.plain}@{self.budget:g}" if isinstance(self.budget, float) else self.plain

    @property
    def plain(self) -> str:
        """The id without the budget."""
        return f"{entry(self.env).id}/{self.name}"

    @property
    def params(self) -> Config:
        """Parameters of the environment."""
        return {**BENCHMARKS[self.env].world, **self.variant.params, **under(self.env, self.budget)}

    @property
    def others(self) -> Mapping[str, float]:
        """The policies of the environment's other side, with their shares."""
        return others_in(self.env, self.variant)

    @property
    def held_out(self) -> bool:
        """Whether it is kept free of training and tuning."""
        return not self.variant.size and self.name != STANDARD

    @property
    def size(self) -> str:
        """The name of the task used to tune the hand-designed agents that play this one."""
        return self.name if self.variant.size else STANDARD

    @property
    def control(self) -> bool:
        """Whether it is a control task, in which communication cannot help."""
        return self.variant.control or bool(BENCHMARKS[self.env].control)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The entries that `taciturn show` prints, by name."""
        standard = ", on random streams separate from those of evaluation" * (self.name == STANDARD)
        params = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        faults = "; ".join(f"{channel}: {fault!r}" for channel, fault in self.variant.faults.items())
        others, strangers = (
            ", ".join(f"{share:g} x {name}" for name, share in some.items())
            for some in (self.others, self.variant.strangers)
        )
        return [
            (
                "what",
                self.variant.what
                + standard
                + f"; a control: {BENCHMARKS[self.env].control or 'communication cannot help'}" * self.control,
            ),
            ("world", f"{self.env}({params})"),
            *([("faults", faults)] if faults else []),
            *([("other side", others)] if others else []),
            *([("strangers", strangers)] if strangers else []),
            ("seeds", "0 to 9, in evaluation streams that no training or search uses"),
            ("messages", self.limit),
            ("privacy", self.privacy),
            ("measure", self.aim),
            ("run", f"taciturn run {self.id} --policy AGENT --runs {50 if self.held_out else 100}"),
            ("compare", f"taciturn bench --agent AGENT --where env={self.env} --out FOLDER"),
        ]

    @property
    def privacy(self) -> str:
        """An agent's budget, the data that it covers, and the observer."""
        protected = PROTECTED.get(self.env)
        if protected is None:
            return "nothing private is sent"
        if not isinstance(self.budget, float):
            return f"none here; with privacy budgets: {self.plain}@10, @3, @1"
        return (
            f"each agent may spend epsilon = {self.budget:g} over its run: {protected.covers} ({protected.unit} level, "
            f"delta {DELTA:g}, an observer of all messages there)"
        )

    @property
    def covers(self) -> str:
        """The data that its budget protects, and the channels that it covers and leaves out, in words; empty if the
        environment has no budgets."""
        return PROTECTED[self.env].covers if self.env in PROTECTED else ""

    @property
    def aim(self) -> str:
        """The measure and its better direction."""
        return f"{self.measure} ({'higher' if BENCHMARKS[self.env].higher else 'lower'} is better)"

    @property
    def limit(self) -> str:
        """The limit on an agent's messages."""
        limits = [fault.messages for fault in self.variant.faults.values() if isinstance(fault, MessageLimit)]
        return f"at most {limits[0]} of each agent" if limits else "as many as an agent likes; the results count them"

    @property
    def metric(self) -> str:
        """The measure's name in the results of the study `agents`."""
        return self.measure if self.name == STANDARD else f"{self.measure}/{self.name}"


def first_of(config: Mapping[str, Any]) -> str:
    """The name of the task for which a configuration's results hold single runs, `MESSAGES` and `EPSILON`; for the
    configuration's other tasks, messages are under `MESSAGES/NAME`."""
    result: str = config["tasks"][0] if "tasks" in config else config.get("size", STANDARD)
    return result


def sign(measure: str) -> int:
    """1 if more is better, or -1; a variant's measure is the environment's own."""
    return 1 if measure.partition("/")[0] in HIGHER else -1


def under(env: str, budget: float | str) -> Config:
    """The parameters of an environment that differ under a budget."""
    return {} if budget == NO_BUDGET_LIMIT else dict(PROTECTED[env].params)


TASKS: dict[str, Task] = {
    task.id: task
    for env, benchmark in BENCHMARKS.items()
    for budget in (BUDGETS if env in PROTECTED else (NO_BUDGET_LIMIT,))
    for name, variant in {STANDARD: AS_TRAINED, **benchmark.variants}.items()
    for task in (Task(env, name, benchmark.measure, variant, budget),)
}


def world_title(env: str) -> str:
    """The title: "gossip bandit" for "gossip_bandit_v0"."""
    return Descriptor(name=env).title


def size_of(task: Task) -> tuple[int, str]:
    """The number of agents in a task, and their name: (20, "agents")."""
    params = make_world(task.env).Params(**task.params)
    names = ("agents", "clients", "individuals")
    return next((getattr(params, f"num_{name}"), name) for name in names if hasattr(params, f"num_{name}"))


def shares(env: str) -> bool:
    """Whether agents of an environment send one another, or a server, their observations."""
    return env in PROTECTED and BENCHMARKS[env].side is None


def others_in(env: str, variant: Variant) -> Mapping[str, float]:
    """The policies of an environment's other side in a variant, with their shares."""
    return BENCHMARKS[env].others if variant.others is None else variant.others


def covered(envs: Iterable[str]) -> str:
    """The coverage of budgets in these environments, in a sentence; empty if none has budgets."""
    by_words: dict[str, list[str]] = {}
    for env in filter(PROTECTED.__contains__, dict.fromkeys(envs)):
        by_words.setdefault(PROTECTED[env].covers, []).append(world_title(env))
    parts = [f"{words}, in {' and '.join(worlds)}" for words, worlds in by_words.items()]
    return f"A budget covers {'; '.join(parts)}." if parts else ""


def tasks_of(env: str, budget: float | str = NO_BUDGET_LIMIT, size: str | None = None) -> list[Task]:
    """The tasks of an environment under a budget, the standard one first; with `size` those with hand-designed agents
    tuned for that size."""
    some = (task for task in TASKS.values() if task.env == env and task.budget == budget)
    return [task for task in some if size in (None, task.size)]


def budgets_of(env: str) -> tuple[float | str, ...]:
    """The budgets at which the tasks of an environment exist."""
    return tuple(dict.fromkeys(task.budget for task in TASKS.values() if task.env == env))
