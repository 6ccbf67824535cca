"""Agents saved by learning libraries. Files that could run code when loaded must be trusted
(`taciturn.policies.trust`)."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from taciturn.envs.core import Array
from taciturn.files import at_home
from taciturn.policies.base import Learner, Policy
from taciturn.policies.external import onnx_files
from taciturn.policies.external.inert import Foreign, Statistics, made_policy, read_normalizer
from taciturn.policies.external.networks import Actor, Module, Scores
from taciturn.policies.external.rows import Predictor, RowFunction, RowPolicy, plain, within
from taciturn.policies.learned.stored import FILE as AGENT_FILE
from taciturn.policies.learned.stored import load_agent, load_pretrained
from taciturn.policies.learned.training import one_thread
from taciturn.policies.trust import Untrusted, trusted
from taciturn.validation import missing_extra, shown

STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
SLACK = 1.0
"""Tolerance, relative to the space, for a model's last observation to lie outside it, without separate statistics."""


def load_sb3(
    path: str | Path,
    *,
    deterministic: bool = True,
    normalize: str | Path | Literal[False] | None = None,
    trust: bool = False,
) -> Predictor:
    """A model saved by any algorithm of Stable-Baselines3 or sb3-contrib.

    Nothing in the file runs, unless it names other classes and is trusted.

    Args:
        path: the file, `model.zip`.
        deterministic: see `Predictor`.
        normalize: the statistics that `VecNormalize.save` wrote; None: those next to the model (`statistics_of`);
            False: none.
        trust: whether code in the file may run.

    Raises:
        ImportError: stable-baselines3 is not installed.
        ValueError: there is no such file, it holds no model, it names other classes and is not trusted, or its
            statistics are missing or belong to another model.
    """
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise missing_extra("a saved model of Stable-Baselines3 needs stable-baselines3", "rl") from error
    from taciturn.policies.external.weights import read_policy  # imports PyTorch

    file = existing(path, "a model.zip of Stable-Baselines3")
    try:
        try:
            policy, last = read_policy(file)
        except Foreign as error:
            if not trusted(trust):
                what = shown(str(error))[1:-1]  # a name in the file may have any length
                raise Untrusted(file, f"has a class that is not of Stable-Baselines3, {what}") from error
            policy, last = with_own_classes(file)
    except Untrusted:
        raise
    except Exception as error:
        raise ValueError(
            f"policy must be a model that Stable-Baselines3 has saved, and {file} is not: {shown(error)}"
        ) from error
    policy.set_training_mode(False)
    statistics = normalize is not False and statistics_of(file, normalize, policy.observation_space, last)
    try:
        return Predictor(OneThread(policy, last), deterministic=deterministic, normalize=statistics)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def statistics_of(file: Path, given: str | Path | None, space: Any, last: Any) -> Statistics | None:
    """The statistics of a model's observations, from the `given` file or one next to the model: for `a_9_steps.zip`, as
    written by a callback, `a_vecnormalize_9_steps.pkl`; `a_vecnormalize.pkl` for `a.zip`; or `vecnormalize.pkl`.

    The last may belong to another model. It is ignored if the model's last training observations are an environment's
    raw observations, and would not be after undoing the normalisation.

    Raises:
        ValueError: the given file is missing; statistics have another shape, or `last`, the last observations [..., D],
            cannot have been normalised by them.
    """
    own = [f"{file.stem}_vecnormalize.pkl", re.sub(r"_(\d+_steps)$", r"_vecnormalize_\1", file.stem) + ".pkl"]
    beside = (file.parent / name for name in (*own, *STATISTICS) if (file.parent / name).is_file())
    found = next(beside, None) if given is None else existing(given, "the statistics of VecNormalize")
    if found is None or (statistics := read_normalizer(found)) is None:
        return None
    if statistics.mean.shape != space.shape:
        told = f"{found} has statistics of shape {statistics.mean.shape}, and the model observes {space.shape}"
    elif last is None or not space.is_bounded() or within(space, statistics.undone(last), SLACK):
        return statistics
    else:
        told = f"without the statistics in {found} its last observations of training do not lie in its space"
    if given is None and found.name in STATISTICS and last is not None and plain(space, last):
        return None
    raise ValueError(f"{file} must come with its own statistics: {told}")


def with_own_classes(file: Path) -> tuple[Any, Any]:
    """The policy of a trusted model, and its last observations: code in the file may run."""
    from stable_baselines3.common.save_util import load_from_zip_file

    data: Any
    data, parameters, _ = load_from_zip_file(file, device="cpu")
    spaces = (data["observation_space"], data["action_space"])
    policy = made_policy(data["policy_class"], *spaces, data["policy_kwargs"], data, parameters["policy"])
    return policy, data.get("_last_obs")


class OneThread:
    """A policy with predictions that do not depend on the number of threads."""

    def __init__(self, policy: Any, last: Any) -> None:
        self._last_obs = last
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.predict = one_thread()(policy.predict)
        self._name = type(policy).__name__

    def __repr__(self) -> str:
        return self._name


def load_onnx(path: str | Path) -> RowFunction:
    """A network in the ONNX format: float32[R, D] in, actions or, for discrete actions, a score of each action [R, n]
    out.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: there is no such file, it is not a network of this form, or it needs more memory than allowed
            (`onnx_files.MOST_MEMORY`).
    """
    try:
        from onnxruntime import InferenceSession, SessionOptions
    except ImportError as error:
        raise ImportError("an ONNX file needs onnxruntime: run pip install onnxruntime") from error
    onnx_files.bound_memory()
    options = SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # the exception has the message
    file = existing(path, "an ONNX file")

    @contextmanager
    def checked() -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ValueError(
                f"policy must be a network that takes rows of observations, and {file} is not: {shown(error)}"
            ) from error

    with checked():
        onnx_files.check(file)
        session = InferenceSession(file, options, providers=["CPUExecutionProvider"])
        (given,) = session.get_inputs()

    def scores(rows: Array) -> Array:
        with checked():
            found: Array = np.asarray(session.run(None, {given.name: rows.astype(np.float32)})[0])
            if found.dtype.kind not in "biuf":
                raise ValueError(f"it gives {shown(found)}")
        return found

    return Scores(scores)


def load_rllib(
    path: str | Path, *, module: str | None = None, normalized: bool | None = None, trust: bool = False
) -> RowPolicy:
    """A checkpoint of RLlib (new API stack), of an algorithm or of one RLModule.

    Args:
        path: the folder written by `algorithm.save_to_path` or `module.save_to_path`.
        module: name of the algorithm's RLModule; None: the only one.
        normalized: see `Module`; None: the algorithm's configuration, or true.
        trust: whether code in its pickles may run; if not, nothing is loaded.

    Raises:
        ImportError: ray is not installed.
        ValueError: there is no such folder, it is not trusted, it holds no RLModule or several, or the algorithm has a
            connector that transforms observations.
    """
    folder = existing(path, "the folder of an RLlib checkpoint").resolve()
    if not trusted(trust):
        raise Untrusted(folder, "is a checkpoint of RLlib")
    try:
        from ray.rllib.core.rl_module.rl_module import RLModule
    except ImportError as error:
        raise missing_extra("an RLlib checkpoint needs ray", "ray") from error
    modules, config = folder / "learner_group" / "learner" / "rl_module", dict[str, Any]()
    if modules.is_dir():
        names = sorted(one.name for one in modules.iterdir() if one.is_dir())
        if (module or names[0]) not in names or (module is None and len(names) > 1):
            raise ValueError(f"module must be one of {names}, which {folder} holds, not {module!r}")
        config = configuration(folder)
        folder = modules / (module or names[0])
    try:
        loaded = RLModule.from_checkpoint(folder)
    except FileNotFoundError as error:
        raise ValueError(f"policy must be an RLlib checkpoint, and {folder} is not: {error}") from error
    return Module(loaded, normalized=config.get("normalize_actions", True) if normalized is None else normalized)


def configuration(folder: Path) -> dict[str, Any]:
    """The configuration of an RLlib algorithm; ValueError if its RLModules do not see plain observations."""
    import pickle

    with (folder / "class_and_ctor_args.pkl").open("rb") as opened:
        ((config,), _) = pickle.load(opened)["ctor_args_and_kwargs"]
    if config.get("_env_to_module_connector") is not None:
        raise ValueError(
            f"policy must be an algorithm without env_to_module_connector, which {folder} has: its RLModules see other "
            "things than a world's observations"
        )
    return dict(config)


def load_torchrl(path: str | Path, *, trust: bool = False) -> RowPolicy:
    """An actor of TorchRL or TensorDict, saved as a whole by `torch.save(actor, path)`: see `Actor`.

    Raises:
        ImportError: tensordict is not installed.
        ValueError: there is no such file, it is not trusted, or it holds no actor.
    """
    file = existing(path, "a file of torch.save")
    if not trusted(trust):
        raise Untrusted(file, "is a pickle of PyTorch")
    try:
        import tensordict  # noqa: F401
        import torch
    except ImportError as error:
        raise ImportError("an actor of TorchRL needs tensordict: run pip install tensordict torchrl") from error
    try:
        return Actor(torch.load(file, map_location="cpu", weights_only=False))
    except Exception as error:
        raise ValueError(
            f"policy must be an actor that torch.save has written, and {file} is not: {shown(error)}"
        ) from error


def load_trained(folder: str | Path, *, trust: bool = False, **parameters: Any) -> Policy:
    """The agent that `taciturn train` wrote to a folder: a Stable-Baselines3 model, or a learner of this package.

    Raises:
        ValueError: the folder holds no finished training, or holds a learner trained elsewhere that is not trusted.
    """
    found = Path(folder)
    if (found / AGENT_FILE).is_file():
        return load_agent(found / AGENT_FILE, **parameters)
    if (found / "learner.pkl").is_file():
        if parameters:
            raise ValueError(f"policy must be a name or a class to take {parameters}, and {found} holds a learner")
        return Learner.load(found / "learner.pkl", trust=trust)
    if (found / "model.zip").is_file():
        return load_sb3(found / "model.zip", trust=trust, **parameters)
    raise ValueError(
        f"policy must be a folder that `taciturn train` has finished, and {str(folder)!r} holds no trained agent"
    )


def existing(path: str | Path, what: str) -> Path:
    """The path; ValueError if it does not exist."""
    found = at_home(path)
    if not found.exists() and what.startswith("a model.zip"):  # Stable-Baselines3 does the same
        found = Path(f"{found}.zip")
    if not found.exists():
        raise ValueError(f"policy must name {what}, and there is none at {str(path)!r}")
    return found


LOADERS: dict[str, Callable[..., Policy]] = {
    "sb3": load_sb3, "onnx": load_onnx, "rllib": load_rllib, "torchrl": load_torchrl, "pretrained": load_pretrained,
}  # fmt: skip
"""`{prefix: function}` for agents named by `prefix:path`, or by `pretrained:name`."""
