"""`taciturn show`."""

from typing import Annotated

from typer import Argument

from taciturn.cli.arguments import task_named
from taciturn.cli.options import Json
from taciturn.cli.output import print_json
from taciturn.registry import UnknownName
from taciturn.terminal import aligned, window


def show(
    name: Annotated[str, Argument(help="An environment, a policy, a mechanism or a task, as taciturn list names it.")],
    as_json: Json = False,
) -> None:
    """Describe an environment, a policy, a mechanism or a task."""
    from taciturn.bench.marks import described as told
    from taciturn.bench.marks import scale_of
    from taciturn.bench.tasks import TASKS
    from taciturn.describing import described

    name = task_named(name)
    if name not in TASKS:
        if name.count("/") == 2:
            raise UnknownName("task", name, TASKS)
        found = described(name)
        if as_json:
            print_json(found.told())
        else:
            print(found)
        return
    task, scale = TASKS[name], scale_of(TASKS[name])
    if as_json:
        print_json(told(task))
        return
    print(aligned([name, *task.facts, *([("score", str(scale))] if scale else [])], indent=2, width=window()))
