"""`taciturn compile`."""

import json
import logging
from typing import Annotated

from typer import Argument

from taciturn.cli.options import Json
from taciturn.compiling import compiled, kernels
from taciturn.envs.core import Replicas
from taciturn.registry import UnknownName, worlds


def compile_(
    names: Annotated[list[str] | None, Argument(metavar="ENV", help="Environments (default: all).")] = None,
    as_json: Json = False,
) -> None:
    """Compile environments in advance, to save time in the first run.

    Each environment is compiled once on a machine, and again when its code changes. The environment variable
    TACITURN_CACHE sets the folder of the compiled code.
    """
    known = worlds()
    for name in names or []:
        if name not in known:
            raise UnknownName("ENV", name, known)
    if not compiled.may_compile():
        raise ValueError("compiling needs numba, and TACITURN_COMPILE must not be 0")
    logging.getLogger("taciturn").setLevel(logging.ERROR)  # its messages would repeat the output
    done = []
    for name in names or known:
        population = known[name].population(1)
        if isinstance(population, Replicas):
            population.build()
            done.append(name)
            if not as_json:
                print(f"{name} is compiled", flush=True)
    print(
        json.dumps({"compiled": done, "folder": str(kernels.folder())}) if as_json else f"stored in {kernels.folder()}"
    )
