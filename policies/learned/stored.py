"""Trained agents as text: `agent.json` of a training's folder, and those that come with the package."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.files import content
from taciturn.policies.base import Policy
from taciturn.policies.learned.agents import NetworkAgent
from taciturn.policies.learned.plans import EvolvedPlan, EvolvedSchedule
from taciturn.policies.learned.scores import SocialScore
from taciturn.validation import shown

MOST_BYTES = 10**7
AGENTS: dict[str, type[Policy]] = {
    kind.__name__: kind for kind in (NetworkAgent, SocialScore, EvolvedPlan, EvolvedSchedule)
}


def saved_agent(agent: Policy, **about: Any) -> str:
    """A trained agent as JSON: its class and its parameters, weights among them, and what is said `about` its
    training."""
    given: Any = agent
    names = [name for name in type(agent).__init__.__code__.co_varnames[1:] if name in vars(given)]
    parameters = {name: plain(getattr(given, name)) for name in names}
    return json.dumps({"agent": type(agent).__name__, "training": about, "parameters": parameters}) + "\n"


def plain(value: Any) -> Any:
    """A value as JSON has it; numbers in as few digits as tell them apart."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value] if value.ndim else plain(value[()])
    return float(str(value)) if isinstance(value, np.floating) else value


def load_agent(file: Path, **parameters: Any) -> Policy:
    """The agent of a file that `saved_agent` has written, with other parameters in place of its own.

    Raises:
        ValueError: the file is not of this form.
    """
    try:
        found = json.loads(content(file, MOST_BYTES))
        kind, own = AGENTS[found["agent"]], dict(found["parameters"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} must be the agent of a training, and is not: {shown(error)}") from error
    return kind(**own | parameters)


def pretrained_files() -> dict[str, Path]:
    """`{name: file}` of the agents whose trainings come with the package."""
    folder = Path(str(files("taciturn.policies.learned"))) / "pretrained"
    return {file.stem: file for file in sorted(folder.glob("*.json"))}


def pretrained_agents() -> dict[str, dict[str, Any]]:
    """`{name: {"task", "budget", "seed"}}` of these agents; without a privacy budget it is "none"."""
    found = {}
    for name, file in pretrained_files().items():
        about = json.loads(content(file, MOST_BYTES))["training"]
        task, _, budget = about["task"].partition("@")
        found[name] = {"task": task, "budget": budget or "none", "seed": about["seed"]}
    return found


def load_pretrained(name: str, **parameters: Any) -> Policy:
    """The agent of a training that comes with the package; it learns nothing more.

    Raises:
        ValueError: none is called that.
    """
    known = pretrained_files()
    if name not in known:
        raise ValueError(f"policy pretrained:NAME must name one of {', '.join(known)}, not {shown(name)}")
    return load_agent(known[name], **parameters)
