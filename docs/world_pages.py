"""The part of each world's page that is made by asking the world, and from what is kept of it: an animation, loops, its
spaces, parameters, channels, metrics and policies, what a step takes, and scores."""

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gallery import shown as moving

from taciturn.bench.scores import FREE, UNDER, leaderboard
from taciturn.bench.study import Table
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import STANDARD
from taciturn.describing import fitting, parameters
from taciturn.envs.core import Population, Replicas
from taciturn.envs.core.hooks import Hooks
from taciturn.registry import WORLDS as ENTRIES
from taciturn.registry import entry, policies

ROOT = Path(__file__).parent.parent
KINDS = {"base": "–", "reference": "paper"}
"""What the packages of policies are called in tables, where not as they are."""
POLICY_KINDS = {
    "reference": "Published algorithms",
    "designed": "Hand-designed agents",
    "learned": "Learners",
    "classic": "Textbook baselines",
    "base": "Random play",
}
"""The packages of policies, and the headings of their tables."""
FORMS = {
    "single": "Gymnasium",
    "DummyVecEnv": "Stable-Baselines3's DummyVecEnv",
    "simple_spread": "PettingZoo Parallel",
    "parallel": "PettingZoo Parallel",
    "AEC": "PettingZoo AEC, one turn",
}
"""The forms of the rows of `benchmarks/steps.py`."""

# The names of the worlds by the modules that define them.
WORLDS = {one.module: one.name for one in ENTRIES}


def code(world: str) -> str:
    """The lines of its example."""
    shown = entry(world).example
    assert shown is not None, f"the descriptor of {world} needs an example"
    wrappers = f"from taciturn.wrappers import {shown.mechanism}\n" if shown.mechanism else ""
    given = "".join(f"    {one},\n" for one in (*shown.run, "seed=0"))
    return (
        f"import taciturn\nfrom taciturn.envs import {world}\nfrom taciturn.envs.core import picture\n"
        f"from taciturn.policies import {shown.policies}\n{wrappers}\n"
        f"env = {world}.population({shown.world})\nrun = taciturn.simulate(\n    env,\n{given})\n"
        f"print(run.summary())\nframe = picture(env)  # of the first run: uint8 [400, 640, 3]\n"
    )


def play(world: str) -> dict[str, Any]:
    """Run a world's example; what it has named, `env`, `run` and `frame` among it."""
    names: dict[str, Any] = {}
    exec(compile(code(world), world, "exec"), names)
    return names


def loops(world: str) -> dict[str, str]:
    """Random actions in its form for Gymnasium and in that for PettingZoo: the lines, by title."""
    known = entry(world)
    size = f"{known.size}=10" if known.size else ""
    others = f', others="{known.others}"' * bool(known.others) + f", {size}" * bool(size)
    return {
        "Gymnasium": (
            f"import gymnasium\nimport taciturn  # registers the worlds\n\n"
            f'env = gymnasium.make("{known.id}"{others})\nobservation, info = env.reset(seed=0)\n'
            "for _ in range(100):\n"
            "    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())\n"
            "    if terminated or truncated:\n        observation, info = env.reset()\n"
        ),
        "PettingZoo": (
            f"from taciturn.envs import {world}\n\n"
            f"env = {world}.parallel_env({size})\nobservations, infos = env.reset(seed=0)\nfor _ in range(100):\n"
            "    actions = {agent: env.action_space(agent).sample() for agent in env.agents}\n"
            "    observations, rewards, terminations, truncations, infos = env.step(actions)\n"
            "    if not env.agents:\n        observations, infos = env.reset()\n"
        ),
    }


def about(world: str, plain: Callable[[str], str]) -> str:
    """What a world says of itself and what is kept of it, in reStructuredText; `plain` escapes text of docstrings."""
    known = entry(world)
    population: Population[Any] = known.world.population()
    roles, channels = population.roles, population.channels
    facts = [
        ("Id", f"``{known.id}``"),
        ("Agents", ", ".join(f"{role.num_agents:,} × ``{name}``" for name, role in roles.items())),
        ("Length of a run", f"``horizon`` = {population.params.horizon:,g} (unit: {population.clock_unit})"),
    ]
    seen = [
        (f"``{name}``", f"``{field}``", _places(role.layout.slices[field]), f"{low:,.9g} to {high:,.9g}")
        for name, role in roles.items()
        for field, (_, low, high) in role.layout.fields.items()
    ]
    actions = [(f"``{name}``", f"``{' '.join(str(role.action_space).split())}``") for name, role in roles.items()]
    sent = [
        (f"``{name}``", one.payload.replace("_", " "), f"``{one.sender}``", one.observer, one.unit)
        for name, one in channels.items()
    ]
    raw = f".. raw:: html\n\n   {moving(world, '../../')}\n"
    parts = [
        raw,
        "A run of the example below, played step by step.\n",
        table((), facts),
        _heading("In a few lines"),
        "As arrays, with a policy of the package:\n",
        _block(code(world)),
    ]
    for form, lines in loops(world).items():
        seat = " (controls one agent; a policy plays the others)" * (form == "Gymnasium" and bool(known.others))
        parts += [f"{form}{seat}, with random actions:\n", _block(lines)]
    parts += [
        _heading("Observations and actions"),
        "Observations are float32 with these columns, for the default parameters:\n",
        table(("role", "entry", "columns", "range"), seen),
        table(("role", "action"), actions),
        _heading("Parameters"),
        _parameters(population, known.world.Params, plain),
        _heading("Metrics"),
        plain(" ".join((inspect.getdoc(type(population).outcome) or "").split())),
        "\nAll environments have the same metrics of privacy and messages (:doc:`/privacy`).\n",
    ]
    if sent:
        parts += [_heading("Channels"), table(("channel", "message", "sent by", "read by", "unit"), sent)]
    parts += [_heading("Policies that fit"), _fitting(known.world, plain)]
    for title, text in (("Time of a step", _steps(world)), ("Scores", _scores(known.id))):
        parts += [_heading(title), text] * bool(text)
    return "\n".join(parts) + "\n"


def _block(lines: str) -> str:
    return f".. code-block:: python\n\n{textwrap.indent(lines, '   ')}"


def _fitting(world: Any, plain: Callable[[str], str]) -> str:
    """A table of the policies that act in a world: their kinds, and the first sentences of their docstrings, which name
    their sources."""
    by_role, kinds = fitting(world), policies()
    several = len(by_role) > 1
    rows = []
    for role, names in by_role.items():
        found = [(name, kinds[name.partition("(")[0]]) for name in names]
        order = ["reference", "designed", "classic", "base"]
        told = [(_kind(policy), name, policy) for name, policy in found]
        for kind, name, policy in sorted(told, key=lambda one: order.index(one[0]) if one[0] in order else len(order)):
            text = _first_sentence(inspect.getdoc(policy)) if "__doc__" in vars(policy) else ""
            if kind == "reference":
                text += f" Source: {_first_sentence(inspect.getdoc(inspect.getmodule(policy)))}"
            rows.append((f"``{name}``", *[f"``{role}``"] * several, KINDS.get(kind, kind), plain(text)))
    header = ("policy", *["role"] * several, "kind", "description and source")
    return table(header, rows, "parameters") + (
        "\nLearners are not in this table, because they train first (:doc:`/recipes`).\n"
    )


@cache
def hooks() -> frozenset[str]:
    """The names of the methods and attributes by which an environment is written."""
    return frozenset(name for kind in (Hooks, Replicas, Population) for name in vars(kind))


def named_in(policy: Any) -> list[str]:
    """The environments that the docstring of a policy or of its module names."""
    text = f"{inspect.getdoc(policy)} {inspect.getdoc(inspect.getmodule(policy))}"
    return [one.title for one in ENTRIES if re.search(rf"\b{one.name.removesuffix('_v0')}(_v0)?\b", text)]


def algorithms(plain: Callable[[str], str]) -> str:
    """A table of all policies of the package, a kind after another: where they act, and what they do."""
    known = policies()
    acts: dict[str, list[str]] = {name: [] for name in known}
    for one in ENTRIES:
        for names in fitting(one.world).values():
            for name in names:
                short = name.partition("(")[0]
                if one.title not in acts[short]:
                    acts[short].append(one.title)
    text = "``simulate`` and the command line take a policy by its name. It acts in the environments in its row.\n"
    text += "A learner acts in the environment in which it was trained.\n\n"
    for kind, title in POLICY_KINDS.items():
        rows = []
        for name, policy in known.items():
            if _kind(policy) == kind and policy.__module__.startswith("taciturn.policies"):
                where = ", ".join(acts[name] or named_in(policy)) if len(acts[name]) < len(ENTRIES) else "all"
                module = policy.__module__.removeprefix("taciturn.policies.")
                link = f":doc:`{name} </api/policies/{module}>`"
                rows.append((link, where or "–", plain(_first_sentence(inspect.getdoc(policy)))))
        if rows:
            text += (
                _heading(title) + "\n" + table(("policy", "environments", "description"), rows, "parameters") + "\n\n"
            )
    return text


def _kind(policy: Any) -> str:
    """The package of `taciturn.policies` that a policy is in."""
    return str(policy.__module__).removeprefix("taciturn.policies.").partition(".")[0]


def _first_sentence(docstring: str | None) -> str:
    text = " ".join((docstring or "").split())
    return re.split(r"(?<=[a-z0-9)`'\"]\.) (?=[A-Z])(?<!al\. )", text)[0].rstrip(".") + "."


@cache
def _measured() -> Any:
    return json.loads((ROOT / "benchmarks/results/steps.json").read_text(encoding="utf-8"))


def _steps(world: str) -> str:
    """A table of what `benchmarks/steps.py` measured in a world, beside its peers; empty if it was not measured."""
    kept, rows = _measured(), []
    for name, row in kept["rows"].items():
        form, *size, what = name.split(", ")
        if what in (world, entry(world).id.removeprefix("taciturn/")):
            times = (f"{row[key] / 1000:.3g}" for key in ("us", "peer_us"))
            rows.append((", ".join([FORMS[form], *size]), next(times), row["peer"], next(times)))
    if not rows:
        return ""
    machine, versions = kept["machine"], ", ".join(f"{name} {number}" for name, number in kept["versions"].items())
    return table(("form", "ms per step", "reference", "its ms"), rows) + (
        f"\nCPU time of one process on {machine['processor']} ({machine['platform']}), with {versions}; every "
        "step makes its info (``python benchmarks/steps.py``, :doc:`/speed`).\n"
    )


@cache
def _boards() -> tuple[Table, Table]:
    """All agents in the standard tasks, without privacy and under totals, from the kept runs."""
    results = unpacked(ROOT / "tools/results/studies/agents.json").results
    return leaderboard(results, FREE), leaderboard(results, UNDER)


def _scores(world: str) -> str:
    """A table of all agents in a world's standard task, and of the best under each total; empty if none was kept."""
    task = f"{world.removeprefix('taciturn/')}/{STANDARD}"
    free, under = ([dict(zip(one.columns, row, strict=True)) for row in one.rows] for one in _boards())
    mine = [row for row in free if row["task"].removesuffix(" (control)") == task]
    if not mine:
        return ""
    names = ("rank", "policy", "kind", "score")
    text = table(names, [tuple(row[name] for name in names) for row in mine])
    best = [row for row in under if row["task"].partition("@")[0] == task and row["rank"] == "1"]
    if best:
        rows = [(row["task"].partition("@")[2], row["policy"], row["kind"], row["score"]) for row in best]
        text += "\nThe best agents under a budget of epsilon for an agent's whole run (:doc:`/privacy-totals`):\n\n"
        text += table(("budget", "policy", "kind", "score"), rows)
    return text + (
        f"\nThe task is ``{task}``. 0 is the best non-communicating agent, and 1 is full information. "
        "Brackets are 95% intervals (:doc:`/leaderboard`).\n"
    )


def _places(where: slice) -> str:
    return f"{where.start}" if where.stop == where.start + 1 else f"{where.start} to {where.stop - 1}"


def _parameters(population: Population[Any], params: Any, plain: Callable[[str], str]) -> str:
    """A table of the parameters, their defaults, and what the docstring, or that of the world it derives from, says of
    them."""
    left = {name: repr(getattr(population.params, name)) for name, _ in parameters(params)}
    rows: list[tuple[str, ...]] = []
    for kind in type(population).__mro__:
        for names, meaning in arguments(vars(kind).get("__doc__") or ""):
            known = [name for name in names if name in left]
            if known:
                values = [left.pop(name) for name in known]
                shown = meaning.removeprefix(", ".join(known) + ": ")
                rows.append((_stack(known), _stack(values), plain(shown)))
    rows += [(_stack([name]), _stack([value]), "") for name, value in left.items()]
    return table(("parameter", "default", "meaning"), rows, "parameters")


def _stack(texts: list[str]) -> str:
    return "\n\n".join(f"``{text}``" for text in texts)


def arguments(docstring: str) -> list[tuple[list[str], str]]:
    """Of each entry of a docstring's section 'Arguments', the names that it may explain, and its text."""
    found = re.search(r"^Arguments\n(.*?)(?=^\S|\Z)", docstring, re.MULTILINE | re.DOTALL)
    _, *entries = re.split(r"^- ", textwrap.dedent(found[1]), flags=re.MULTILINE) if found else [""]
    texts = [" ".join(one.split()) for one in entries]
    return [(re.findall(r"(?:^|[;,.] )(\w+)(?=[:,]| >)", text), text) for text in texts]


def without(docstring: list[str]) -> list[str]:
    """The lines of a world's docstring but for its first paragraph and its arguments, which the page has above."""
    lines = "\n".join(docstring).partition("\n\n")[2]
    return re.sub(r"^Arguments\n(.*?)(?=^\S|\Z)", "", lines, flags=re.MULTILINE | re.DOTALL).split("\n")


def _heading(text: str) -> str:
    return f"{text}\n{'-' * len(text)}\n"


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], style: str = "facts") -> str:
    """A list-table of reStructuredText, whose header may be empty; `style` is its class."""
    lines = [".. list-table::", f"   :class: {style}", *(["   :header-rows: 1"] if header else []), ""]
    for row in [header, *rows] if header else rows:
        for i, cell in enumerate(row):
            first, *more = cell.split("\n")
            lines += [f"   {'*' if i == 0 else ' '} - {first}".rstrip(), *(f"       {line}".rstrip() for line in more)]
    return "\n".join([*lines, ""])
