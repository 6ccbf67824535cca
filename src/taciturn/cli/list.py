"""`taciturn list`."""

import json
import re
import sys
from typing import Annotated, Any

from typer import Argument

from taciturn.cli.options import Json
from taciturn.mechanism_names import named_mechanisms
from taciturn.registry import UnknownName, entries, policies, worlds
from taciturn.terminal import aligned, window

ALSO = {"worlds": "environments", "envs": "environments", "agents": "policies", "papers": "figures"}
"""Other common names of the kinds."""


def list_(
    kind: Annotated[
        str | None,
        Argument(
            help="Kind to list: environments, policies, pretrained, mechanisms, tasks, studies or figures "
            "(default: all)."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the environments, policies, pretrained agents, mechanisms, tasks, studies and figures."""
    from taciturn.bench.catalogue import figures, load_studies
    from taciturn.bench.tasks import NO_BUDGET_LIMIT, PROTECTED, TASKS
    from taciturn.policies.learned.stored import pretrained_agents

    studies, known = load_studies(), worlds()
    told = {
        "environments": {entry.id: entry.name for entry in entries() if entry.name in known},
        "policies": {
            name: _first_sentence(policy)
            + " It knows the hidden truth." * (policy.needs_truth is True)
            + " Its agents are centralised." * (policy.centralised is True)
            for name, policy in policies().items()
        },
        "pretrained": {
            f"pretrained:{name}": f"trained for {one['task']}, privacy budget {one['budget']}"
            for name, one in pretrained_agents().items()
        },
        "mechanisms": {name: _first_sentence(mechanism) for name, mechanism in named_mechanisms().items()},
        "tasks": {
            id_: task.variant.what + "; with privacy budgets: @10, @3, @1" * (task.env in PROTECTED)
            for id_, task in TASKS.items()
            if task.budget == NO_BUDGET_LIMIT
        },
        "studies": {name: study.title for name, study in studies.items()},
        "figures": {figure: study.title for figure, study in sorted(figures(studies).items())},
    }
    if kind is not None:
        kind = ALSO.get(kind.casefold(), kind.casefold())
        # The singular of a kind is also understood.
        kind = next((name for name in told if len(kind) > 3 and name.startswith(kind.removesuffix("y"))), kind)
    if kind not in (None, *told):
        raise UnknownName("kind", kind, told)
    chosen = list(told) if kind is None else [kind]
    if as_json:
        found: dict[str, Any] = {name: told[name] for name in chosen}
        if "pretrained" in found:
            found["pretrained"] = [{"name": name, **one} for name, one in pretrained_agents().items()]
        if "tasks" in found:
            from taciturn.bench.references import described

            found["tasks"] = [described(task) for task in TASKS.values()]
        print(json.dumps(found))
        return
    for section in chosen:
        rows: list[tuple[str, ...] | str] = [section.upper()]
        if section == "environments":
            rows += [(id_, name, _first_sentence(known[name])) for id_, name in told[section].items()]
        elif section == "policies":
            rows += _by_module(told[section])
        else:
            rows += told[section].items()
        print(aligned(rows, indent=4, width=window()))


def _first_sentence(documented: Any) -> str:
    """The first sentence of a docstring, which may have several lines."""
    paragraph = " ".join((documented.__doc__ or "").strip().partition("\n\n")[0].replace("`", "").split())
    return re.split(r"(?:(?<=[a-z0-9)][.?!])|(?<=[A-Z]{2}\.)) (?=[A-Z])", paragraph, maxsplit=1)[0]


def _by_module(lines: dict[str, str]) -> list[tuple[str, str] | str]:
    """The policies by module, under its first sentence: the papers' policies, the classic ones, the learners, and those
    of other packages."""
    modules = {name: policy.__module__ for name, policy in policies().items()}
    kinds = [f"taciturn.policies.{kind}" for kind in ("reference", "classic", "learned", "base", "")]
    titled: dict[str, list[tuple[str, str] | str]] = {}
    for name in sorted(lines, key=lambda name: [not modules[name].startswith(kind) for kind in kinds]):
        title = f"  {_first_sentence(sys.modules[modules[name]])}"
        titled.setdefault(title, [title]).append((name, lines[name]))
    return [row for rows in titled.values() for row in rows]
