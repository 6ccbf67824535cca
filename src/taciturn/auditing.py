"""`taciturn audit`: audits of mechanisms named on the command line, by themselves or in an environment."""

import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Population, as_policies, number
from taciturn.plugins import Plugins
from taciturn.privacy import mechanisms
from taciturn.privacy.audit_result import AuditResult, audit_table, plot_audits
from taciturn.privacy.auditing import trials_for
from taciturn.registry import UnknownName
from taciturn.wrappers.audit import audit
from taciturn.wrappers.canary import play
from taciturn.wrappers.channels import Privatize

NUM_VALUES = 10
DEFAULT_TRIALS = 100_000
DEFAULT_RUNS = 10_000


@dataclass(frozen=True)
class Site:
    """The channel of an environment on which mechanisms are audited.

    Attributes:
        env: a population.
        policy: who acts in it, a policy or `{role: policy}`.
        channel: the channel's name; None if there is only one.
        steps: turns of a run; None: until it ends.
    """

    env: Population[Any]
    policy: Any
    channel: str | None = None
    steps: int | None = None

    @property
    def name(self) -> str:
        """The channel's name; ValueError if it was not given and the environment does not have exactly one channel."""
        known = list(self.env.channels)
        if self.channel is None and len(known) != 1:
            raise ValueError(f"channel must be one of {', '.join(known) or '(none)'}, not None")
        return self.channel or known[0]


def parse_mechanism(spec: str) -> mechanisms.Mechanism:
    """The mechanism of `NAME[:VALUE][,parameter=value...]`, such as `Laplace:1.0,sensitivity=0.5`.

    VALUE is the mechanism's first parameter, its level. Values are read as JSON if possible, and as text otherwise.
    `Memoized:NAME...` memoizes the answers of that mechanism.

    Raises:
        ValueError: the mechanism or a parameter is unknown, or a value is not allowed.
    """
    if spec.startswith("Memoized:"):
        return mechanisms.Memoized(parse_mechanism(spec.removeprefix("Memoized:")))
    head, *settings = spec.split(",")
    name, colon, level = head.partition(":")
    own = own_mechanisms()
    if name not in own and level.partition(":")[0].isidentifier():  # module:Class[:VALUE]
        path, colon, level = level.partition(":")
        name = f"{name}:{path}"
    kind = own.get(name) or MECHANISM_PLUGINS.find(name)
    if kind is None:
        raise UnknownName("mechanism", name, [*own, *MECHANISM_PLUGINS.entries])
    parameters = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    if colon:
        if not parameters:
            raise ValueError(f"{name} must be written without a level, not {spec!r}")
        given[next(iter(parameters))] = parsed(level)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in parameters or key in given:
            raise ValueError(
                f"parameters of {name} must be {', '.join(parameters)}, each once, as key=value, not {setting!r}"
            )
        given[key] = parsed(text)
    missing = [key for key, one in parameters.items() if key not in given and one.default is inspect.Parameter.empty]
    if missing:
        raise ValueError(f"{name} must have {', '.join(missing)}: write {name}:VALUE,parameter=value, not {spec!r}")
    return kind(**given)


def own_mechanisms() -> dict[str, type[mechanisms.Mechanism]]:
    """`{name: class}` of this package's mechanisms that can be made from a name and numbers."""
    found = {name: getattr(mechanisms, name) for name in mechanisms.__all__ if name not in ("Mechanism", "Memoized")}
    return {name: one for name, one in found.items() if _is_mechanism(one)}


def _is_mechanism(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, mechanisms.Mechanism)


MECHANISM_PLUGINS = Plugins(
    "taciturn.mechanisms",
    r"[A-Za-z]\w*",
    "a subclass of taciturn.privacy.mechanisms.Mechanism",
    lambda found, _: _is_mechanism(found),
    own_mechanisms,
)


def named_mechanisms() -> dict[str, type[mechanisms.Mechanism]]:
    """`{name: class}` of the mechanisms that can be made from a name and numbers, with those of other packages that can
    be used."""
    return own_mechanisms() | MECHANISM_PLUGINS.load_all()


def parsed(text: str) -> Any:
    """A value on the command line: JSON if it parses as such, else the text itself. Raises ValueError for JSON that is
    too large."""
    try:
        return json.loads(text, parse_int=_int64)
    except json.JSONDecodeError:
        return text
    except RecursionError as error:
        raise ValueError(f"{text[:20]}... is nested too deeply") from error


def _int64(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"{digits[:20]}{'...' * (len(digits) > 20)} is beyond 64 bits")
    return int(digits)


def adjacent_pair(mechanism: Any, sensitivity: float = 1.0) -> tuple[Any, Any]:
    """Two adjacent messages for which a mechanism's privacy loss is the largest, or nearly so.

    They are one-hot vectors of two options, two values, two numbers a sensitivity apart, two streams that differ in one
    value, or scores of 10 options that all change by the sensitivity, one of them in the opposite direction. A
    `Memoized` mechanism is audited on its first answer.
    """
    inner = getattr(mechanism, "mechanism", mechanism)
    reach = getattr(inner, "sensitivity", None) or sensitivity
    shapes = {"categorical": (), "one_hot": (2,), "bounded": (), "scores": (NUM_VALUES,), "vector": (1,)}
    payload = next((payload for payload in shapes if payload in inner.payloads), None)
    if payload is not None:
        return _far_apart(payload, shapes[payload], reach)
    stream = np.zeros(getattr(inner, "horizon", None) or NUM_VALUES)
    return stream, np.where(np.arange(stream.size) == 0, reach, 0.0)


def _far_apart(payload: str, shape: tuple[int, ...], reach: float) -> tuple[Any, Any]:
    """Two messages of this payload and shape that are `reach` apart."""
    if payload == "categorical":
        return 0, 1
    if payload in ("one_hot", "scores"):
        first = np.eye(shape[0], dtype=np.int64)[0]
        return (first, np.roll(first, 1)) if payload == "one_hot" else (reach * first, reach * (1 - first))
    half = np.full(shape, reach / 2 / math.prod(shape) ** 0.5)
    return (-half, half) if shape else (0.0, reach)


@dataclass(frozen=True)
class _Overheard(mechanisms.NoPrivacy):
    """Leaves messages unchanged, and records their shape and the sensitivity that the world states."""

    closed_counts: ClassVar[bool] = False
    notes: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list, compare=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        self.notes.append((np.shape(x)[1:], sensitivity))
        return super().perturb(x, rng, sensitivity)


def adjacent_messages(site: Site, mechanism: Any) -> tuple[Any, Any]:
    """Two adjacent messages for a channel, as far apart as the sensitivity that the world states in a trial run allows.

    They are one-hot vectors of two options, two categories, two numbers a sensitivity apart, scores as in
    `adjacent_pair`, or opposite vectors of half the sensitivity in the direction (1, ..., 1).

    Raises:
        ValueError: no message is sent in the trial run, or the world states no sensitivity.
    """
    overheard = _Overheard()
    private = Privatize(site.env, site.name, overheard)
    play(private, 1, private.channel_configs, as_policies(site.env, site.policy), 0, site.steps)
    if not overheard.notes:
        raise ValueError(f"steps must be enough for a message on channel {site.name!r}, not {site.steps!r}")
    shape, stated = overheard.notes[0]
    reach = getattr(mechanism, "sensitivity", None) if stated is None else stated
    payload = site.env.channels[site.name].payload
    if reach is None and payload not in ("one_hot", "categorical"):
        raise ValueError(f"env must state the sensitivity of messages on channel {site.name!r} for an audit")
    return _far_apart(payload, shape, 1.0 if reach is None else reach)


def audit_command(
    specs: Sequence[str],
    *,
    site: Site | None = None,
    trials: int | None = None,
    confidence: float = 0.95,
    method: str | None = None,
    delta: float | None = None,
    seed: int = 0,
    as_json: bool = False,
    plot: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> list[AuditResult]:
    """Audit mechanisms by name and print the results as a table or as one JSON document.

    Args:
        specs: specifications as for `parse_mechanism`.
        site: the channel on which to install each mechanism, to audit the ledger's total after a run; None: audit
            single messages.
        trials: of each audit. Default: enough to certify 80% of the claim, at most 4 million (`trials_for`), or 10,000
            runs.
        confidence, method, delta, seed: of each audit, as for `audit`.
        as_json: print one JSON document.
        plot: file for a figure of certified against claimed epsilon.
        progress: called with the specification being audited and the share of all work that is done.

    Returns:
        The results. The command line exits with an error if any verdict is "violated".

    Raises:
        ValueError: as `parse_mechanism` and `audit` do.
    """
    number("confidence", confidence, above=0, below=1)
    if not specs:
        raise ValueError("specs must name at least one mechanism, as in BitwiseRandomizedResponse:1.0")
    given: dict[str, Any] = {"confidence": confidence, "seed": seed, "method": method}
    given |= {key: value for key, value in {"trials": trials, "delta": delta}.items() if value is not None}
    audits = [_subject(spec, parse_mechanism(spec), site) | given for spec in specs]
    results = []
    for place, (spec, known) in enumerate(zip(specs, audits, strict=True)):
        count = known.setdefault("trials", DEFAULT_RUNS if site else _enough(known["mechanism"], confidence))

        def tell(done: int, spec: str = spec, place: int = place, count: int = count) -> None:
            if progress is not None:
                progress(spec, (place + done / count) / len(specs))

        results.append(audit(**known, progress=tell))
    if plot is not None:
        plot_audits(results, plot)
    if as_json:
        print(json.dumps(json_values({"audits": [result.as_dict() for result in results]})))
    else:
        print(audit_table(results))
    return results


def _subject(spec: str, mechanism: Any, site: Site | None) -> dict[str, Any]:
    """The arguments of `audit` that follow from a specification."""
    if site is None:
        own = getattr(getattr(mechanism, "mechanism", mechanism), "sensitivity", None)
        return {"mechanism": mechanism, "pair": adjacent_pair(mechanism), "name": spec, "sensitivity": own or 1.0}
    known = {"policy": site.policy, "steps": site.steps, "delta": getattr(mechanism, "delta", 0.0)}
    private, pair = Privatize(site.env, site.name, mechanism), {site.name: adjacent_messages(site, mechanism)}
    return {"mechanism": private, "pair": pair, "name": f"{site.name}={spec}"} | known


def _enough(mechanism: Any, confidence: float) -> int:
    """Trials that certify 80% of the claim of a mechanism, at most 4 million."""
    claimed = getattr(mechanism, "epsilon", math.inf)
    return min(trials_for(claimed, confidence), 4_000_000) if math.isfinite(claimed) else DEFAULT_TRIALS


def json_values(value: Any) -> Any:
    """The same value in JSON's types, with null in place of the numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: json_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_values(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
