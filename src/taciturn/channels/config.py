"""The configuration of a channel: a mechanism, a budget and faults, how they are joined, and whether they fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from taciturn.channels.faults import Fault
from taciturn.privacy.mechanisms import Mechanism
from taciturn.validation import mapping, shown


@dataclass(frozen=True)
class ChannelConfig:
    """The settings of a channel, which wrappers install at a reset.

    Attributes:
        mechanism: perturbs each message.
        budget: stops an agent's messages before they overspend (`taciturn.privacy.budget.Budget`).
        faults: the faults; their order here does not matter.
    """

    mechanism: Mechanism | None = None
    budget: Any = None
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        faults: Any = self.faults
        if not isinstance(faults, tuple) or not all(isinstance(fault, Fault) for fault in faults):
            raise ValueError(f"faults must be a tuple of taciturn.wrappers' faults, not {self.faults!r}")


PLAIN = ChannelConfig()  # no mechanism, budget or fault


def asked_channels(options: Mapping[str, Any]) -> Mapping[str, ChannelConfig]:
    """The configurations of channels in the options of a reset; ValueError unless they are a mapping."""
    return mapping("options['channels']", options.get("channels"), "a dict {channel: ChannelConfig}")


def join(standing: Mapping[str, ChannelConfig], more: Mapping[str, ChannelConfig]) -> dict[str, ChannelConfig]:
    """Combine two `{channel: ChannelConfig}`; ValueError if a channel would get two mechanisms."""
    joined = dict(standing)
    for name, config in more.items():
        if not isinstance(config, ChannelConfig):
            raise ValueError(
                f"options['channels'][{name!r}] must be a ChannelConfig, as Privatize makes it, not {shown(config)}"
            )
        if name in standing:
            first = standing[name]
            if first.mechanism is not None and config.mechanism is not None:
                raise ValueError(f"channel {name!r} has a mechanism already: each channel takes one mechanism")
            private, other = (config, first) if first.mechanism is None else (first, config)
            budget = other.budget if private.budget is None else private.budget
            config = replace(private, budget=budget, faults=private.faults + other.faults)
        joined[name] = config
    return joined


def require_fit(channel: Any, config: ChannelConfig) -> None:
    """Raise ValueError if the mechanism's claim does not hold for the messages of a channel, or if the budget cannot
    count its cost."""
    mechanism, budget = config.mechanism, config.budget
    if mechanism is None:
        return
    if channel.additive and (mechanism.stateful or mechanism.kind not in ("none", "laplace", "gaussian")):
        raise ValueError(
            f"mechanism on channel {channel.name!r} must add fresh noise to numbers, without memory, not {mechanism!r}"
        )
    hides = channel.counted and budget is None and all(fault.observes for fault in config.faults)
    if mechanism.shuffles and not hides:
        raise ValueError(
            f"mechanism on channel {channel.name!r} must not be shuffled, as {mechanism!r} is, unless all agents send "
            "to a receiver that only adds their messages up, without a fault or budget that silences agents"
        )
    if mechanism.averages and not channel.averaged:
        raise ValueError(
            f"mechanism on channel {channel.name!r} must perturb each message, since receivers read each, not "
            f"{mechanism!r}"
        )
    if mechanism.averages and channel.num_senders > 1 and not mechanism.senders_may_read:  # type: ignore[attr-defined]
        raise ValueError(
            f"dropouts must be at least 1 on channel {channel.name!r}, not as in {mechanism!r}: each sender reads the "
            "sum and knows its own share of the noise"
        )
    if mechanism.averages and any(fault.late for fault in config.faults):
        raise ValueError(f"faults on channel {channel.name!r} must not delay messages of {mechanism!r}")
    if budget is not None and mechanism.changes_leak and budget.messages(mechanism.loss()) >= 2:
        raise ValueError(
            f"budget on channel {channel.name!r} must be smaller than two answers of {mechanism!r}, not {budget!r}: a "
            "second answer reveals that the value changed, which no budget bounds"
        )
    fits = channel.payload in mechanism.payloads
    if not fits or (mechanism.per_stream and channel.unit == "user"):
        carried = f"{channel.payload!r} messages" if not fits else "every user's whole data in all of its messages"
        raise ValueError(
            f"mechanism must fit channel {channel.name!r}, which carries {carried}, and {mechanism!r} is made for "
            f"{' or '.join(map(repr, sorted(mechanism.payloads)))} messages"
            f"{', each event in one of them' * mechanism.per_stream}"
        )
