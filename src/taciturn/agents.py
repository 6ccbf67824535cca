"""A policy from any agent: a policy, its name or class, a function, a learning library's model, or a saved file."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taciturn import current_folder
from taciturn.files import at_home
from taciturn.plugins import imported
from taciturn.policies.base import Policy
from taciturn.policies.external.networks import is_network, of_network
from taciturn.policies.external.rows import Predictor, RowFunction
from taciturn.policies.external.saved import LOADERS, load_trained
from taciturn.policies.external.separate import Separate
from taciturn.registry import POLICY_PLUGINS, make_policy, own_policies, policy_of
from taciturn.validation import choice, in_any_case, shown

FILES = {".zip": "sb3", ".onnx": "onnx", ".pt": "torchrl", ".pth": "torchrl", ".py": ""}
"""The usual content of files with these suffixes."""


def bring(agent: Any, *, trust: bool = False, separate: Any = False, **parameters: Any) -> Any:
    """A policy from `agent`, with `parameters` if it is a name or a class.

    `module:Class` runs the module. Files that could run code when loaded are refused without `trust`: a checkpoint of
    RLlib, an actor of TorchRL, a model with custom classes, and a learner that this user has not trained on this
    machine.

    A class with `one_agent = True` is written for one agent. Each agent of each replica then gets a separate copy
    (`taciturn.policies.external.separate.Separate`), so no two agents share a memory.

    Args:
        agent: one of

            - a policy (`taciturn.policies.Policy`, or an object with its methods), or its class;
            - the name of a policy in `taciturn list`, or `module:Class` for any of the things listed here;
            - a function from observations [R, D], a row for each agent of each replica, to actions [R, ...]; if it
              requires a second argument, it gets the masks int8[R, n] (None in an environment without masks);
            - anything with Stable-Baselines3's `predict`;
            - a `torch.nn.Module`: a plain network from observations to actions or scores of them, an actor of
              TensorDict, or an RLModule of RLlib (`taciturn.policies.external.networks`);
            - a file saved by a library: `sb3:model.zip`, `rllib:CHECKPOINT`, `torchrl:actor.pt` or `onnx:model.onnx`,
              or a folder saved by `taciturn train` (written `./Random` if a policy has the same name);
            - `pretrained:NAME`, a pretrained agent of the package (`docs/learning.md`).
        trust: whether code in a file may run when it is loaded; the environment variable `TACITURN_TRUST=1` allows it
            for all files.
        separate: whether to use a copy for each agent even if the class does not ask for it.

    Raises:
        UnknownName: no policy has this name.
        ValueError: `agent` is nothing that acts, does not take the parameters, or is a file that can hold code and is
            not trusted.
    """
    choice("separate", separate, (False, True))
    result = _loaded_agent(agent, parameters, trust)
    alone = separate or getattr(result, "one_agent", False) is True
    return Separate(result) if alone and not isinstance(result, Separate) else result


def _loaded_agent(agent: Any, parameters: dict[str, Any], trust: bool) -> Any:
    """The policy, before it is copied for each agent."""
    if isinstance(agent, Path) or (isinstance(agent, str) and is_folder(agent)):
        if at_home(agent).is_file() and (wanted := as_file(str(agent))):
            raise ValueError(f"policy must say what {shown(str(agent))} is: {wanted}")
        return loaded("folder", load_trained, at_home(agent), parameters, trust)
    if isinstance(agent, str):
        return _named(agent, parameters, trust)
    if isinstance(agent, type):
        return _loaded_agent(policy_of(agent, agent.__name__, parameters), {}, trust)
    if parameters:
        raise ValueError(f"policy must be a name or a class to take {parameters}, not {shown(agent)}")
    if isinstance(agent, Policy) and type(agent).act is Policy.act:
        raise ValueError(f"policy must have a method act, and {type(agent).__name__} has none")
    if isinstance(agent, Policy) or (hasattr(agent, "act") and hasattr(agent, "reset")):
        return agent
    if callable(getattr(agent, "predict", None)):
        return Predictor(agent)
    if is_network(agent):
        return of_network(agent)
    if callable(agent):
        return RowFunction(agent)
    raise ValueError(
        "policy must be a policy, its name or class, a function of observations or an object with predict(), not "
        f"{shown(agent)}"
    )


def bring_all(agents: Any) -> Any:
    """`bring` for one agent, or for each of `{role: agent}`."""
    if isinstance(agents, Mapping):
        made = {id(agent): bring(agent) for agent in agents.values()}
        return {role: made[id(agent)] for role, agent in agents.items()}
    return bring(agents)


def is_folder(name: str) -> bool:
    """Whether a name is a saved agent's folder. Policies of `taciturn list`, in any case, `pretrained:NAME`,
    `module:Class` and the like take precedence: a folder with such a name is written `./Random`."""
    known = {one.casefold() for one in (*own_policies(), *POLICY_PLUGINS.entries)}
    prefix, colon, _ = name.partition(":")
    if name.casefold() in known or prefix in LOADERS or (colon and not {"/", "\\"} & {*name}):
        return False
    try:
        return at_home(name).is_dir()
    except (OSError, ValueError):
        return False


def saved_at(name: str) -> Path | None:
    """The file or folder that a saved agent's name gives; None for any other name."""
    prefix, _, rest = name.partition(":")
    if prefix in LOADERS:
        return None if prefix == "pretrained" else at_home(rest)
    return at_home(name) if is_folder(name) else None


def as_file(name: str) -> str:
    """The argument to write for a saved agent or a module that was given only by its file name, such as
    `sb3:model.zip`; empty if it is neither."""
    file = at_home(name)
    try:
        result = next(
            (one for one in (file, *(file.with_name(file.name + end) for end in FILES)) if one.is_file()), file
        )
    except (OSError, ValueError):
        return ""
    kind = FILES.get(result.suffix.lower())
    if result.suffix == ".py":
        return f"{result.stem}:NAME, of a class or function in it"
    return f"{kind}:{result}" if kind else ""


def loaded(kind: str, load: Any, path: Any, parameters: dict[str, Any], trust: bool) -> Any:
    """A saved agent."""
    own = {"trust": trust} if "trust" in inspect.signature(load).parameters else {}
    try:
        return load(path, **own, **parameters)
    except (ModuleNotFoundError, ValueError) as error:
        lost = isinstance(error if isinstance(error, ModuleNotFoundError) else error.__cause__, ModuleNotFoundError)
        if not (lost and current_folder.searched and not current_folder.looked()):
            raise
        current_folder.look()  # a trusted file may name the user's own class
        return loaded(kind, load, path, parameters, trust)
    except TypeError as error:
        raise ValueError(f"policy {kind}:... cannot take {shown(parameters)}: {error}") from error


def _named(name: str, parameters: dict[str, Any], trust: bool) -> Any:
    prefix, colon, rest = map(str.strip, name.partition(":"))
    if not colon:
        try:
            return make_policy(prefix, **parameters)
        except ValueError as error:
            if wanted := as_file(prefix):
                raise ValueError(f"policy must say what {shown(prefix)} is: {wanted}") from error
            raise
    if prefix in LOADERS:
        return loaded(prefix, LOADERS[prefix], rest, parameters, trust)
    try:
        result = imported(name)
    except ValueError as error:
        known = in_any_case(prefix, own_policies())
        if known in own_policies() and not current_folder.hidden(prefix):
            first = next(iter(inspect.signature(own_policies()[known]).parameters), "PARAMETER")
            raise ValueError(
                f"policy {known} takes its parameters by name, such as --set policy.{first}={rest}, not {name}"
            ) from error
        kinds = ", ".join(f"{kind}:{'NAME' if kind == 'pretrained' else 'PATH'}" for kind in LOADERS)
        raise ValueError(f"policy must be a name, module:Class or one of {kinds}: {error}") from error
    return _loaded_agent(result, parameters, trust)
