"""`taciturn show`."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument

from taciturn.cli.arguments import task_named
from taciturn.cli.options import Json
from taciturn.cli.output import print_json
from taciturn.registry import UnknownName
from taciturn.terminal import aligned, window

if TYPE_CHECKING:
    from taciturn.bench.study import Study
    from taciturn.describing import Description


def show(
    name: Annotated[str, Argument(help="Environment, policy, mechanism, task or study, from taciturn list.")],
    as_json: Json = False,
) -> None:
    """Describe an environment, a policy, a mechanism, a task or a study."""
    from taciturn.bench.catalogue import load_studies
    from taciturn.bench.references import described as described_task
    from taciturn.bench.references import scale_of
    from taciturn.bench.tasks import TASKS
    from taciturn.describing import described

    name = task_named(name)
    if name not in TASKS:
        if name.count("/") == 2:
            raise UnknownName("task", name, TASKS)
        study = load_studies().get(name)
        found = described(name) if study is None else described_study(study)
        if as_json:
            print_json(found.as_json())
        else:
            print(found)
        return
    task, scale = TASKS[name], scale_of(TASKS[name])
    if as_json:
        print_json(described_task(task))
        return
    print(aligned([name, *task.facts, *([("score", str(scale))] if scale else [])], indent=2, width=window()))


def described_study(study: "Study") -> "Description":
    """The title of a study, the number of its cells, what it reproduces, and how it is run."""
    from taciturn.describing import Description

    cells = f"{len(study.cells(False)):,}, and {len(study.cells(True)):,} of a quick run"
    facts = [("title", study.title), ("cells", cells), ("figures", ", ".join(study.figures) or "none")]
    facts.append(("run", f"taciturn bench {study.name} --out FOLDER"))
    return Description(study.name, [], facts, study.description)
