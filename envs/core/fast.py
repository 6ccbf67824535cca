"""Fast forms: exact shortcuts of `act` that a policy declares, and the rule by which one is never used in place of an overridden policy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taciturn.envs.core.public import PublicView

__all__ = ["Fast", "fast_form"]

# What a subclass may override without changing how the policy acts.
HARMLESS = frozenset({"fast", "needs_truth", "prescribes", "progress"})


class Fast:
    """Base of the fast forms: what a world needs to know of a policy to play many of its steps at once, with the same law.

    Each world that can do so names the types it knows in `Population.jumps`.
    """


def fast_form(policy: Any, view: "PublicView") -> Fast | None:
    """The fast form that `policy` declares by its method `fast(view)`; None if it must be played by `act`.

    A declaration speaks for the class that makes it. Where a class derived from that one, or the object itself, overrides anything of it
    (`act`, or any piece of it), nobody knows whether the shortcut still agrees with `act`, so it is not used.
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
