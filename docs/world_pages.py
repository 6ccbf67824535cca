"""The part of each world's page that is made by asking the world: a picture, its spaces, parameters, channels, metrics
and policies."""

import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from taciturn.describing import by_role, parameters
from taciturn.envs.core import Population
from taciturn.registry import WORLDS as ENTRIES
from taciturn.registry import entry

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


def picture(world: str) -> bytes:
    """The picture of a world after its example, as a PNG file."""
    from matplotlib.image import imsave

    file = io.BytesIO()
    with contextlib.redirect_stdout(None):
        imsave(file, play(world)["frame"], format="png")
    return file.getvalue()


def about(world: str, file: str, plain: Callable[[str], str]) -> str:
    """What a world says of itself, in reStructuredText, with its picture, the `file`; `plain` escapes text of
    docstrings."""
    known = entry(world)
    population: Population[Any] = known.world.population()
    roles, channels = population.roles, population.channels
    facts = [
        ("Id", f"``{known.id}``"),
        ("Agents", ", ".join(f"{role.num_agents:,} × ``{name}``" for name, role in roles.items())),
        ("Length of a run", f"``horizon`` = {population.params.horizon:,g} (unit: {population.clock_unit})"),
        ("Policies that fit", "; ".join([*by_role(known.world, "``"), "and learners"])),
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
    lines = textwrap.indent(code(world), "   ")
    parts = [
        f".. figure:: {file}\n   :alt: {world}, drawn\n   :width: 640\n\n   The first of the runs below, at its end.\n",
        table((), facts),
        _heading("In a few lines"),
        f".. code-block:: python\n\n{lines}",
        _heading("What agents see and do"),
        "Observations are float32 and have these columns, for the default parameters:\n",
        table(("role", "entry", "columns", "range"), seen),
        table(("role", "action"), actions),
        _heading("Parameters"),
        _parameters(population, known.world.Params, plain),
        _heading("Metrics"),
        plain(" ".join((inspect.getdoc(type(population).outcome) or "").split())),
        "\nMetrics of what a run spends are the same in all worlds (:doc:`/privacy`).\n",
    ]
    if sent:
        parts += [_heading("Channels"), table(("channel", "message", "sent by", "read by", "unit"), sent)]
    return "\n".join(parts) + "\n"


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
