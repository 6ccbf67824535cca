"""`tacit audit`: what a mechanism's claim is worth, from its name on the command line."""

import inspect
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.core import number
from tacit.registry import UnknownName
from tacit.wrappers.privacy import mechanisms
from tacit.wrappers.privacy.audit import AuditResult, audit, audit_table, plot_audits, trials_for

__all__ = ["adjacent_pair", "audit_command", "parse_mechanism"]

NUM_VALUES = 10
DEFAULT_TRIALS = 100_000


def parse_mechanism(spec: str) -> mechanisms.Mechanism:
    """The mechanism of `NAME[:VALUE][,parameter=value...]`, such as `Laplace:1.0,sensitivity=0.5`.

    VALUE is the mechanism's first parameter, its level; values are JSON where they can be, else text.

    Raises:
        ValueError: an unknown mechanism or parameter, or a value that is not allowed.
    """
    head, *settings = spec.split(",")
    name, colon, level = head.partition(":")
    known = [one for one in mechanisms.__all__ if _is_named(getattr(mechanisms, one))]
    if name not in known:
        raise UnknownName("mechanism", name, known)
    kind: type[mechanisms.Mechanism] = getattr(mechanisms, name)
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


def _is_named(found: Any) -> bool:
    """A mechanism that a name and numbers make."""
    return (
        inspect.isclass(found)
        and issubclass(found, mechanisms.Mechanism)
        and not inspect.isabstract(found)
        and found is not mechanisms.Memoized
    )


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


def audit_command(
    specs: Sequence[str],
    *,
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
        trials: of each; default: enough to certify 80% of what is claimed, at most 4 million (`trials_for`).
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
    counts = [_trials(one, confidence) if trials is None else trials for one in chosen]
    results = []
    for place, (spec, mechanism, count) in enumerate(zip(specs, chosen, counts, strict=True)):

        def tell(done: int, spec: str = spec, place: int = place, count: int = count) -> None:
            if progress is not None:
                progress(spec, (place + done / count) / len(specs))

        results.append(
            audit(
                mechanism,
                adjacent_pair(mechanism),
                count,
                confidence,
                seed,
                method,  # type: ignore[arg-type]  # audit checks it
                delta=delta,
                sensitivity=1.0,
                name=spec,
                progress=tell,
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


def _trials(mechanism: Any, confidence: float) -> int:
    claimed = getattr(mechanism, "epsilon", math.inf)
    return min(trials_for(claimed, confidence), 4_000_000) if math.isfinite(claimed) else DEFAULT_TRIALS


def _plain(result: AuditResult) -> dict[str, Any]:
    """The result with null for what JSON has no number for."""
    found = result.as_dict() | {"threshold": list(result.threshold)}
    found["threshold"] = [value if math.isfinite(value) else None for value in found["threshold"]]
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in found.items()
    }
