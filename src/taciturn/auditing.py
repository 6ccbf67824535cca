"""`taciturn audit`: what a mechanism's claim is worth, by itself or in an environment, from its name on the command line."""

import inspect
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Population, as_policies, number
from taciturn.privacy import mechanisms
from taciturn.registry import UnknownName
from taciturn.wrappers.audit import AuditResult, audit, audit_table, plot_audits, trials_for
from taciturn.wrappers.canary import play
from taciturn.wrappers.privatize import Privatize

__all__ = ["Site", "adjacent_messages", "adjacent_pair", "audit_command", "named_mechanisms", "parse_mechanism"]

NUM_VALUES = 10
DEFAULT_TRIALS = 100_000
DEFAULT_RUNS = 10_000


@dataclass(frozen=True)
class Site:
    """Where mechanisms are audited, if not by themselves.

    Attributes:
        env: a population.
        policy: who acts in it, a policy or `{role: policy}`.
        channel: where the mechanisms stand; None: on the only one.
        steps: turns of a run; None: until it ends.
    """

    env: Population[Any]
    policy: Any
    channel: str | None = None
    steps: int | None = None

    @property
    def name(self) -> str:
        """The channel's name; ValueError if there are several, or none."""
        known = list(self.env.channels)
        if self.channel is None and len(known) != 1:
            raise ValueError(f"channel must be one of {', '.join(known) or '(none)'}, not left open")
        return self.channel or known[0]


def parse_mechanism(spec: str) -> mechanisms.Mechanism:
    """The mechanism of `NAME[:VALUE][,parameter=value...]`, such as `Laplace:1.0,sensitivity=0.5`.

    VALUE is the mechanism's first parameter, its level; values are JSON where they can be, else text. `Memoized:NAME...` is that mechanism
    with its answers kept.

    Raises:
        ValueError: an unknown mechanism or parameter, or a value that is not allowed.
    """
    if spec.startswith("Memoized:"):
        return mechanisms.Memoized(parse_mechanism(spec.removeprefix("Memoized:")))
    head, *settings = spec.split(",")
    name, colon, level = head.partition(":")
    known = named_mechanisms()
    if name not in known:
        raise UnknownName("mechanism", name, known)
    kind = known[name]
    parameters = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    if colon:
        if not parameters:
            raise ValueError(f"{name} must be written without a level, not {spec!r}")
        given[next(iter(parameters))] = _value(level)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in parameters or key in given:
            raise ValueError(
                f"parameters of {name} must be {', '.join(parameters)}, each once, as key=value, not {setting!r}"
            )
        given[key] = _value(text)
    missing = [key for key, one in parameters.items() if key not in given and one.default is inspect.Parameter.empty]
    if missing:
        raise ValueError(f"{name} must have {', '.join(missing)}: write {name}:VALUE,parameter=value, not {spec!r}")
    return kind(**given)


def named_mechanisms() -> dict[str, type[mechanisms.Mechanism]]:
    """`{name: class}` of the mechanisms that a name and numbers make."""
    found = {name: getattr(mechanisms, name) for name in mechanisms.__all__}
    return {
        name: one
        for name, one in found.items()
        if inspect.isclass(one)
        and issubclass(one, mechanisms.Mechanism)
        and not inspect.isabstract(one)
        and one is not mechanisms.Memoized
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def adjacent_pair(mechanism: Any, sensitivity: float = 1.0) -> tuple[Any, Any]:
    """Two adjacent messages that are hard for a mechanism to hide.

    One-hot vectors of two options; two values; numbers a sensitivity apart; streams that differ in one value; scores of 10 options that
    all move by the sensitivity, one of them against the others. A mechanism that remembers its answers is audited on its first one.
    """
    inner = getattr(mechanism, "mechanism", mechanism)
    reach = getattr(inner, "sensitivity", None) or sensitivity
    if isinstance(inner, mechanisms.BitwiseRandomizedResponse | mechanisms.UnaryEncoding):
        one_hot = np.eye(2, dtype=np.int64)
        return one_hot[0], one_hot[1]
    if isinstance(inner, mechanisms.KaryRandomizedResponse | mechanisms.NoPrivacy):
        return 0, 1
    if isinstance(inner, mechanisms.Exponential):
        best = np.eye(NUM_VALUES)[0]
        return reach * best, reach * (1 - best)
    if isinstance(inner, mechanisms.TreeAggregation):
        stream = np.zeros(inner.horizon or NUM_VALUES)
        return stream, np.where(np.arange(stream.size) == 0, reach, 0.0)
    return 0.0, reach


@dataclass(frozen=True)
class _Overheard(mechanisms.NoPrivacy):
    """Leaves messages as they are, and notes their shape and the sensitivity that the world states."""

    closed_counts: ClassVar[bool] = False
    notes: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list, compare=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        self.notes.append((np.shape(x)[1:], sensitivity))
        return super().perturb(x, rng, sensitivity)


def adjacent_messages(site: Site, mechanism: Any) -> tuple[Any, Any]:
    """Two adjacent messages of a channel, as far apart as the world says, in a run of its own, that they can be.

    One-hot vectors of two options; two categories; numbers a sensitivity apart; scores as in `adjacent_pair`; vectors half a sensitivity
    from zero either way, in the direction (1, ..., 1).

    Raises:
        ValueError: nobody speaks in the run, or the world bounds no numbers.
    """
    overheard = _Overheard()
    private = Privatize(site.env, site.name, overheard)
    play(private, 1, private.channel_configs, as_policies(site.env, site.policy), 0, site.steps)
    if not overheard.notes:
        raise ValueError(f"steps must let somebody speak on channel {site.name!r}, not {site.steps!r}")
    shape, stated = overheard.notes[0]
    reach = getattr(mechanism, "sensitivity", None) or stated
    payload = site.env.channels[site.name].payload
    if payload == "one_hot":
        one_hot = np.eye(shape[0], dtype=np.int64)
        return one_hot[0], one_hot[1]
    if payload == "categorical":
        return 0, 1
    if reach is None:
        raise ValueError(f"env must bound what is said on channel {site.name!r}: it states no sensitivity")
    if payload == "scores":
        best = np.eye(shape[0])[0]
        return reach * best, reach * (1 - best)
    if not shape:
        return 0.0, reach
    half = np.full(shape, reach / 2 / math.prod(shape) ** 0.5)
    return -half, half


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
    """Audit mechanisms by name and print what came of it: a table, or one JSON document.

    Args:
        specs: as `parse_mechanism` takes them.
        site: where to put each, to audit what the ledger totals after a run; None: audit single messages.
        trials: of each; default: enough to certify 80% of what is claimed, at most 4 million (`trials_for`), or 10,000 runs.
        confidence: of each certificate.
        method: `white`, `black`, `one-run`; default: `white` where the mechanism has a log-likelihood ratio.
        delta: of the certificate; default: the mechanism's own.
        seed: of every audit.
        as_json: print one JSON document.
        plot: file for a figure of claimed against certified epsilon.
        progress: told what is being audited, and how much of everything is done, from 0 to 1.

    Returns:
        The results; a caller that wants an exit code asks whether any verdict is "violated".

    Raises:
        ValueError: as `parse_mechanism` and `audit` do.
    """
    number("confidence", confidence, above=0, below=1)
    chosen = [parse_mechanism(spec) for spec in specs]
    if not chosen:
        raise ValueError("specs must name at least one mechanism, as in BitwiseRandomizedResponse:1.0")
    subjects = [_subject(spec, one, site) for spec, one in zip(specs, chosen, strict=True)]
    counts = [_trials(one, confidence, site) if trials is None else trials for one in chosen]
    results = []
    for place, (spec, (subject, pair, known), count) in enumerate(zip(specs, subjects, counts, strict=True)):

        def tell(done: int, spec: str = spec, place: int = place, count: int = count) -> None:
            if progress is not None:
                progress(spec, (place + done / count) / len(specs))

        results.append(
            audit(
                subject,
                pair,
                count,
                confidence,
                seed,
                method,  # type: ignore[arg-type]  # audit checks it
                progress=tell,
                **known if delta is None else known | {"delta": delta},
            )
        )
    if plot is not None:
        plot_audits(results, plot)
    if as_json:
        json.dump({"audits": [_plain(result) for result in results]}, sys.stdout)
        print()
    else:
        print(audit_table(results))
    return results


def _subject(spec: str, mechanism: Any, site: Site | None) -> tuple[Any, Any, dict[str, Any]]:
    """What is audited, on which pair, and what else `audit` should know."""
    if site is None:
        return mechanism, adjacent_pair(mechanism), {"name": spec, "sensitivity": 1.0}
    private = Privatize(site.env, site.name, mechanism)
    known = {"policy": site.policy, "steps": site.steps, "delta": getattr(mechanism, "delta", 0.0)}
    return private, {site.name: adjacent_messages(site, mechanism)}, {"name": f"{site.name}={spec}", **known}


def _trials(mechanism: Any, confidence: float, site: Site | None) -> int:
    claimed = getattr(mechanism, "epsilon", math.inf)
    if site is not None:
        return DEFAULT_RUNS
    return min(trials_for(claimed, confidence), 4_000_000) if math.isfinite(claimed) else DEFAULT_TRIALS


def _plain(result: AuditResult) -> dict[str, Any]:
    """The result with null for what JSON has no number for."""
    found = result.as_dict() | {"threshold": list(result.threshold)}
    found["threshold"] = [value if math.isfinite(value) else None for value in found["threshold"]]
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in found.items()
    }
