"""`taciturn show`."""

from typing import Annotated

from typer import Argument

from taciturn.terminal import aligned


def show(
    name: Annotated[str, Argument(help="An environment, a policy, a mechanism or a task, as taciturn list names it.")],
) -> None:
    """Describe an environment, a policy, a mechanism or a task."""
    from taciturn.bench.scales import scale_of
    from taciturn.bench.tasks import TASKS
    from taciturn.describing import described

    if name not in TASKS:
        print(described(name))
        return
    scale = scale_of(TASKS[name])
    print(aligned([name, *TASKS[name].facts, *([("score", str(scale))] if scale else [])], indent=2))
