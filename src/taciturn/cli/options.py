"""Options that several commands share."""

import inspect
import os
from collections.abc import Callable
from typing import Annotated, TypeVar

from typer import Option

from taciturn.policies.trust import VARIABLE

Command = TypeVar("Command", bound=Callable[..., None])

CODE = (
    "Loading a module runs its code. A file that can contain code is loaded only if your user account wrote it, or "
    "with --trust"
)


def _trusts(asked: bool) -> bool:
    if asked:
        os.environ[VARIABLE] = "1"  # for worker processes too
    return asked


Json = Annotated[bool, Option("--json", help="Print one JSON document.")]
Settings = Annotated[
    list[str] | None,
    Option("--set", help="Parameter of the environment, key=value, or of the policy, policy.key=value."),
]
Trust = Annotated[
    bool,
    Option(
        "--trust",
        callback=_trusts,
        help="Allow saved agents that may run code when loaded: RLlib checkpoints, TorchRL actors, models with custom "
        "classes, and agents trained by other users or on other machines.",
    ),
]


def with_options_of(shared: Callable[..., None]) -> Callable[[Command], Command]:
    """A decorator that adds the keyword-only parameters of `shared` to a command's options; the command passes them on
    as `**options`."""
    more = [one for one in inspect.signature(shared).parameters.values() if one.kind is one.KEYWORD_ONLY]

    def decorate(command: Command) -> Command:
        *own, _ = inspect.signature(command).parameters.values()
        command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        return command

    return decorate
