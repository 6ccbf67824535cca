"""Mechanisms by name, and the values of their parameters as text."""

import inspect
import json
from typing import Any

from taciturn.plugins import Plugins
from taciturn.privacy import mechanisms
from taciturn.registry import UnknownName
from taciturn.validation import in_any_case


def parse_mechanism(spec: str) -> mechanisms.Mechanism:
    """The mechanism of `NAME[:VALUE][,parameter=value...]`, such as `Laplace:1.0,sensitivity=0.5`.

    VALUE is the mechanism's first parameter, its level. Values are read as JSON if possible, and as text otherwise.
    `Memoized:NAME...` memoizes the answers of that mechanism, `Scheduled:AT:NAME...` draws a single answer, at message
    AT, and `Shuffled:NAME...` and `CentralSum:NAME...` release the shuffled messages or the average of all senders.

    Raises:
        ValueError: the mechanism or a parameter is unknown, or a value is not allowed.
    """
    for around in (mechanisms.CentralSum, mechanisms.Memoized, mechanisms.Shuffled):
        if spec.startswith(f"{around.__name__}:"):
            return around(parse_mechanism(spec.removeprefix(f"{around.__name__}:")))
    if spec.startswith("Scheduled:"):
        _, at, inner = [*spec.split(":", 2), "", ""][:3]
        return mechanisms.Scheduled(parse_mechanism(inner), at=parsed(at))
    head, *settings = spec.split(",")
    name, colon, level = head.partition(":")
    own = own_mechanisms()
    if name not in own and level.partition(":")[0].isidentifier():  # module:Class[:VALUE]
        path, colon, level = level.partition(":")
        name = f"{name}:{path}"
    name = in_any_case(name, [*own, *MECHANISM_PLUGINS.entries])
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
    try:
        return kind(**given)
    except ValueError as error:
        if "delta" in parameters and "delta" not in given and "delta" in str(error):
            raise ValueError(f"{error}: write {spec},delta=1e-5, for instance") from error
        raise


AROUND = ("Mechanism", "CentralSum", "Memoized", "Scheduled", "Shuffled")
"""Mechanisms that need more than numbers as arguments."""


def own_mechanisms() -> dict[str, type[mechanisms.Mechanism]]:
    """`{name: class}` of this package's mechanisms that can be made from a name and numbers."""
    results = {name: getattr(mechanisms, name) for name in mechanisms.__all__ if name not in AROUND}
    return {name: one for name, one in results.items() if _is_mechanism(one)}


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
    """`{name: class}` of the mechanisms that can be made from a name and numbers, including usable ones of other
    packages."""
    return own_mechanisms() | MECHANISM_PLUGINS.load_all()


def parsed(text: str) -> Any:
    """A value on the command line: JSON if it parses as such, otherwise the text itself. Raises ValueError for JSON
    that is too large."""
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
