"""The fast form of the recommender: many rounds at once, for policies that learn from their own records and the third
party."""

from collections.abc import Callable
from dataclasses import dataclass

from taciturn.envs.core.public import Fast
from taciturn.validation import Array, Bools, Floats, Ints


@dataclass(frozen=True)
class Block:
    """T rounds to be played, without noise on any channel.

    Attributes:
        time: rounds played before.
        contexts: [T, B, W, d].
        luck: uniform numbers [T, B, W]; a user likes an item if the number is less than its mean reward.
        active: the items that agents have, bool[B, W, K].
        family: of mean rewards, by name.
        instance: `rewards.draw_instance`.
        items: the catalogue, [B, K, 5].
    """

    time: int
    contexts: Floats
    luck: Floats
    active: Bools
    family: str
    instance: dict[str, Array]
    items: Floats


@dataclass(frozen=True)
class RoundPlan(Fast):
    """Plays a `Block` as `act` and `update` would.

    Args:
        play: from a block (the items shown, int64[T, B, W]; who liked them, bool[T, B, W]; who had an answer of the
            third party, bool[T, B, W]; the messages that each agent sent for answers, int64[B, W]).
    """

    play: Callable[[Block], tuple[Ints, Bools, Bools, Ints]]
