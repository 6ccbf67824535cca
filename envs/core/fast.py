"""Fast forms: exact shortcuts of `act` that policies declare, and the rule that never lets one replace an overridden `act`."""

from typing import Any

from taciturn.envs.core.public import PublicView

__all__ = ["Fast", "fast_form"]

# What a subclass may override without changing how the policy acts.
HARMLESS = frozenset({"fast", "needs_truth", "prescribes", "progress"})


class Fast:
    """Base of the fast forms. One holds what a world needs to know of a policy to play many of its steps at once, with the same law.

    A world names the fast forms that it can play in `Population.jumps`.
    """


def fast_form(policy: Any, view: PublicView) -> Fast | None:
    """The fast form that `policy` declares by its method `fast(view)`; None if the policy must be played by `act`.

    A declaration holds for the class that makes it. If a derived class, or the object itself, overrides any attribute of that class, the
    shortcut may no longer agree with `act`, and it is not used unless the derived class declares a fast form of its own.
    """
    classes = type(policy).__mro__
    owner = next((place for place, cls in enumerate(classes) if "fast" in vars(cls)), None)
    if owner is None:
        return None
    known = classes[owner]
    for changed in (
        *map(vars, classes[:owner]),
        {k: v for k, v in getattr(policy, "__dict__", {}).items() if callable(v)},
    ):
        if any(hasattr(known, name) and name not in HARMLESS for name in changed if not name.startswith("__")):
            return None
    form: Fast | None = policy.fast(view)
    return form
